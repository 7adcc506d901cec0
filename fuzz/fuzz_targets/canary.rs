//! Must fail: it shows that the harness notices.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::canary(data));
