//! Long random walks over a reorder buffer, in every layout, with and without streaming, with a store that
//! fails now and then: after each, all accounts are 0 and no file is left.
use pgtoast_fuzzing::reorder_program;
use pgtoast_testkit::Rng;

#[test]
fn a_hundred_thousand_steps_send_what_was_committed_and_leave_nothing() {
    let mut rng = Rng::new(5);
    let mut done = 0;
    while done < 100_000 {
        let ops = if rng.below(4) == 0 { 5000 } else { 300 };
        reorder_program(&rng.bytes(3 + 4 * ops));
        done += ops;
    }
}

#[test]
fn every_layout_goes_every_way() {
    let mut rng = Rng::new(6);
    for layout in 0..4 {
        for limit in 0..4 {
            for ways in 0..16 {
                let mut program = rng.bytes(3 + 4 * 150);
                program[..3].copy_from_slice(&[layout, limit, ways]);
                reorder_program(&program);
            }
        }
    }
}
