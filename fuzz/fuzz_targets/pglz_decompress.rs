//! Any stream decompresses to exactly what was asked for, or to an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::pglz_decompress(data));
