//! Long random programs over memory contexts. `PGTOAST_MEMCTX_OPS` says how many operations for each kind
//! of context; a few thousand otherwise.
use pgtoast_fuzzing::memctx_program;
use pgtoast_testkit::Rng;

#[test]
fn random_programs_of_every_kind_release_and_shape_change_no_chunk() {
    let wanted = std::env::var("PGTOAST_MEMCTX_OPS").ok().and_then(|ops| ops.parse().ok());
    let wanted: usize = wanted.unwrap_or(10_000);
    let mut rng = Rng::new(9);
    for kind in 0..5 {
        let mut done = 0;
        while done < wanted {
            // Short ones end with chunks of every age, long ones reach blocks of every size.
            let ops = if rng.below(4) == 0 { 3000 } else { 200 };
            let mut program = rng.bytes(3 + 4 * ops);
            program[0] = kind;
            memctx_program(&program);
            done += ops;
        }
    }
}
