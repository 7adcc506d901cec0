//! A toaster ends, keeps to what columns allow, and makes a row fit or says why it cannot.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pgtoast_fuzzing::toaster_decisions(data));
