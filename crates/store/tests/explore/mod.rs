//! What every model of the store runs in.
use pgtoast_store::{Mutant, seed};
use pgtoast_testkit::models;

/// Runs a model with that bug seeded, trying at most so many preemptions in one run of it.
pub(crate) fn explore(
    preemptions: usize,
    mutant: Mutant,
    model: impl Fn() + Sync + Send + 'static,
) {
    models::explore(seed, preemptions, mutant, model);
}
