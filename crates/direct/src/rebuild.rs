//! Values whose roots or interior nodes are lost, put together from their leaves.
//!
//! ```text
//! scan of the relation ──▶ leaves with sound trailers ──▶ by value: newest leaf of each number
//!                                                          `─▶ new nodes above them ──▶ pointer
//! ```
//! The trailers say which value, which leaf, how long the value is, and whether the data are what was written.
//! A value comes back if each of its leaves is there, or not at all. Where an edit moved later bytes, numbers
//! say nothing of places any more: new leaves are marked then, and such a value is refused.
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use pgtoast_base::ItemPointer;
use pgtoast_varlena::DirectPointer;

use crate::chunk_tuple::Shape;
use crate::draft::{EDITED, SHIFTED};
use crate::group::{GROUP_HEADER_LEN, GroupHeader};
use crate::trailer::{StoredForm, Trailer, ValueTag};
use crate::{ChunkStore, DirectError, DirectRelation, Failure, Parameters, Writer};

/// The leaves of values that are to be rebuilt; of a relation whose leaves have trailers.
///
/// Hand it every tuple that can be seen. Leaves of old versions may be among them; if the newest leaf of a value is
/// itself lost, an older version that is still whole may come back in its place.
#[derive(Clone, Debug)]
pub struct Rebuild {
    relation: DirectRelation,
    values: BTreeMap<u64, Vec<LeafRecord>>,
}

/// What the trailer of a leaf says, and where it is.
#[derive(Clone, Copy, Debug)]
struct LeafRecord {
    tid: ItemPointer,
    number: u32,
    generation: u16,
    len: usize,
    /// Stored length, 0 if it was unknown, and form.
    length_word: u32,
}

/// A value that can be rebuilt: which leaf is where.
#[derive(Debug)]
struct Lineup {
    tids: Vec<ItemPointer>,
    stored_len: usize,
    form: StoredForm,
}

impl Rebuild {
    /// Without a leaf yet.
    #[must_use]
    pub const fn new(relation: DirectRelation) -> Self {
        Self { relation, values: BTreeMap::new() }
    }

    /// Takes note of a tuple if it is a leaf with a sound trailer, and says whether it is.
    pub fn add(&mut self, tid: ItemPointer, tuple: &[u8]) -> bool {
        let Ok(shape) = Shape::of(tuple, tid) else { return false };
        let Some(bytes) = shape.data.as_ref().and_then(|range| tuple.get(range.clone())) else {
            return false;
        };
        let number = (shape.seq & !EDITED).cast_unsigned();
        let Some((data, trailer)) = Trailer::split(bytes).filter(|_| shape.is_leaf()) else {
            return false;
        };
        let (found, expected) = trailer.sums(number, data);
        if found != expected || data.is_empty() || shape.seq < 0 {
            return false;
        }
        let draft = trailer.draft();
        self.values.entry(draft.tag.value()).or_default().push(LeafRecord {
            tid,
            number,
            generation: draft.tag.generation(),
            len: data.len(),
            length_word: draft.length_word,
        });
        true
    }

    /// The values of which there are leaves, by the number in their tags.
    pub fn values(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.values.keys().copied()
    }

    /// Puts new nodes above the leaves of a value, and returns a pointer to it.
    ///
    /// # Errors
    /// [`DirectError::LeafMissing`], [`DirectError::LeavesAmbiguous`]; what is wrong with the stream of a
    /// compressed value; the store's own. No node is left in the store then.
    pub fn restore<S: ChunkStore>(
        &self,
        store: &mut S,
        value: u64,
    ) -> Result<DirectPointer, Failure<S::Error>> {
        let lineup = self.lineup(value)?;
        let parameters = *self.relation.parameters();
        let (stored_len, form) = (lineup.stored_len, lineup.form);
        let (raw_len, prefix) = match form {
            StoredForm::AsIs => (stored_len, None),
            StoredForm::Pglz | StoredForm::Lz4 => {
                let start = self.bytes(store, &lineup, 0, 4)?;
                let word = start.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
                (pgtoast_varlena::CompressionInfo::from_word(word).len(), None)
            }
            StoredForm::Groups => {
                let start = stored_len.saturating_sub(GROUP_HEADER_LEN);
                let bytes = self.bytes(store, &lineup, start, GROUP_HEADER_LEN)?;
                let header: [u8; GROUP_HEADER_LEN] =
                    bytes.first_chunk().copied().unwrap_or_default();
                (GroupHeader::raw_len(header), Some(header))
            }
        };
        // A root that is a leaf is whole, or the value would not be here.
        let needs_nodes = lineup.tids.len() > 1;
        let root = match (lineup.tids.as_slice(), needs_nodes) {
            ([only], _) => *only,
            (tids, _) => {
                let tag = (self.newest(value), form);
                Writer::adopt(store, parameters, tids, stored_len, prefix, tag)?
            }
        };
        let pointer = self.relation.pointer_to(root, raw_len, stored_len, form)?;
        // Whatever else is wrong is found here, before anyone takes the pointer for the value.
        if let Err(error) = self.relation.read(&*store, &pointer) {
            if needs_nodes {
                let nodes = self.relation.tuples(&*store, &pointer).unwrap_or_default();
                for tid in nodes.into_iter().filter(|tid| !lineup.tids.contains(tid)) {
                    store.delete(tid).map_err(Failure::Store)?;
                }
            }
            return Err(error);
        }
        Ok(pointer)
    }

