//! What every model of the store runs in.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use pgtoast_store::{Mutant, seed};

/// Runs a model with that bug seeded, trying at most so many preemptions in one run of it.
pub(crate) fn explore(
    preemptions: usize,
    mutant: Mutant,
    model: impl Fn() + Sync + Send + 'static,
) {
    seed(mutant);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    let runs = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = {
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
            model();
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| builder.check(counted)));
    seed(Mutant::None);
    let runs = runs.load(Ordering::Relaxed);
    #[expect(clippy::print_stdout, reason = "the runner reads these lines")]
    {
        println!("pgtoast-count: {mutant:?}: {runs} runs with at most {preemptions} preemptions");
    }
    match (mutant, result) {
        (Mutant::None, Ok(())) => {}
        (Mutant::None, Err(panic)) => std::panic::resume_unwind(panic),
        (_, Err(_)) => {}
        (mutant, Ok(())) => panic!("{mutant:?} was not noticed"),
    }
}
