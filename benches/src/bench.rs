//! What a suite is given: how hard to try, until when, and where to show how far it is.
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// At most 15 seconds a suite, its set-up included.
    Quick,
    /// A few minutes a suite, and larger data.
    Full,
}

impl Effort {
    /// The time a suite has, its set-up included.
    #[must_use]
    pub fn budget(self) -> Duration {
        match self {
            Self::Quick => Duration::from_secs(15),
            Self::Full => Duration::from_secs(150),
        }
    }
}

/// One suite's run: its options, its clock, its progress.
#[derive(Debug)]
pub struct Bench {
    effort: Effort,
    input: Option<PathBuf>,
    instructions: bool,
    started: Instant,
    progress: ProgressBar,
}

impl Bench {
    /// Starts the clock of a suite.
    #[must_use]
    pub fn start(
        suite: &'static str,
        effort: Effort,
        input: Option<PathBuf>,
        instructions: bool,
    ) -> Self {
        let progress = ProgressBar::new(0);
        let style = ProgressStyle::with_template(
            "{prefix:>10} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}",
        );
        progress.set_style(
            style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "),
        );
        progress.set_prefix(suite);
        if std::io::stderr().is_terminal() {
            progress.enable_steady_tick(Duration::from_millis(200));
        } else {
            // A log gets a line a suite in place of a bar; that it cannot be written is no reason to
            // stop measuring.
            let _ = writeln!(std::io::stderr(), "suite {suite} …");
        }
        Self { effort, input, instructions, started: Instant::now(), progress }
    }

    /// Quick or full.
    #[must_use]
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// A file whose contents take the place of generated data, in suites that can use one.
    #[must_use]
    pub fn input(&self) -> Option<&PathBuf> {
        self.input.as_ref()
    }

    /// Whether to count instructions as well, in suites that can.
    #[must_use]
    pub fn instructions(&self) -> bool {
        self.instructions
    }

    /// Says that so many more steps are coming.
    pub fn expect_steps(&self, count: usize) {
        self.progress.inc_length(count as u64);
    }

    /// Names the step that starts now.
    pub fn step(&self, what: impl Into<String>) {
        let what = what.into();
        if !self.progress.is_hidden() {
            self.progress.inc(1);
        }
        self.progress.set_message(what);
    }

    /// What is left of the suite's time, in equal parts for `cells` comparisons to come, less a
    /// tenth for what goes on between them.
    #[must_use]
    pub fn share(&self, cells: usize) -> Duration {
        let left = self.effort.budget().saturating_sub(self.started.elapsed());
        left.mul_f64(0.9 / cells.max(1) as f64)
    }

    /// Since the suite was started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        self.progress.finish_and_clear();
    }
}
