//! Any bytes are a datum that lies inside them, or a located error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::varlena_parse(data));
