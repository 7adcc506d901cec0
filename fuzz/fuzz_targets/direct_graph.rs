//! Any graph of tuples is read to an end: a value, or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::direct_graph(data));
