//! Any program of transactions comes out as the committed ones, in the order of their commits, and leaves
//! nothing behind.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::reorder_program(data));
