//! A prefix of a value is the start of the whole value, for both methods.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::codec_prefix(data));
