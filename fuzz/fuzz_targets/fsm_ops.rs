//! Any program of operations leaves the map, its twin, the model and the shared map agreed.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::fsm_ops(data));
