//! The walk along whole buckets, as C does it, for strategies whose searches end early.
//!
//! Where what is good enough falls below three bytes, a position ends a search that shares two bytes, one,
//! or none with the one looked for. It must be found then, and its bucket is all that leads to it.
use crate::block::Sorting;
use crate::format::{DISTANCE_STOP, MATCH_MAX, MATCH_MIN};
use crate::index::Index;
use crate::output::Output;
use crate::strategy::Limits;
use crate::words::common_len;

/// Compresses into a target that is large enough. The index takes buckets for slots meanwhile; what it
/// held is of values before this one, and out of reach.
pub(crate) fn run<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
    source: &[u8],
    limits: &Limits,
    sorting: Sorting,
    index: &mut Index<SLOTS, BUCKETS, RING>,
    target: &mut [u8],
) -> Option<usize> {
    let mut output = Output::new(target, limits.output_limit, limits.first_success_by);
    let mut at = 0;
    while at < source.len() {
        if output.is_over() {
            return None;
        }
        let (len, distance) = find(source, at, limits, sorting, index);
        let taken = if len < MATCH_MIN { 1 } else { len };
        if taken == 1 {
            output.literal(source[at]);
        } else {
            output.tag(len, distance);
        }
        for position in at..at + taken {
            let bucket = sorting.bucket(&source[position..]);
            index.enter(index.ticket(), bucket, bucket);
            index.advance(1);
        }
        at += taken;
    }
    let len = output.finish();
    (len < limits.output_limit).then_some(len)
}

/// The longest of the positions visited, and how far back it is.
fn find<const SLOTS: usize, const BUCKETS: usize, const RING: usize>(
    source: &[u8],
    at: usize,
    limits: &Limits,
    sorting: Sorting,
    index: &Index<SLOTS, BUCKETS, RING>,
) -> (usize, usize) {
    let here = &source[at..source.len().min(at + MATCH_MAX)];
    let ticket = index.ticket();
    let bucket = sorting.bucket(&source[at..]);
    let (mut best, mut best_distance) = (0, 0);
    let mut good = limits.good_match;
    let mut distance = index.nearest(ticket, bucket);
    while distance <= at.min(DISTANCE_STOP - 1) {
        let there = &source[at - distance..];
        // Where there are more buckets than slots, some share a slot.
        if sorting.bucket(there) == bucket {
            let len = common_len(here, there);
            if len > best {
                (best, best_distance) = (len, distance);
            }
            if best >= good as usize {
                break;
            }
            good = limits.decay(good);
        }
        distance = index.farther(ticket, distance);
    }
    (best, best_distance)
}
