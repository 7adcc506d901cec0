//! Whatever happens to rows, their TOAST relation holds their values and no others.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::toast_rows(data));
