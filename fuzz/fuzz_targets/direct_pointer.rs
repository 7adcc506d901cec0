//! Any bytes as a pointer and a tuple: what parses encodes to the same.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::direct_pointer(data));
