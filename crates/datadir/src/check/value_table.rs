//! The values that a TOAST relation's runs of chunks make up: which are whole, and which nobody wants.
//!
//! A value is whole if its runs, in the order of their numbers, begin at 0 and leave no gap.
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use pgtoast_base::{ItemPointer, Oid, Oid8};
use pgtoast_varlena::{CompressionInfo, ToastPointer};

use super::runs::{ChunkFault, Run, sort};
use super::{FindingKind, Readable};

/// What is shared out among threads comes in parts of so many runs at least.
const LEAST_RUNS: usize = 4096;

/// The values of a relation, or those whose ids lie in a window: what is there of each.
#[derive(Debug)]
pub(super) struct ValueTable {
    runs: Vec<Run>,
    /// A bit for the first run of each value that a row leads to.
    referenced: Vec<AtomicU64>,
    chunk_bytes: u16,
}

impl ValueTable {
    pub(super) fn new(parts: Vec<Vec<Run>>, end: u64, chunk_bytes: u16) -> Self {
        let mut runs = Vec::new();
        for part in parts {
            if runs.is_empty() {
                runs = part;
            } else {
                runs.extend_from_slice(&part);
            }
        }
        runs.retain(|run| u64::from(run.value_id) < end);
        sort(&mut runs);
        let mut referenced = Vec::new();
        referenced.resize_with(runs.len().div_ceil(64), AtomicU64::default);
        Self { runs, referenced, chunk_bytes }
    }

    /// The runs of values with these ids.
    pub(super) fn runs_of(&self, ids: Range<u64>) -> &[Run] {
        let bound = |id| self.runs.partition_point(|run| u64::from(run.value_id) < id);
        &self.runs[bound(ids.start)..bound(ids.end)]
    }

    /// Value ids in parts with about as many runs, some for each of so many threads.
    pub(super) fn parts(&self, ids: Range<u64>, threads: usize) -> Vec<Range<u64>> {
        let parts = match threads {
            ..2 => 1,
            _ => threads.saturating_mul(4).min(self.runs.len() / LEAST_RUNS),
        };
        let mut bounds = vec![ids.start];
        for part in 1..parts {
            let id = u64::from(self.runs[self.runs.len() / parts * part].value_id);
            if bounds.last().is_some_and(|last| *last < id) {
                bounds.push(id);
            }
        }
        bounds.push(ids.end);
        bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// The runs of a value. `hint` is where the value before was found: rows and values often come in
    /// one order.
    #[inline]
    pub(super) fn find(&self, value_id: u32, hint: &mut usize) -> &[Run] {
        let is_start = |index: usize| {
            self.runs.get(index).is_some_and(|run| run.value_id == value_id)
                && (index == 0 || self.runs[index - 1].value_id != value_id)
        };
        let start = if is_start(*hint) {
            *hint
        } else {
            self.runs.partition_point(|run| run.value_id < value_id)
        };
        let len = self.runs[start..].iter().take_while(|run| run.value_id == value_id).count();
        *hint = start + len;
        if len > 0 {
            self.referenced[start / 64].fetch_or(1 << (start % 64), Ordering::Relaxed);
        }
        &self.runs[start..start + len]
    }

    /// What is wrong with the value that a pointer leads to, and how much of it is readable.
    pub(super) fn judge(&self, pointer: &ToastPointer, runs: &[Run]) -> Option<Verdict> {
        let chunk_bytes = u32::from(self.chunk_bytes);
        let stored_len = stored_len(pointer);
        let count = stored_len.div_ceil(chunk_bytes);
        let last_chunk_bytes = stored_len - count.saturating_sub(1) * chunk_bytes;
        let mut next = 0_u32;
        let verdict = |kind, chunk: u32| {
            let whole = u64::from(chunk.min(count)) * u64::from(chunk_bytes);
            let of = u64::from(stored_len);
            Some(Verdict { kind, readable: Readable::Prefix { bytes: whole.min(of), of } })
        };
        if runs.is_empty() {
            return verdict(FindingKind::ValueMissing { count }, 0);
        }
        // A chunk without a number is behind all others here, and the gap that it leaves before.
        let lacks_number = runs.last().and_then(Run::fault) == Some(ChunkFault::NullSequence);
        for run in runs {
            let first = run.first;
            match run.fault() {
                _ if lacks_number && first > next => {
                    return verdict(FindingKind::ChunkNullSequence, next);
                }
                Some(ChunkFault::NullData) if first == next => {
                    return verdict(FindingKind::ChunkNullData { chunk: first }, next);
                }
                Some(ChunkFault::Toasted) if first == next => {
                    return verdict(FindingKind::ChunkToasted { chunk: first }, next);
                }
                _ => {}
            }
            if first < next {
                return verdict(FindingKind::ChunkAgain { chunk: first, count }, first);
            }
            if next >= count {
                return verdict(FindingKind::ChunkBeyond { found: first, last: count - 1 }, next);
            }
            if first > next {
                let kind = FindingKind::ValueGap { next, found: first, count };
                return verdict(kind, next);
            }
            let end = first.saturating_add(run.count());
            if end > count {
                return verdict(FindingKind::ChunkBeyond { found: count, last: count - 1 }, count);
            }
            let expected = if end == count { last_chunk_bytes } else { chunk_bytes };
            let found = u32::from(run.last_len);
            if found != expected {
                let kind = FindingKind::ChunkSize { chunk: end - 1, found, expected };
                return verdict(kind, end - 1);
            }
            next = end;
        }
        if next < count {
            return verdict(FindingKind::ValueEnded { next, count }, next);
        }
        if let Some(expected) = compression_word(pointer)
            && let [first, ..] = runs
            && first.head != expected
        {
            return verdict(FindingKind::CompressionWord { found: first.head, expected }, 0);
        }
        if let Some(run) = runs.iter().find(|run| run.is_distrusted()) {
            let kind = FindingKind::ChunkDistrusted { chunk: run.first, block: run.block };
            return verdict(kind, run.first);
        }
        let is_deleted = runs.iter().any(Run::is_deleted);
        is_deleted.then_some(Verdict { kind: FindingKind::ChunkDeleted, readable: Readable::All })
    }

    /// The values that no row leads to and no transaction has deleted: where their first chunk is, how
    /// many chunks there are and how many bytes.
    pub(super) fn orphans(&self) -> impl Iterator<Item = Orphan> {
        let mut start = 0;
        self.runs.chunk_by(|one, other| one.value_id == other.value_id).filter_map(move |runs| {
            let index = start;
            start += runs.len();
            let is_referenced =
                self.referenced[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 != 0;
            let first = runs.iter().find(|run| run.is_live()).filter(|_| !is_referenced)?;
            let live = || runs.iter().filter(|run| run.is_live());
            Some(Orphan {
                value_id: Oid::new(first.value_id).into(),
                tid: first.tid(),
                chunks: live().fold(0, |sum: u32, run| sum.saturating_add(run.count())),
                bytes: live().map(|run| run.bytes(self.chunk_bytes)).sum(),
            })
        })
    }
}

/// What is wrong with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) kind: FindingKind,
    pub(super) readable: Readable,
}

/// A value that no row leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) value_id: Oid8,
    pub(super) tid: ItemPointer,
    pub(super) chunks: u32,
    pub(super) bytes: u64,
}

