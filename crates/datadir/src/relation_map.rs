//! The files of catalogs that no catalog can name, since it would have to be read first.
//!
//! ```text
//! byte 0       4       8                16               504 (16 and later: 520)
//!      | magic | count | catalog, file  | catalog, file … | CRC-32C of before | pad |
//! ```
//! One map is in `global` and one in the folder of each database.
//!
//! Source: `relmapper.c` (REL_14 to REL_18).
use pgtoast_base::Oid;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::{DataFile, DatadirError, Filenode, Folder, Source};

/// Which file holds which catalog.
#[doc(alias = "RelMapFile")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelationMap {
    mappings: Vec<(Oid, Filenode)>,
}

impl RelationMap {
    /// Reads and checks the map of a folder.
    ///
    /// # Errors
    /// Those of reading, and of [`parse`](Self::parse).
    pub fn read(source: &impl Source, folder: Folder, major: u32) -> Result<Self, DatadirError> {
        let file = DataFile::Map(folder);
        Self::parse(&source.read_start(file, MAX_BYTES)?, file, major)
    }

    /// Of the bytes of `file`, as that release lays them out.
    ///
    /// # Errors
    /// [`DatadirError::FileShort`], [`DatadirError::MapChecksum`], [`DatadirError::MapField`].
    pub fn parse(bytes: &[u8], file: DataFile, major: u32) -> Result<Self, DatadirError> {
        let crc_offset = Self::checksum_offset(major);
        let needed = crc_offset + size_of::<u32>();
        let Some((body, stored)) = bytes.get(..needed).and_then(|bytes| bytes.split_last_chunk())
        else {
            return Err(DatadirError::FileShort { file, offset: 0, needed, found: bytes.len() });
        };
        let (expected, found) = (crc32c::crc32c(body), u32::from_le_bytes(*stored));
        if expected != found {
            return Err(DatadirError::MapChecksum { file, expected, found });
        }
        let wrong = |field, found: u32| DatadirError::MapField { file, field, found: found.into() };
        let words = <[U32]>::ref_from_bytes(body).unwrap_or_default();
        let (Some(magic), Some(count)) = (words.first(), words.get(1)) else {
            return Err(wrong("length", 0));
        };
        if magic.get() != MAGIC {
            return Err(wrong("magic number", magic.get()));
        }
        let (pairs, _) = words[2..].as_chunks::<2>();
        let used = usize::try_from(count.get()).ok().and_then(|count| pairs.get(..count));
        let used = used.ok_or(wrong("count", count.get()))?;
        let mapping = |[oid, node]: &[U32; 2]| (Oid::new(oid.get()), Filenode::new(node.get()));
        Ok(Self { mappings: used.iter().map(mapping).collect() })
    }

    /// The file of a catalog, if it is in the map.
    #[must_use]
    pub fn filenode(&self, catalog: Oid) -> Option<Filenode> {
        let found = self.mappings.iter().find(|(oid, _)| *oid == catalog)?.1;
        found.is_valid().then_some(found)
    }

    /// Every catalog in the map and its file.
    #[must_use]
    pub fn mappings(&self) -> &[(Oid, Filenode)] {
        &self.mappings
    }

    /// Where the checksum is in that release's maps, in bytes.
    #[must_use]
    pub const fn checksum_offset(major: u32) -> usize {
        if major < 16 { 504 } else { 520 }
    }
}

/// What every map begins with.
#[doc(alias = "RELMAPPER_FILEMAGIC")]
const MAGIC: u32 = 0x0059_2717;
/// More than any release's map has.
const MAX_BYTES: usize = 1024;
