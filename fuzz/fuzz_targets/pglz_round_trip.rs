//! What pglz compresses comes back whole, from each decoder and as each prefix.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::pglz_round_trip(data));
