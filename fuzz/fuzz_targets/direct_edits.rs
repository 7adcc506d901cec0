//! Edited values equal a flat array of bytes, and no tuple is lost or left.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::direct_edits(data));
