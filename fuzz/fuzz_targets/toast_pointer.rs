//! A TOAST pointer that parses encodes to the same bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::toast_pointer(data));
