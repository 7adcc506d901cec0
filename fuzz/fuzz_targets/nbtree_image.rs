//! Any pages are answered: nothing panics, and nothing goes round.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::nbtree_image(data));
