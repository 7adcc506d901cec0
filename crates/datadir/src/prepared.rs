//! Transactions that were prepared and are neither committed nor rolled back.
//!
//! ```text
//! byte 0       4       8     12         16        24      28         … 46 (15 and later: 54)
//!      | magic | len   | xid | database | prepared at | owner | subxacts | … | name len | …
//! byte 64 (72)               rounded up to 8
//!      | name and a zero byte | subtransaction ids | … | CRC-32C of before |
//! ```
//! Source: `twophase.c`, `xact.h` (REL_14 to REL_18).
use pgtoast_base::{Oid, Xid, maxalign};

use crate::{DataFile, DatadirError, Folder, Source};

/// A transaction that waits for its second phase. Until then it holds back vacuum and keeps its rows
/// from being seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparedTransaction {
    /// Its id.
    pub xid: Xid,
    /// The name that its user gave it.
    #[doc(alias = "gid")]
    pub name: String,
    /// Where it ran.
    pub database: Oid,
    /// Its subtransactions.
    pub subtransactions: Vec<Xid>,
}

impl PreparedTransaction {
    /// All of a data directory, and what is wrong with state files that cannot be read.
    pub(crate) fn read_all(source: &dyn Source, major: u32) -> (Vec<Self>, Vec<DatadirError>) {
        let names = match source.list(Folder::Prepared) {
            Ok(names) => names,
            Err(error) => return (Vec::new(), vec![error]),
        };
        let (mut prepared, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            let Some(file) = DataFile::in_folder(Folder::Prepared, &name) else { continue };
            match source.read_start(file, MAX_BYTES).and_then(|it| Self::parse(&it, file, major)) {
                Ok(one) => prepared.push(one),
                Err(error) => problems.push(error),
            }
        }
        prepared.sort_by_key(|one| one.xid.get());
        (prepared, problems)
    }

    /// Of the bytes of a state file.
    ///
    /// # Errors
    /// [`DatadirError::FileShort`], [`DatadirError::PreparedField`].
    pub fn parse(bytes: &[u8], file: DataFile, major: u32) -> Result<Self, DatadirError> {
        let short =
            |needed| DatadirError::FileShort { file, offset: 0, needed, found: bytes.len() };
        let word = |offset: usize| match bytes.get(offset..).and_then(<[u8]>::first_chunk) {
            Some(word) => Ok(u32::from_le_bytes(*word)),
            None => Err(short(offset + size_of::<u32>())),
        };
        let wrong =
            |field, found: u32| DatadirError::PreparedField { file, field, found: found.into() };
        let body = bytes.len().checked_sub(size_of::<u32>()).ok_or(short(size_of::<u32>()))?;
        let (expected, found) = (crc32c::crc32c(&bytes[..body]), word(body)?);
        if expected != found {
            return Err(wrong("checksum", found));
        }
        if word(0)? != MAGIC {
            return Err(wrong("magic number", word(0)?));
        }
        let (name_len_offset, header_len) = if major < 15 { (46, 64) } else { (54, 72) };
        let name_len = match bytes.get(name_len_offset..).and_then(<[u8]>::first_chunk) {
            Some(len) => usize::from(u16::from_le_bytes(*len)),
            None => return Err(short(header_len)),
        };
        let name_end = header_len + name_len;
        let name = bytes.get(header_len..name_end).ok_or(short(name_end))?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        let count = word(28)?;
        let start = header_len + maxalign(name_len);
        let needed = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
        let end = needed.and_then(|len| start.checked_add(len)).ok_or(wrong("count", count))?;
        let (ids, _) = bytes.get(start..end).ok_or(short(end))?.as_chunks();
        Ok(Self {
            xid: Xid::new(word(8)?),
            name: String::from_utf8_lossy(name).into_owned(),
            database: Oid::new(word(12)?),
            subtransactions: ids.iter().map(|id| Xid::new(u32::from_le_bytes(*id))).collect(),
        })
    }
}

/// What every state file begins with.
#[doc(alias = "TWOPHASE_MAGIC")]
const MAGIC: u32 = 0x57f9_4534;
/// The most that a state file can have.
#[doc(alias = "MaxAllocSize")]
const MAX_BYTES: usize = 1 << 30;
