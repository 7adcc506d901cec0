//! A change as it is held in memory and in spill files: the same bytes, with no address in them.
//!
//! ```text
//! byte 0     8          12     13      14      16        20        24
//!      | lsn | relation | kind | flags | zeros | old_len | new_len | old ... | new ... | tid, 6 bytes |
//!
//! insert, update, delete    old and new are tuples; flags say which are there, and whether a tid is
//! message                   old is the prefix, new the content
//! truncate                  new is a list of relations, 4 bytes each
//! ```
//! All numbers are little-endian and nothing is aligned: a tuple begins wherever the one before it ends.
use alloc::vec::Vec;
use core::str;

use pgtoast_base::{ItemPointer, ItemPointerData, Lsn, Oid};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Change, InsertFlags, ReorderError};

/// What stands before the bytes of a change.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    lsn: U64,
    relation: U32,
    kind: u8,
    flags: u8,
    zeros: U16,
    old_len: U32,
    new_len: U32,
}
const _: () = assert!(size_of::<Header>() == 24 && align_of::<Header>() == 1);
const _: () = assert!(size_of::<ItemPointerData>() == 6);

/// A change's first bytes are where it is in the log.
pub(crate) const LSN_LEN: usize = size_of::<U64>();

const DELETE: u8 = 1;
const INSERT: u8 = 2;
const MESSAGE: u8 = 3;
const TRUNCATE: u8 = 4;
const UPDATE: u8 = 5;

bitflags::bitflags! {
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Flags: u8 {
        const HAS_OLD = 1;
        const HAS_NEW = 2;
        const HAS_TID = 4;
        const ON_TOAST_RELATION = 8;
        const KEEPS_TOAST = 16;
        const CASCADE = 32;
        const RESTART_IDENTITY = 64;
    }
}

/// What a server counts for a change besides its tuples and the like.
/// Source: `reorderbuffer.c`, `ReorderBufferChangeSize`, on a 64-bit machine (REL_15 to REL_18).
const CHANGE_BYTES: usize = 80;
const TUPLE_BYTES: usize = 24;
const MESSAGE_BYTES: usize = 16;

/// What a server accounts for a change.
pub(crate) fn accounted_bytes(change: &Change<'_>) -> usize {
    let tuple = |tuple: Option<&[u8]>| tuple.map_or(0, |tuple| TUPLE_BYTES + tuple.len());
    CHANGE_BYTES
        + match *change {
            Change::Delete { old, .. } => tuple(old),
            Change::Insert { new, .. } => tuple(new),
            Change::Message { prefix, content, .. } => {
                prefix.len() + 1 + content.len() + MESSAGE_BYTES
            }
            Change::Truncate { relations, .. } => size_of_val(relations),
            Change::Update { old, new, .. } => tuple(old) + tuple(new),
        }
}

/// Appends the bytes of a change.
pub(crate) fn encode(
    lsn: Lsn,
    change: &Change<'_>,
    target: &mut Vec<u8>,
) -> Result<(), ReorderError> {
    let mut flags = Flags::empty();
    let list: Vec<u8>;
    let (kind, relation, old, new, tid) = match *change {
        Change::Delete { relation, old } => (DELETE, relation, old, None, None),
        Change::Insert { relation, new, tid, flags: insert } => {
            flags.set(Flags::ON_TOAST_RELATION, insert.contains(InsertFlags::ON_TOAST_RELATION));
            flags.set(Flags::KEEPS_TOAST, insert.contains(InsertFlags::KEEPS_TOAST));
            (INSERT, relation, None, new, tid)
        }
        Change::Message { prefix, content, .. } => {
            (MESSAGE, Oid::INVALID, Some(prefix.as_bytes()), Some(content), None)
        }
        Change::Truncate { relations, cascade, restart_identity } => {
            flags.set(Flags::CASCADE, cascade);
            flags.set(Flags::RESTART_IDENTITY, restart_identity);
            list = relations.iter().flat_map(|oid| oid.get().to_le_bytes()).collect();
            (TRUNCATE, Oid::INVALID, None, Some(&list[..]), None)
        }
        Change::Update { relation, old, new } => (UPDATE, relation, old, new, None),
    };
    flags.set(Flags::HAS_OLD, old.is_some());
    flags.set(Flags::HAS_NEW, new.is_some());
    flags.set(Flags::HAS_TID, tid.is_some());
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let len = old.len().saturating_add(new.len());
    let too_long = ReorderError::TooLong { len, limit: LONGEST };
    let header = Header {
        lsn: U64::new(lsn.get()),
        relation: U32::new(relation.get()),
        kind,
        flags: flags.bits(),
        zeros: U16::new(0),
        old_len: U32::new(u32::try_from(old.len()).map_err(|_| too_long)?),
        new_len: U32::new(u32::try_from(new.len()).map_err(|_| too_long)?),
    };
    if len > LONGEST {
        return Err(too_long);
    }
    target.extend_from_slice(header.as_bytes());
    target.extend_from_slice(old);
    target.extend_from_slice(new);
    if let Some(tid) = tid {
        target.extend_from_slice(ItemPointerData::new(tid).as_bytes());
    }
    Ok(())
}

