//! Where findings go, from several threads at once.
use std::sync::{Arc, Mutex, PoisonError};

use super::{Coverage, Finding, SkipReason, Subject};

/// Takes findings as they come, so that a check needs no memory for them. Findings of one block come
/// in the order of its items; with several threads, those of different blocks in any order.
pub trait Findings: Send {
    /// Takes a finding.
    fn report(&mut self, finding: Finding);

    /// Hears that so many more bytes have been read.
    fn progress(&mut self, bytes: u64) {
        let _ = bytes;
    }
}

impl<F: FnMut(Finding) + Send> Findings for F {
    fn report(&mut self, finding: Finding) {
        self(finding);
    }
}

/// What the threads of a check share: the taker of findings, and what was covered.
pub(super) struct Report<'a> {
    inner: Mutex<Inner<'a>>,
}

struct Inner<'a> {
    findings: &'a mut dyn Findings,
    coverage: Coverage,
}

impl<'a> Report<'a> {
    pub(super) fn new(findings: &'a mut dyn Findings) -> Self {
        Self { inner: Mutex::new(Inner { findings, coverage: Coverage::default() }) }
    }

    pub(super) fn tell(&self, finding: Finding) {
        self.with(|inner| {
            inner.coverage.findings.count(finding.severity());
            inner.findings.report(finding);
        });
    }

    pub(super) fn progress(&self, bytes: u64) {
        self.with(|inner| inner.findings.progress(bytes));
    }

    pub(super) fn skip(&self, subject: Option<&Arc<Subject>>, reason: SkipReason) {
        self.with(|inner| inner.coverage.skip(subject, reason));
    }

    pub(super) fn add(&self, coverage: &Coverage) {
        self.with(|inner| inner.coverage.add(coverage));
    }

    pub(super) fn into_coverage(self) -> Coverage {
        self.inner.into_inner().unwrap_or_else(PoisonError::into_inner).coverage
    }

    fn with(&self, work: impl FnOnce(&mut Inner<'a>)) {
        // A taker that panicked has taken its thread along; the counts are sound all the same.
        work(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
