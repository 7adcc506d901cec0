//! Work in pieces, for whichever thread comes first.
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// The numbers from 0 to an end, in pieces. Each is handed out once, in ascending order, so that what one
/// thread sees comes in the order of the whole, too.
#[derive(Debug)]
pub(super) struct Pieces {
    next: AtomicU32,
    end: u32,
    len: u32,
}

impl Pieces {
    /// For so many threads, in pieces of `least` or more.
    pub(super) fn new(end: u32, threads: usize, least: u32) -> Self {
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        let len = match threads {
            0 | 1 => end,
            // Small enough that nobody waits long for the last ones.
            _ => (end / threads / PIECES_EACH).max(least),
        };
        Self { next: AtomicU32::new(0), end, len: len.max(1) }
    }
}

/// How many pieces a thread gets, about.
const PIECES_EACH: u32 = 16;

impl Iterator for &Pieces {
    type Item = Range<u32>;

    fn next(&mut self) -> Option<Range<u32>> {
        let take =
            |next: u32| (next < self.end).then(|| next.saturating_add(self.len).min(self.end));
        let start = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(start..take(start)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_one_piece() {
        for (end, threads, least) in
            [(0, 1, 1), (1, 4, 8), (1000, 1, 8), (1000, 3, 8), (u32::MAX, 2, 8)]
        {
            let pieces = Pieces::new(end, threads, least);
            let mut next = 0;
            for piece in &pieces {
                assert_eq!(piece.start, next);
                assert!(piece.end > piece.start);
                next = piece.end;
            }
            assert_eq!(next, end, "{threads} threads");
        }
    }
}
