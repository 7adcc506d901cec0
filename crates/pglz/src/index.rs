//! Which earlier positions start with the same four bytes as a given one, and how many of its bucket
//! lie between.
#![expect(clippy::cast_possible_truncation, reason = "tickets and distances are modulo 2^16")]
use crate::format::DISTANCE_STOP;

/// Positions entered between two sweeps; tickets wrap at four times as many.
const SWEEP: u16 = 16384;

/// For a value of any length: 16 384 slots, the most buckets that PostgreSQL's table has, and all
/// positions that can be looked back on.
pub(crate) type FullIndex = Index<{ 1 << 14 }, { 1 << 13 }, 4096>;

/// Positions by their next four bytes, and their ranks in PostgreSQL's buckets.
///
/// **Invariant:** all three sizes are powers of two. No value has more buckets than `BUCKETS`, and
/// none more positions than `RING` unless that is more than a search looks back.
///
/// A position is kept as a *ticket*: a count of positions that runs on from value to value, modulo
/// 2^16. The difference of two tickets is a distance, true as long as it is below 2^16; a sweep every
/// 16384 positions moves what is out of reach to where it stays out of reach until the next.
#[derive(Clone, Debug)]
pub(crate) struct Index<const SLOTS: usize, const BUCKETS: usize, const RING: usize> {
    /// The ticket of position 0 of the next value.
    next: u16,
    /// Positions that may be entered before the next sweep.
    until_sweep: u16,
    /// By slot of four bytes, the ticket of the newest position.
    newest: [u16; SLOTS],
    /// By bucket, how many positions were ever entered, modulo 2^16.
    counts: [u16; BUCKETS],
    /// By ticket modulo its length, what was there before it.
    ring: [Before; RING],
}

/// What a position found when it was entered.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// The ticket that was newest in its slot.
    newest: u16,
    /// The count of its bucket.
    count: u16,
}

impl<const SLOTS: usize, const BUCKETS: usize, const RING: usize> Index<SLOTS, BUCKETS, RING> {
    /// What is left of a 16-bit hash as a slot once it was shifted by this.
    pub(crate) const SLOT_SHIFT: u32 = 16 - SLOTS.trailing_zeros();

    /// Whether a value of this length keeps the invariant.
    pub(crate) const fn takes(source_len: usize) -> bool {
        RING > DISTANCE_STOP || source_len <= RING
    }

    pub(crate) const fn new() -> Self {
        const { assert!(SLOTS.is_power_of_two() && SLOTS <= 1 << 14) };
        const { assert!(BUCKETS.is_power_of_two() && RING.is_power_of_two() && RING <= 4096) };
        Self {
            next: SWEEP,
            until_sweep: SWEEP,
            newest: [0; SLOTS],
            counts: [0; BUCKETS],
            ring: [Before { newest: 0, count: 0 }; RING],
        }
    }

    /// The ticket of the next position to be entered.
    #[inline(always)]
    pub(crate) const fn ticket(&self) -> u16 {
        self.next
    }

    /// Says that so many positions were entered, at most 4096 since the last call.
    pub(crate) fn advance(&mut self, entered: usize) {
        self.next = self.next.wrapping_add(entered as u16);
        self.until_sweep -= entered as u16;
        if self.until_sweep < 4096 {
            self.sweep();
        }
    }

    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        let far = self.next.wrapping_sub(SWEEP / 2);
        for newest in &mut self.newest {
            let distance = self.next.wrapping_sub(*newest);
            *newest = if distance < SWEEP / 2 { *newest } else { far };
        }
        self.until_sweep = SWEEP;
    }

    /// Enters a position.
    #[inline(always)]
    pub(crate) fn enter(&mut self, ticket: u16, slot: u16, bucket: u16) {
        let newest = &mut self.newest[usize::from(slot) % SLOTS];
        let count = &mut self.counts[usize::from(bucket) % BUCKETS];
        self.ring[usize::from(ticket) % RING] = Before { newest: *newest, count: *count };
        *newest = ticket;
        *count = count.wrapping_add(1);
    }

    /// Enters positions next to each other, the first of them with this ticket.
    #[inline(always)]
    pub(crate) fn enter_all(&mut self, first: u16, slots: &[u16], buckets: &[u16]) {
        let mut ticket = first;
        for (&slot, &bucket) in slots.iter().zip(buckets) {
            self.enter(ticket, slot, bucket);
            ticket = ticket.wrapping_add(1);
        }
    }

    /// The distance from `ticket`, not yet entered, to the newest one in its slot.
    #[inline(always)]
    pub(crate) fn nearest(&self, ticket: u16, slot: u16) -> usize {
        usize::from(ticket.wrapping_sub(self.newest[usize::from(slot) % SLOTS]))
    }

    /// The distance from `ticket` to the one before `distance` in the same slot.
    #[inline(always)]
    pub(crate) fn farther(&self, ticket: u16, distance: usize) -> usize {
        let there = ticket.wrapping_sub(distance as u16);
        usize::from(ticket.wrapping_sub(self.ring[usize::from(there) % RING].newest))
    }

    /// How many positions of `ticket`'s bucket are newer than the one at `distance`, which is in it.
    #[inline(always)]
    pub(crate) fn rank(&self, ticket: u16, bucket: u16, distance: usize) -> u16 {
        let there = ticket.wrapping_sub(distance as u16);
        let entered = self.ring[usize::from(there) % RING].count.wrapping_add(1);
        self.counts[usize::from(bucket) % BUCKETS].wrapping_sub(entered)
    }
}
