//! What went wrong while the catalogs were read, without keeping them from being read further.
use crate::DatadirError;

/// The first so many problems.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems {
    kept: Vec<DatadirError>,
}

/// How many are kept.
const KEPT: usize = 1000;

impl Problems {
    pub(crate) fn add(&mut self, problem: DatadirError) {
        if self.kept.len() < KEPT {
            self.kept.push(problem);
        }
    }

    pub(crate) fn kept(&self) -> &[DatadirError] {
        &self.kept
    }
}
