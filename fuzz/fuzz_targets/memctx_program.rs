//! Any program of operations leaves every chunk of a context as it was made, and its account true.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::memctx_program(data));
