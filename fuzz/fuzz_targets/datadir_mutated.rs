//! A damaged data directory opens or is refused, and what reads as whole is as it was.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::datadir_mutated(data));
