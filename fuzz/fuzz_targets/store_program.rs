//! A store's transactions see what a list of row versions says, on a disk that fails.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::store_program(data));
