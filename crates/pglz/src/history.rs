//! Which earlier positions hash like a given one.
use crate::CharSign;
use crate::format::DISTANCE_STOP;

/// Most buckets a source can need.
const BUCKETS: usize = 8192;
/// Positions that can be looked back on, rounded up to a power of two.
const RING: u32 = 4096;
const _: () = assert!(RING as usize == DISTANCE_STOP + 1);

/// Linked lists of positions, one a bucket, that outlive the value they were made for.
///
/// A position is kept as a *ticket*: itself plus a base that grows from value to value. Ticket minus
/// ticket is a distance, and whatever an earlier value left is farther away than any search goes.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The base for the next value, at least `RING` above every ticket given out.
    next_base: u32,
    /// By bucket, the ticket of the newest position in it.
    newest: [u32; BUCKETS],
    /// By ticket modulo its length, the ticket that was newest in the bucket before.
    previous: [u32; RING as usize],
}

impl History {
    pub(crate) const fn new() -> Self {
        Self { next_base: RING, newest: [0; BUCKETS], previous: [0; RING as usize] }
    }

    /// An empty history for a source of this many bytes, at most 2^31 - 1.
    #[expect(clippy::cast_possible_truncation, reason = "the strategy caps the source at 2^31 - 1")]
    pub(crate) fn start(&mut self, source_len: usize) -> Positions<'_> {
        let used = source_len as u32 + RING;
        let base = if self.next_base > u32::MAX - used {
            // Out of numbers: this once, clear.
            self.newest.fill(0);
            RING
        } else {
            self.next_base
        };
        self.next_base = base + used;
        Positions { base, newest: &mut self.newest, previous: &mut self.previous }
    }
}

/// The history of one value.
pub(crate) struct Positions<'a> {
    base: u32,
    newest: &'a mut [u32; BUCKETS],
    previous: &'a mut [u32; RING as usize],
}

impl Positions<'_> {
    #[expect(clippy::cast_possible_truncation, reason = "a position in at most 2^31 - 1 bytes")]
    fn ticket(&self, at: usize) -> u32 {
        self.base + at as u32
    }

    /// Makes the position the newest of its bucket.
    pub(crate) fn enter(&mut self, at: usize, bucket: usize) {
        let ticket = self.ticket(at);
        let newest = &mut self.newest[bucket];
        self.previous[(ticket % RING) as usize] = *newest;
        *newest = ticket;
    }

    /// The distances from `at`, not yet entered, to the positions in the bucket, nearest first, as far
    /// as PostgreSQL looks.
    pub(crate) fn candidates(&self, at: usize, bucket: usize) -> impl Iterator<Item = usize> {
        let here = self.ticket(at);
        let near = move |&ticket: &u32| here - ticket < RING - 1;
        let newest = Some(self.newest[bucket]).filter(near);
        core::iter::successors(newest, move |ticket| {
            Some(self.previous[(ticket % RING) as usize]).filter(near)
        })
        .map(move |ticket| (here - ticket) as usize)
    }
}

/// Sorts the positions of a source into buckets, as C does with `char`s of one sign or the other.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    source: &'a [u8],
    sign: CharSign,
    mask: usize,
}

impl<'a> Bucket<'a> {
    pub(crate) fn new(source: &'a [u8], sign: CharSign) -> Self {
        let count = match source.len() {
            ..128 => 512,
            128..256 => 1024,
            256..512 => 2048,
            512..1024 => 4096,
            1024.. => BUCKETS,
        };
        Self { source, sign, mask: count - 1 }
    }

    /// The bucket of a position: from its next four bytes, or from one where fewer are left.
    #[expect(clippy::cast_sign_loss, reason = "the mask keeps the low bits, whatever the sign")]
    pub(crate) fn of(&self, at: usize) -> usize {
        let char = |byte: u8| self.sign.widen(byte);
        let hash = match self.source[at..] {
            [a, b, c, d, ..] => char(a) << 6 ^ char(b) << 4 ^ char(c) << 2 ^ char(d),
            [a, ..] => char(a),
            [] => 0,
        };
        hash as usize & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_value_sees_nothing_of_the_old_even_when_the_numbers_run_out() {
        let mut history = History::new();
        let mut lap = 0;
        for _ in 0..5 {
            let before = history.next_base;
            let mut positions = history.start(i32::MAX as usize);
            lap += usize::from(positions.base < before);
            for at in [0, 1, 9000, i32::MAX as usize - 1] {
                assert_eq!(positions.candidates(at, 7).count(), 0, "position {at}");
            }
            positions.enter(0, 7);
            positions.enter(i32::MAX as usize - 2, 7);
            let last = i32::MAX as usize - 1;
            assert!(positions.candidates(last, 7).eq([1]), "the first is too far back");
        }
        assert!(lap >= 2, "the numbers did run out");
    }
}
