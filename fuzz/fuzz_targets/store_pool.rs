//! A pool of pages holds what a list does, on a disk that fails and a file that is damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::store_pool(data));
