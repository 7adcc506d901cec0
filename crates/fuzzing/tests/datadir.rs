//! Many damaged data directories, the same ones in every run. `PGTOAST_DAMAGED` asks for more.
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pgtoast_fuzzing::datadir_mutated;
use pgtoast_testkit::Rng;

const DIRECTORIES: u64 = 2500;

#[test]
fn whatever_is_damaged_the_rest_is_read_and_what_reads_as_whole_is_whole() {
    let asked_for = env::var("PGTOAST_DAMAGED").ok().and_then(|count| count.parse().ok());
    let count = asked_for.unwrap_or(DIRECTORIES);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                break;
            }
            damage(seed);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

/// One to eight operations; a third of the programs flips bits and takes away, so that values are
/// compared.
fn damage(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut program = vec![u8::try_from(seed % 2).expect("a bit")];
    for _ in 0..rng.between(1, 8) {
        let mut operation = rng.bytes(10);
        if seed.is_multiple_of(3) {
            operation[0] = [0, 0, 0, 6, 7, 8, 9, 0][usize::from(operation[0]) % 8];
        }
        program.extend(operation);
    }
    datadir_mutated(&program);
}
