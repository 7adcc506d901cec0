//! Chunks in any order give the value or a located error, never other bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::toast_assembly(data));