    /// Which leaf is where.
    fn lineup(&self, value: u64) -> Result<Lineup, DirectError> {
        let records = self.values.get(&value).map(Vec::as_slice).unwrap_or_default();
        let ambiguous = DirectError::LeavesAmbiguous { value };
        if records.iter().any(|record| record.number & SHIFTED != 0) {
            return Err(ambiguous);
        }
        // The newest leaf that knows how long the value is.
        let known = records.iter().filter(|record| record.length_word & LENGTH_MASK != 0);
        let Some(newest) = known.clone().max_by_key(|record| record.generation) else {
            return Err(DirectError::LeafMissing { value, number: 0, count: 0 });
        };
        let (generation, length_word) = (newest.generation, newest.length_word);
        let is_disputed = |record: &LeafRecord| {
            record.generation == generation && record.length_word != length_word
        };
        if known.clone().any(is_disputed) {
            return Err(ambiguous);
        }
        let stored_len = (length_word & LENGTH_MASK) as usize;
        let form = match length_word >> 30 {
            0 => StoredForm::AsIs,
            1 => StoredForm::Pglz,
            2 => StoredForm::Lz4,
            _ => StoredForm::Groups,
        };
        let parameters: &Parameters = self.relation.parameters();
        let (chunk_bytes, count) = (parameters.chunk_bytes(), parameters.chunk_count(stored_len));
        if stored_len > parameters.max_stored_len() {
            return Err(ambiguous);
        }
        // The only leaf of a value in groups begins with what its root says of them.
        let prefix_len =
            if form == StoredForm::Groups && count == 1 { GROUP_HEADER_LEN } else { 0 };
        let mut sorted = records.to_vec();
        sorted.sort_unstable_by_key(|record| {
            (record.number, core::cmp::Reverse(record.generation), record.tid)
        });
        let mut tids = Vec::with_capacity(sorted.len().min(count));
        let mut rest = sorted.as_slice();
        for index in 0..count {
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            let missing = DirectError::LeafMissing { value, number, count };
            let Some((first, others)) = rest.split_first() else { return Err(missing) };
            if first.number != number {
                return Err(missing);
            }
            let of_number = others.partition_point(|record| record.number == number);
            let is_doubled =
                others[..of_number].first().is_some_and(|next| next.generation == first.generation);
            let expected = prefix_len + chunk_bytes.min(stored_len - index * chunk_bytes);
            if is_doubled || first.len != expected {
                return Err(ambiguous);
            }
            tids.push(first.tid);
            rest = &others[of_number..];
        }
        if rest.iter().any(|record| record.generation == generation) {
            return Err(ambiguous);
        }
        Ok(Lineup { tids, stored_len, form })
    }

    /// Up to `len` stored bytes at `start`.
    fn bytes<S: ChunkStore>(
        &self,
        store: &S,
        lineup: &Lineup,
        start: usize,
        len: usize,
    ) -> Result<Vec<u8>, Failure<S::Error>> {
        let chunk_bytes = self.relation.parameters().chunk_bytes();
        let mut bytes = Vec::with_capacity(len);
        let mut at = start;
        while at < start + len {
            let Some(tid) = lineup.tids.get(at / chunk_bytes) else { break };
            let tuple = store.fetch(*tid).map_err(Failure::Store)?;
            let shape = Shape::of(&tuple, *tid)?;
            let data = shape.view(&tuple).data.and_then(Trailer::split).map(|(data, _)| data);
            let data = data.unwrap_or_default();
            // The only leaf of a value in groups begins with what its root says of them.
            let is_only = lineup.tids.len() == 1 && lineup.form == StoredForm::Groups;
            let data = data.get(if is_only { GROUP_HEADER_LEN } else { 0 }..).unwrap_or_default();
            let Some(piece) = data.get(at % chunk_bytes..) else { break };
            let piece = &piece[..piece.len().min(start + len - at)];
            if piece.is_empty() {
                break;
            }
            bytes.extend_from_slice(piece);
            at += piece.len();
        }
        Ok(bytes)
    }
}

impl Rebuild {
    /// The tag of the newest leaf of a value.
    #[must_use]
    pub fn newest(&self, value: u64) -> Option<ValueTag> {
        let newest = self.values.get(&value)?.iter().map(|record| record.generation).max()?;
        Some(ValueTag::from_word(value << 16 | u64::from(newest)))
    }
}

const LENGTH_MASK: u32 = (1 << 30) - 1;
