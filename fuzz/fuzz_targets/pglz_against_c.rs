//! Streams, refusals, verdicts and bytes are PostgreSQL's own, where its archive was found by the build;
//! else the naive twin's.
#![no_main]
#[path = "../../benches/src/peers/pgcommon.rs"]
mod pgcommon;
#[path = "../../benches/src/peers/pglz_c.rs"]
mod pglz_c;

use pgtoast_fuzzing::{pglz_against, pglz_against_twin};
use pgtoast_pglz::CharSign;

libfuzzer_sys::fuzz_target!(
    init: if !pgcommon::AVAILABLE {
        eprintln!("pglz_against_c: {}; comparing with the naive twin", pgcommon::ABSENT);
    },
    |data: &[u8]| match pgcommon::AVAILABLE {
        true => pglz_against(pglz_c::PglzC::default(), CharSign::Signed, data),
        false => pglz_against_twin(data),
    }
);
