//! Any bytes are a page or a located error, and every finding lies inside the page.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::page_parse(data));
