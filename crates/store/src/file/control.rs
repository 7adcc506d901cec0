//! What a store is, and where its counters stand.
//!
//! ```text
//! byte 0         4            8                12          16      20
//!      | version | block size | segment blocks | checksums | state | next oid |
//!      24          32         40           48          56
//!      | system id | next xid | oldest xid | next oid8 |
//! ```
use pgtoast_base::BlockSize;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::disk::Disk;
use crate::file::SealedFile;
use crate::{StoreError, StoreFile};

/// What the file `control` says: one, sealed, in each store.
#[doc(alias = "pg_control")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFile {
    /// How long a page is, in all files.
    pub block_size: BlockSize,
    /// How many blocks a file of a relation has at most.
    pub segment_blocks: u32,
    /// Whether pages carry checksums.
    pub checksums: bool,
    /// Whether the store was closed.
    pub state: ControlState,
    /// A number that no other store has, as far as chance can see to it.
    pub system_id: u64,
    /// The next transaction's number, with the epoch above 32 bits.
    pub next_xid: u64,
    /// No unfrozen tuple is of an older transaction.
    pub oldest_xid: u64,
    /// The next value id of 32 bits, and the next number of a relation.
    pub next_oid: u32,
    /// The next value id of 64 bits.
    pub next_oid8: u64,
}

/// What the store was doing when its control file was last written.
#[doc(alias = "DBState")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlState {
    /// It was closed: everything is in its files.
    Shutdown,
    /// It was open: its files may contradict each other, unless it still is.
    InProduction,
}

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Stored {
    version: U32,
    block_bytes: U32,
    segment_blocks: U32,
    checksums: U32,
    state: U32,
    next_oid: U32,
    system_id: U64,
    next_xid: U64,
    oldest_xid: U64,
    next_oid8: U64,
}
const _: () = assert!(size_of::<Stored>() == 56 && align_of::<Stored>() == 1);

impl ControlFile {
    const VERSION: u32 = 1;

    /// Reads it.
    ///
    /// # Errors
    /// Those of [`SealedFile::read`]; [`StoreError::Control`] for a value that no store writes.
    pub fn read(disk: &dyn Disk) -> Result<Self, StoreError> {
        let bytes = SealedFile::read(disk, StoreFile::Control)?;
        let Ok(stored) = Stored::read_from_bytes(&bytes) else {
            return Err(StoreError::Control { offset: 0, found: bytes.len() as u64 });
        };
        let found = |offset, value: U32| StoreError::Control { offset, found: value.get().into() };
        if stored.version != Self::VERSION {
            return Err(found(0, stored.version));
        }
        let block_size = usize::try_from(stored.block_bytes.get()).ok();
        let block_size = block_size.and_then(|bytes| BlockSize::new(bytes).ok());
        let block_size = block_size.ok_or(found(4, stored.block_bytes))?;
        if stored.segment_blocks == 0 {
            return Err(found(8, stored.segment_blocks));
        }
        let checksums = match stored.checksums.get() {
            0 => false,
            1 => true,
            _ => return Err(found(12, stored.checksums)),
        };
        let state = match stored.state.get() {
            0 => ControlState::Shutdown,
            1 => ControlState::InProduction,
            _ => return Err(found(16, stored.state)),
        };
        Ok(Self {
            block_size,
            segment_blocks: stored.segment_blocks.get(),
            checksums,
            state,
            system_id: stored.system_id.get(),
            next_xid: stored.next_xid.get(),
            oldest_xid: stored.oldest_xid.get(),
            next_oid: stored.next_oid.get(),
            next_oid8: stored.next_oid8.get(),
        })
    }

    /// Writes it, in place of what was there.
    ///
    /// # Errors
    /// Those of [`SealedFile::replace`].
    pub fn replace(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        let stored = Stored {
            version: U32::new(Self::VERSION),
            block_bytes: U32::new(self.block_size.bytes_u16().into()),
            segment_blocks: U32::new(self.segment_blocks),
            checksums: U32::new(self.checksums.into()),
            state: U32::new(match self.state {
                ControlState::Shutdown => 0,
                ControlState::InProduction => 1,
            }),
            next_oid: U32::new(self.next_oid),
            system_id: U64::new(self.system_id),
            next_xid: U64::new(self.next_xid),
            oldest_xid: U64::new(self.oldest_xid),
            next_oid8: U64::new(self.next_oid8),
        };
        SealedFile::replace(disk, StoreFile::Control, stored.as_bytes())
    }

    /// Refuses another block size than the store was made with.
    ///
    /// # Errors
    /// [`StoreError::BlockSize`], with both.
    pub fn check_block_size(&self, asked: BlockSize) -> Result<(), StoreError> {
        if self.block_size == asked {
            return Ok(());
        }
        let bytes = |size: BlockSize| u32::from(size.bytes_u16());
        Err(StoreError::BlockSize { stored: bytes(self.block_size), asked: bytes(asked) })
    }

    /// Refuses a store that was not closed.
    ///
    /// # Errors
    /// [`StoreError::NotClosed`].
    pub fn check_closed(&self) -> Result<(), StoreError> {
        match self.state {
            ControlState::Shutdown => Ok(()),
            ControlState::InProduction => Err(StoreError::NotClosed),
        }
    }
}