fn stored_len(pointer: &ToastPointer) -> u32 {
    u32::try_from(pointer.stored_len()).unwrap_or(u32::MAX)
}

/// The word that a compressed value's chunks begin with.
fn compression_word(pointer: &ToastPointer) -> Option<u32> {
    let method = pointer.compression().ok()??;
    let raw_len = pointer.raw_payload_len().ok()?;
    Some(CompressionInfo::new(raw_len, method).ok()?.word())
}

#[cfg(test)]
mod tests {
    use pgtoast_base::{BlockNumber, OffsetNumber};
    use pgtoast_varlena::OidPointer;

    use super::super::runs::{ChunkSeen, RunCollector, RunWindow};
    use super::*;

    fn chunk(value_id: u32, seq: u32, len: u16) -> ChunkSeen {
        let tid = ItemPointer::new(BlockNumber::new(seq / 4), OffsetNumber::new(1));
        ChunkSeen {
            value_id,
            seq,
            len,
            head: 0,
            tid,
            is_live: true,
            is_deleted: false,
            is_distrusted: false,
            fault: None,
        }
    }

    fn pointer(value_id: u32, stored_len: u32) -> ToastPointer {
        let stored = CompressionInfo::from_word(stored_len);
        let raw_len = i32::try_from(stored_len + 4).expect("small");
        ToastPointer::Oid(OidPointer::new(raw_len, stored, Oid::new(value_id), Oid::new(1)))
    }

    /// Chunks of at most ten bytes.
    fn table(chunks: &[ChunkSeen]) -> ValueTable {
        let window = RunWindow::new(0, u64::MAX, 1000);
        let mut collector = RunCollector::new(&window, 10);
        chunks.iter().for_each(|chunk| collector.take(chunk));
        ValueTable::new(vec![collector.into_runs()], u64::MAX, 10)
    }

