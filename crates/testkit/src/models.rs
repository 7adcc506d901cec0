//! What the models of concurrent code run in. There is none but under the model checker, `--cfg pgtoast_loom`.
//!
//! Each model runs sound, and again with each bug that it is there for seeded into the code: those runs
//! must fail, or the model shows nothing.
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::report;

/// How often one run of a model may come to a choice before it counts as one that does not end.
const MOST_CHOICES: usize = 100_000;

/// Runs a model with that bug seeded by the crate that it is of, trying at most so many preemptions in one
/// run of it. The default of `mutant` is no bug.
///
/// # Panics
///
/// When the model fails without a bug, or does not fail with one.
pub fn explore<M: Copy + Debug + Default + PartialEq>(
    seed: fn(M),
    preemptions: usize,
    mutant: M,
    model: impl Fn() + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = MOST_CHOICES;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = {
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
            model();
        }
    };
    seed(mutant);
    let result = catch_unwind(AssertUnwindSafe(|| builder.check(counted)));
    seed(M::default());
    let runs = runs.load(Ordering::Relaxed);
    let what = format_args!("{runs} runs with at most {preemptions} preemptions");
    report::count(&format!("{mutant:?}"), what);
    match (mutant == M::default(), result) {
        (true, Ok(())) | (false, Err(_)) => {}
        (true, Err(panic)) => resume_unwind(panic),
        (false, Ok(())) => panic!("{mutant:?} was not noticed"),
    }
}
