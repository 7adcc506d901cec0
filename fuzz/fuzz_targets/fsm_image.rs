//! Any pages are a map: searches end within the relation, and one vacuum mends all.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::fsm_image(data));
