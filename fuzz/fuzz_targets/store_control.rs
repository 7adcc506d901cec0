//! Any bytes as a control file are one or an error; sealed, they come back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::store_control(data));
