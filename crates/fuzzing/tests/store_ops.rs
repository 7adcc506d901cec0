//! Random programs of transactions over a small store, the same ones in every run. `PGTOAST_STORE_PROGRAMS`
//! asks for more.
use std::env;

use pgtoast_fuzzing::store_program;
use pgtoast_testkit::Rng;

const PROGRAMS: u64 = 400;

#[test]
fn every_transaction_sees_what_the_model_has_whatever_the_disk_does() {
    let asked_for = env::var("PGTOAST_STORE_PROGRAMS").ok().and_then(|count| count.parse().ok());
    for seed in 0..asked_for.unwrap_or(PROGRAMS) {
        let mut rng = Rng::new(seed);
        let ops = rng.between(20, 250);
        let mut program = rng.bytes(2 + 4 * ops);
        if seed.is_multiple_of(2) {
            // A disk that never fails: all that is refused then is a fault of the store.
            program[2..].chunks_mut(4).filter(|op| op[0] % 32 == 31).for_each(|op| op[0] = 0);
        }
        store_program(&program);
    }
}