/// The most bytes of old and new together: with what is around them they are still one chunk of memory.
const LONGEST: usize = pgtoast_memctx::MAX_ALLOC - 64;

/// A change that was held: the same as a [`Change`], but for a list that may lie unaligned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredChange<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) action: StoredAction<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StoredAction<'a> {
    Delete { relation: Oid, old: Option<&'a [u8]> },
    Insert { relation: Oid, new: Option<&'a [u8]>, tid: Option<ItemPointer>, keeps_toast: bool },
    Message { prefix: &'a str, content: &'a [u8] },
    Truncate { relations: &'a [[u8; 4]], cascade: bool, restart_identity: bool },
    Update { relation: Oid, old: Option<&'a [u8]>, new: Option<&'a [u8]> },
}

impl<'a> StoredChange<'a> {
    /// The change in some bytes, which may be anything; or the first byte that makes no sense.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, usize> {
        const FLAGS_AT: usize = 13;
        let Ok((header, rest)) = Header::read_from_prefix(bytes) else { return Err(bytes.len()) };
        let body = size_of::<Header>();
        let flags = Flags::from_bits(header.flags).ok_or(FLAGS_AT)?;
        if header.zeros.get() != 0 {
            return Err(FLAGS_AT + 1);
        }
        let (old_len, new_len) = (header.old_len.get() as usize, header.new_len.get() as usize);
        let (old, rest) = rest.split_at_checked(old_len).ok_or(16_usize)?;
        let (new, tid) = rest.split_at_checked(new_len).ok_or(20_usize)?;
        let tid = match (flags.contains(Flags::HAS_TID), tid) {
            (false, []) => None,
            (true, tid) => {
                let tid = ItemPointerData::read_from_bytes(tid);
                Some(tid.map_err(|_| body + old_len + new_len)?.get())
            }
            _ => return Err(body + old_len + new_len),
        };
        let old = flags.contains(Flags::HAS_OLD).then_some(old);
        let new = flags.contains(Flags::HAS_NEW).then_some(new);
        if (old.is_none() && old_len > 0) || (new.is_none() && new_len > 0) {
            return Err(FLAGS_AT);
        }
        let relation = Oid::new(header.relation.get());
        let action = match (header.kind, old, new) {
            (DELETE, old, None) => StoredAction::Delete { relation, old },
            (INSERT, None, new) => {
                let keeps_toast = flags.contains(Flags::KEEPS_TOAST);
                StoredAction::Insert { relation, new, tid, keeps_toast }
            }
            (MESSAGE, Some(prefix), Some(content)) => {
                let prefix = str::from_utf8(prefix).map_err(|at| body + at.valid_up_to())?;
                StoredAction::Message { prefix, content }
            }
            (TRUNCATE, None, Some(list)) => {
                let (relations, []) = list.as_chunks() else { return Err(20) };
                let cascade = flags.contains(Flags::CASCADE);
                let restart_identity = flags.contains(Flags::RESTART_IDENTITY);
                StoredAction::Truncate { relations, cascade, restart_identity }
            }
            (UPDATE, old, new) => StoredAction::Update { relation, old, new },
            _ => return Err(12),
        };
        Ok(Self { lsn: Lsn::new(header.lsn.get()), action })
    }

    /// What a server accounts for it.
    pub(crate) fn accounted_bytes(&self) -> usize {
        let relation = Oid::INVALID;
        match self.action {
            StoredAction::Delete { old, .. } => accounted_bytes(&Change::Delete { relation, old }),
            StoredAction::Insert { new, .. } => accounted_bytes(&Change::Insert {
                relation,
                new,
                tid: None,
                flags: InsertFlags::empty(),
            }),
            StoredAction::Message { prefix, content } => {
                accounted_bytes(&Change::Message { is_transactional: true, prefix, content })
            }
            StoredAction::Truncate { relations, .. } => CHANGE_BYTES + size_of_val(relations),
            StoredAction::Update { old, new, .. } => {
                accounted_bytes(&Change::Update { relation, old, new })
            }
        }
    }
}

/// Where in the log a change is; its bytes are at least as many as that takes.
pub(crate) fn lsn_of(bytes: &[u8]) -> Lsn {
    Lsn::new(bytes.first_chunk().map_or(0, |lsn| u64::from_le_bytes(*lsn)))
}

#[cfg(test)]
mod tests {
    use pgtoast_base::{BlockNumber, OffsetNumber};

    use super::*;

    const RELATION: Oid = Oid::new(16_384);

    fn round_trip(change: &Change<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(Lsn::new(7), change, &mut bytes).expect("short");
        let stored = StoredChange::parse(&bytes).expect("our own bytes");
        assert_eq!(stored.lsn, Lsn::new(7));
        assert_eq!(stored.accounted_bytes(), accounted_bytes(change));
        bytes
    }

    #[test]
    fn a_server_accounts_for_as_many_bytes() {
        let row = [0; 28];
        let flags = InsertFlags::empty();
        // As pg_stat_replication_slots of 15 has it: 1 320 000 bytes for 10 000 rows of one int4.
        let insert = Change::Insert { relation: RELATION, new: Some(&row), tid: None, flags };
        assert_eq!(accounted_bytes(&insert), 132);
        let delete = Change::Delete { relation: RELATION, old: None };
        assert_eq!(accounted_bytes(&delete), 80);
        let (old, new) = ([0; 10_032], [0; 46]);
        let update = Change::Update { relation: RELATION, old: Some(&old), new: Some(&new) };
        assert_eq!(accounted_bytes(&update), 10_206);
        let relations = [RELATION; 3];
        let truncate =
            Change::Truncate { relations: &relations, cascade: true, restart_identity: false };
        assert_eq!(accounted_bytes(&truncate), 92);
        let message = Change::Message { is_transactional: true, prefix: "p", content: b"text" };
        assert_eq!(accounted_bytes(&message), 80 + 2 + 4 + 16);
        for change in [insert, delete, update, truncate, message] {
            round_trip(&change);
        }
    }

    #[test]
    fn bytes_cut_anywhere_or_longer_are_no_change() {
        let tid = ItemPointer::new(BlockNumber::new(3), OffsetNumber::new(4));
        let flags = InsertFlags::ON_TOAST_RELATION | InsertFlags::KEEPS_TOAST;
        let mut bytes = round_trip(&Change::Insert {
            relation: RELATION,
            new: Some(b"a tuple"),
            tid: Some(tid),
            flags,
        });
        for len in 0..bytes.len() {
            assert!(StoredChange::parse(&bytes[..len]).is_err(), "{len}");
        }
        bytes.push(0);
        assert!(StoredChange::parse(&bytes).is_err());
    }

    #[test]
    fn none_and_an_empty_tuple_are_two_things() {
        for old in [None, Some(&b""[..])] {
            let bytes = round_trip(&Change::Delete { relation: RELATION, old });
            let stored = StoredChange::parse(&bytes).expect("our own bytes");
            let StoredAction::Delete { old: found, .. } = stored.action else {
                panic!("{stored:?}")
            };
            assert_eq!(found, old);
        }
    }
}
