//! Any sequence of changes to a page leaves the page that the readable model has.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::page_program(data));
