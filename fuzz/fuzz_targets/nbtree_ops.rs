//! Any program of operations leaves the index with what a map holds, and sound.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::nbtree_ops(data));
