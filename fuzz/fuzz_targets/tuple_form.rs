//! Any values become the tuple that the readable model makes, and come back from it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::tuple_form(data));
