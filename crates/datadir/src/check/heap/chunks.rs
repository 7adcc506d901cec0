//! The rows of TOAST relations: chunks of values.
use pgtoast_base::ItemPointer;
use pgtoast_page::{HeapTuple, Infomask, TupleDescriptor, TupleHeader};
use pgtoast_varlena::Varlena;

use super::super::runs::{ChunkFault, ChunkSeen};
use super::super::statuses::Fate;
use super::super::{Finding, FindingKind, Readable};
use super::headers::RowFate;
use super::values::attribute_of;
use super::{HeapCheck, Rows};

impl HeapCheck<'_, '_> {
    /// A chunk of a value.
    #[inline]
    pub(super) fn chunk(&mut self, tid: ItemPointer, tuple: &HeapTuple<'_>, fate: RowFate) {
        let infomask = tuple.header().infomask();
        let hint = infomask.intersection(Infomask::XMIN_FROZEN);
        // What the server's rule for reading chunks makes of it, which looks at the hint alone.
        let is_read = hint != Infomask::XMIN_INVALID && tuple.header().xmin().is_valid();
        if !is_read {
            return;
        }
        let Some(mut chunk) = parse_chunk(tid, tuple, fate) else {
            if fate.inserted != Fate::Undone {
                self.broken_chunk(tid, tuple);
            }
            return;
        };
        if let Rows::Chunks(collector) = &mut self.rows {
            chunk.is_distrusted = self.is_distrusted;
            collector.take(&chunk);
        }
    }

    #[cold]
    fn broken_chunk(&self, tid: ItemPointer, tuple: &HeapTuple<'_>) {
        self.first_pass_only(|check| {
            let attributes = tuple.header().natts();
            let descriptor =
                check.columns.and_then(|plan| TupleDescriptor::new(&plan.attributes).ok());
            let error = descriptor.and_then(|descriptor| match tuple.deform(descriptor) {
                Ok(mut attributes) => attributes.find_map(Result::err),
                Err(error) => Some(error),
            });
            let kind = error.map_or(FindingKind::ChunkTuple { attributes }, FindingKind::Tuple);
            let column =
                error.and_then(attribute_of).and_then(|number| check.columns?.name(number));
            Finding { column, ..check.target.of_item(tid, kind, Readable::OtherItems) }
        });
    }
}

/// What a tuple of a TOAST relation says of its chunk; `None` if it is none.
#[inline]
fn parse_chunk(
    tid: ItemPointer,
    tuple: &HeapTuple<'_>,
    RowFate { inserted, ended }: RowFate,
) -> Option<ChunkSeen> {
    let header = tuple.header();
    if header.natts() != CHUNK_ATTRIBUTES {
        return None;
    }
    let (mut is_null, mut rest) = ([false; 3], tuple.bytes().get(usize::from(header.hoff())..)?);
    if header.infomask().contains(Infomask::HAS_NULL) {
        let bitmap = *tuple.bytes().get(TupleHeader::LEN)?;
        is_null = [0, 1, 2].map(|bit| bitmap >> bit & 1 == 0);
    }
    if is_null[0] {
        return None;
    }
    let mut word = || {
        let (word, behind) = rest.split_first_chunk()?;
        rest = behind;
        Some(u32::from_le_bytes(*word))
    };
    let value_id = word()?;
    let (seq, mut fault) =
        if is_null[1] { (u32::MAX, Some(ChunkFault::NullSequence)) } else { (word()?, None) };
    let mut data: &[u8] = &[];
    if is_null[2] {
        fault = fault.or(Some(ChunkFault::NullData));
    } else {
        match Varlena::parse(rest, 0).ok()?.0 {
            Varlena::Long(payload) | Varlena::Short(payload) => data = payload,
            Varlena::Compressed(_) | Varlena::External(_) => {
                fault = fault.or(Some(ChunkFault::Toasted));
            }
        }
    }
    Some(ChunkSeen {
        value_id,
        seq,
        len: u16::try_from(data.len()).ok()?,
        head: data.first_chunk().map_or(0, |head| u32::from_le_bytes(*head)),
        tid,
        is_live: inserted == Fate::Committed && ended == Fate::Undone,
        is_deleted: ended == Fate::Committed,
        is_distrusted: false,
        fault,
    })
}

/// `chunk_id`, `chunk_seq`, `chunk_data`.
const CHUNK_ATTRIBUTES: u16 = 3;