    fn judge(chunks: &[ChunkSeen], stored_len: u32) -> Option<FindingKind> {
        let table = table(chunks);
        let runs = table.find(7, &mut 0);
        table.judge(&pointer(7, stored_len), runs).map(|verdict| verdict.kind)
    }

    #[test]
    fn parts_share_the_ids_out_and_split_no_value() {
        let runs = (0..100_000_u32).map(|index| Run::of(&chunk(index / 3 * 7, index % 3, 5)));
        let table = ValueTable::new(vec![runs.collect()], 1 << 32, 10);
        let parts = table.parts(0..1 << 32, 2);
        assert_eq!(parts.len(), 8);
        assert_eq!((parts[0].start, parts[7].end), (0, 1 << 32));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        let counts = parts.iter().map(|part| table.runs_of(part.clone()).len());
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts.iter().sum::<usize>(), 100_000);
        assert!(
            counts.iter().all(|count| count.is_multiple_of(3) || *count > 12_000),
            "{counts:?}"
        );
        // One value that is everywhere is one part.
        let runs = (0..100_000_u32).map(|index| Run::of(&chunk(7, index * 2, 5)));
        let table = ValueTable::new(vec![runs.collect()], 1 << 32, 10);
        assert_eq!(table.parts(0..1 << 32, 2), [0..7, 7..1 << 32]);
    }

    #[test]
    fn chunks_in_any_order_are_a_whole_value() {
        let chunks = [chunk(7, 2, 3), chunk(8, 0, 4), chunk(7, 0, 10), chunk(7, 1, 10)];
        assert_eq!(judge(&chunks, 23), None);
    }

    #[test]
    fn each_fault_of_a_value_is_named_with_its_chunk() {
        let (a, b, c) = (chunk(7, 0, 10), chunk(7, 1, 10), chunk(7, 2, 3));
        let count = 3;
        for (chunks, expected) in [
            (&[][..], FindingKind::ValueMissing { count }),
            (&[a, b], FindingKind::ValueEnded { next: 2, count }),
            (&[a, c], FindingKind::ValueGap { next: 1, found: 2, count }),
            (&[b, c], FindingKind::ValueGap { next: 0, found: 1, count }),
            (&[a, b, b, c], FindingKind::ChunkAgain { chunk: 1, count }),
            (&[a, b, c, chunk(7, 3, 1)], FindingKind::ChunkBeyond { found: 3, last: 2 }),
            (
                &[a, b, chunk(7, 2, 10), chunk(7, 3, 1)],
                FindingKind::ChunkBeyond { found: 3, last: 2 },
            ),
            (&[a, chunk(7, 1, 9), c], FindingKind::ChunkSize { chunk: 1, found: 9, expected: 10 }),
            (&[a, b, chunk(7, 2, 4)], FindingKind::ChunkSize { chunk: 2, found: 4, expected: 3 }),
            (
                &[a, b, c, chunk(7, 0x6032_e974, 10)],
                FindingKind::ChunkBeyond { found: 0x6032_e974, last: 2 },
            ),
        ] {
            assert_eq!(judge(chunks, 23), Some(expected), "{chunks:?}");
        }
    }

    #[test]
    fn a_whole_value_with_a_chunk_that_nobody_vouches_for_is_not_whole() {
        let distrusted = ChunkSeen { is_distrusted: true, ..chunk(7, 1, 10) };
        let (first, last) = (chunk(7, 0, 10), chunk(7, 2, 3));
        let expected = FindingKind::ChunkDistrusted { chunk: 1, block: 0 };
        assert_eq!(judge(&[first, distrusted, last], 23), Some(expected));
        // What is missing is worse.
        let expected = FindingKind::ValueEnded { next: 2, count: 3 };
        assert_eq!(judge(&[first, distrusted], 23), Some(expected));
    }

    #[test]
    fn a_window_that_is_too_small_takes_passes_and_misses_nothing() {
        let chunks: Vec<_> = (1..=1000_u32).rev().map(|id| chunk(id * 3, 0, 5)).collect();
        let (mut start, mut seen, mut passes) = (0, Vec::new(), 0);
        while start <= u64::from(u32::MAX) {
            let window = RunWindow::new(start, 1 << 32, 64);
            let mut collector = RunCollector::new(&window, 10);
            chunks.iter().for_each(|chunk| collector.take(chunk));
            let end = window.end();
            let table = ValueTable::new(vec![collector.into_runs()], end, 10);
            seen.extend(table.orphans().map(|orphan| orphan.value_id.get()));
            (start, passes) = (end, passes + 1);
        }
        assert!(passes > 10, "{passes}");
        assert_eq!(seen, (1..=1000).map(|id| id * 3).collect::<Vec<u64>>());
    }
}
