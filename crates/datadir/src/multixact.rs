//! Multixacts: who has to do with a row at once.
//!
//! ```text
//! pg_multixact/offsets    4 bytes a multixact      | first member |
//! pg_multixact/members    20 bytes for 4 members   | 4 flag bytes | xid | xid | xid | xid |
//! ```
//! A multixact's members end where those of the next one begin.
//!
//! Source: `multixact.h`, `multixact.c` (REL_18).
use pgtoast_base::{BlockSize, Xid};

use crate::slru_pages::{SlruPages, bytes_at};
use crate::{DatadirError, Slru};

/// A transaction that has to do with a tuple beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiXactMember {
    /// Its id.
    pub xid: Xid,
    /// What it did.
    pub status: MemberStatus,
}

/// What a member of a multixact did to the tuple.
#[doc(alias = "MultiXactStatus")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberStatus {
    /// Locked it for key share.
    ForKeyShare,
    /// Locked it for share.
    ForShare,
    /// Locked it for an update that leaves the key alone.
    ForNoKeyUpdate,
    /// Locked it for update.
    ForUpdate,
    /// Updated it, but for its key.
    NoKeyUpdate,
    /// Updated its key, or deleted it.
    Update,
}

impl MemberStatus {
    /// From the member's flag byte; `None` for a number that means nothing.
    #[must_use]
    pub const fn from_flags(flags: u8) -> Option<Self> {
        Some(match flags {
            0 => Self::ForKeyShare,
            1 => Self::ForShare,
            2 => Self::ForNoKeyUpdate,
            3 => Self::ForUpdate,
            4 => Self::NoKeyUpdate,
            5 => Self::Update,
            _ => return None,
        })
    }

    /// Whether it made a new version or none, rather than only locking.
    #[doc(alias = "ISUPDATE_from_mxstatus")]
    #[must_use]
    pub const fn is_update(self) -> bool {
        matches!(self, Self::NoKeyUpdate | Self::Update)
    }
}

/// How far multixacts have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MultiXacts {
    /// The next multixact's id.
    pub(crate) next: u32,
    /// Where its members go.
    pub(crate) next_offset: u32,
}

impl MultiXacts {
    /// The members of a multixact.
    pub(crate) fn members(
        &self,
        pages: &SlruPages,
        multi: u32,
    ) -> Result<Vec<MultiXactMember>, DatadirError> {
        let start = member_offset(pages, multi)?;
        // Zero is no multixact, so the one before it is followed by the one behind it.
        let next = multi.wrapping_add(1).max(1);
        let end = if next == self.next { self.next_offset } else { member_offset(pages, next)? };
        let count = end.wrapping_sub(start);
        if start == 0 || end == 0 || count == 0 || count > MOST_MEMBERS {
            return Err(DatadirError::MultiXactMembers { multi, start, end });
        }
        let mut members = Vec::new();
        for index in 0..count {
            let member = member(pages, start.wrapping_add(index), multi)?;
            // Where member numbers wrap, number 0 is left out.
            members.extend(member.filter(|member| member.xid.is_valid()));
        }
        Ok(members)
    }
}

/// Where the members of a multixact start.
fn member_offset(pages: &SlruPages, multi: u32) -> Result<u32, DatadirError> {
    let a_page = pages.block_bytes() / 4;
    let key = (Slru::MultiXactOffsets, multi / a_page);
    let offset = (multi % a_page) as usize * 4;
    Ok(u32::from_le_bytes(pages.bytes(key, offset, multi)?))
}

/// The member of that number, counted through all multixacts; `None` for a status that none has.
fn member(
    pages: &SlruPages,
    number: u32,
    multi: u32,
) -> Result<Option<MultiXactMember>, DatadirError> {
    let groups_a_page = pages.block_bytes() / MEMBER_GROUP_BYTES;
    let (group, index) = (number / 4, number % 4);
    let key = (Slru::MultiXactMembers, group / groups_a_page);
    let start = ((group % groups_a_page) * MEMBER_GROUP_BYTES) as usize;
    let page = pages.page(key, multi)?;
    let [flags] = bytes_at(&page, key, start + index as usize, multi)?;
    let xid = bytes_at(&page, key, start + 4 + index as usize * 4, multi)?;
    let status = MemberStatus::from_flags(flags);
    Ok(status.map(|status| MultiXactMember { xid: Xid::new(u32::from_le_bytes(xid)), status }))
}

/// Four flag bytes and four ids.
#[doc(alias = "MULTIXACT_MEMBERGROUP_SIZE")]
const MEMBER_GROUP_BYTES: u32 = 20;
/// More members than a multixact can have: each is of a session of its own, or an updater of before.
#[doc(alias = "MAX_BACKENDS")]
const MOST_MEMBERS: u32 = 1 << 18;
const _: () = assert!(BlockSize::KIB_1.bytes_u16() as u32 >= MEMBER_GROUP_BYTES);
