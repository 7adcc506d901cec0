//! How far a command is, on standard error.
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar with the time that is left; nothing unless standard error is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(super) fn new(total_bytes: u64, is_quiet: bool) -> Self {
        let is_shown = !is_quiet && std::io::stderr().is_terminal();
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total_bytes), target);
        let style = ProgressStyle::with_template(
            "{bar:30} {percent:>3} % of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
        );
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        Self { bar }
    }

    /// So many more bytes have been read.
    pub(super) fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Prints a line above the bar, so that the two do not mix.
    pub(super) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
