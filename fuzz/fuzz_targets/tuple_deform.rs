//! Any tuple under any descriptor gives attributes that lie inside it, or a located error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::tuple_deform(data));
