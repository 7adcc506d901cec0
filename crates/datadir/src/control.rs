//! The control file: what the whole cluster is, and what it was doing last.
//!
//! ```text
//! byte 0        8             12            16            24        40                   128
//!      | system | control ver | catalog ver | state | pad | times … | last checkpoint    | …
//! byte 204       208     216          220           …   240          …   252         256
//!      … | align | float | block size | segment len | … | chunk size | … | checksums | nonce …
//! byte 288 (18: 292)       292 (296)                                                  8192
//!      | CRC-32C of before | zeros                                                    |
//! ```
//! The last checkpoint, from byte 40: redo, timelines, next ids, oldest ids. Release 17 put the WAL
//! level into padding there, and 18 one byte before the nonce; nothing else has moved since 14.
//!
//! Source: `pg_control.h` (REL_14 to REL_18).
use core::fmt;

use pgtoast_base::{BlockSize, Lsn, Oid, Xid};
use pgtoast_toast::{ChunkSize, ValueIdWidth};
use zerocopy::little_endian::{F64, I32, I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{CatalogVersion, DataFile, DatadirError, Source};

/// What the control file says. Everything is checked that could make a reader go astray.
#[doc(alias = "ControlFileData")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlFile {
    /// The major release, and the version of the catalogs.
    pub version: CatalogVersion,
    /// The version of the control file's own layout.
    #[doc(alias = "pg_control_version")]
    pub control_version: u32,
    /// Tells clusters apart; a standby has its primary's.
    pub system_identifier: u64,
    /// What the server was doing when it wrote the file last.
    pub state: ClusterState,
    /// The last checkpoint's record.
    #[doc(alias = "checkPoint")]
    pub checkpoint: Lsn,
    /// Where replay would start.
    pub redo: Lsn,
    /// The timeline of the last checkpoint.
    pub timeline: u32,
    /// The next transaction id as of the last checkpoint, its epoch in the upper half.
    pub next_full_xid: u64,
    /// The next object id as of the last checkpoint.
    pub next_oid: Oid,
    /// The next multixact id as of the last checkpoint.
    pub next_multi: u32,
    /// Where the next multixact's members go.
    pub next_multi_offset: u32,
    /// No table holds an older transaction id that is not frozen.
    pub oldest_xid: Xid,
    /// No table holds an older multixact id.
    pub oldest_multi: u32,
    /// The oldest transaction that was running at the last checkpoint; invalid on a primary.
    pub oldest_active_xid: Xid,
    /// When the last checkpoint was, in seconds since 1970.
    pub checkpoint_time: i64,
    /// Replay must go on to here before the files are consistent; invalid if it need not.
    pub min_recovery_point: Lsn,
    /// A base backup started here, and replay has not reached its end; invalid if there is none.
    pub backup_start: Lsn,
    /// The size of blocks.
    pub block_size: BlockSize,
    /// How many blocks a segment of a relation has: at least one.
    #[doc(alias = "relseg_size")]
    pub segment_blocks: u32,
    /// The payload of a full chunk in relations with 32-bit value ids.
    #[doc(alias = "toast_max_chunk_size")]
    pub toast_chunk_size: ChunkSize,
    /// Whether pages carry checksums: 0 for no.
    pub data_checksum_version: u32,
    /// The size of a WAL segment, in bytes.
    pub wal_segment_bytes: u32,
}

impl ControlFile {
    /// How much of the file means something, in bytes.
    #[doc(alias = "PG_CONTROL_MAX_SAFE_SIZE")]
    pub const USED_BYTES: usize = 512;

    /// Reads and checks the control file.
    ///
    /// # Errors
    /// Those of reading, and of [`parse`](Self::parse).
    pub fn read(source: &impl Source) -> Result<Self, DatadirError> {
        Self::parse(&source.read_start(DataFile::Control, Self::USED_BYTES)?)
    }

    /// Of the file's bytes; what is behind [`USED_BYTES`](Self::USED_BYTES) does not matter.
    ///
    /// # Errors
    /// [`DatadirError::FileShort`], [`DatadirError::Version`], [`DatadirError::ControlChecksum`],
    /// [`DatadirError::ControlField`].
    pub fn parse(bytes: &[u8]) -> Result<Self, DatadirError> {
        let short = |needed| DatadirError::FileShort {
            file: DataFile::Control,
            offset: 0,
            needed,
            found: bytes.len(),
        };
        let Ok((raw, _)) = Layout::ref_from_prefix(bytes) else {
            return Err(short(size_of::<Layout>()));
        };
        let (control_version, catalog) = (raw.control_version.get(), raw.catalog_version.get());
        let unknown = DatadirError::Version { control_version, catalog_version: catalog };
        let crc_offset = crc_offset(control_version).ok_or(unknown)?;
        let Some(stored) = bytes.get(crc_offset..).and_then(<[u8]>::first_chunk) else {
            return Err(short(crc_offset + size_of::<u32>()));
        };
        let (expected, found) = (crc32c::crc32c(&bytes[..crc_offset]), u32::from_le_bytes(*stored));
        if expected != found {
            return Err(DatadirError::ControlChecksum { expected, found });
        }
        let major = major(control_version, catalog).ok_or(unknown)?;
        raw.check(CatalogVersion { major, catalog })
    }

    /// The next transaction id as of the last checkpoint.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "without the epoch")]
    pub const fn next_xid(&self) -> Xid {
        Xid::new(self.next_full_xid as u32)
    }

    /// Whether pages carry checksums.
    #[must_use]
    pub const fn has_checksums(&self) -> bool {
        self.data_checksum_version != 0
    }

    /// The bytes of a full segment of a relation.
    #[must_use]
    pub const fn segment_bytes(&self) -> u64 {
        self.segment_blocks as u64 * self.block_size.bytes() as u64
    }

    /// The payload of a full chunk in relations with value ids of that width.
    #[must_use]
    pub fn chunk_size(&self, width: ValueIdWidth) -> ChunkSize {
        let wider = width.bytes() - ValueIdWidth::Oid.bytes();
        let bytes = self.toast_chunk_size.bytes().saturating_sub(wider);
        ChunkSize::new(bytes).unwrap_or(self.toast_chunk_size)
    }

    /// Where the checksum of a control file is that says it has this layout, in bytes; `None` for a
    /// layout that no release from 14 to 18 has. For whoever damages control files on purpose.
    #[must_use]
    pub const fn checksum_offset(control_version: u32) -> Option<usize> {
        crc_offset(control_version)
    }
}

/// What a server was doing when it wrote the control file last.
#[doc(alias = "DBState")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterState {
    /// `initdb` is at work, or broke off.
    StartingUp,
    /// It was stopped cleanly.
    ShutDown,
    /// It was stopped cleanly while replaying: a standby.
    ShutDownInRecovery,
    /// It was being stopped.
    ShuttingDown,
    /// It was replaying after a crash.
    InCrashRecovery,
    /// It was replaying as a standby or from an archive.
    InArchiveRecovery,
    /// It was running. A copy of its files is consistent only after replay.
    InProduction,
}

impl ClusterState {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::StartingUp,
        Self::ShutDown,
        Self::ShutDownInRecovery,
        Self::ShuttingDown,
        Self::InCrashRecovery,
        Self::InArchiveRecovery,
        Self::InProduction,
    ];

    /// Whether everything that was done is in the files.
    #[must_use]
    pub const fn is_clean(self) -> bool {
        matches!(self, Self::ShutDown | Self::ShutDownInRecovery)
    }
}

impl fmt::Display for ClusterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StartingUp => "starting up",
            Self::ShutDown => "shut down",
            Self::ShutDownInRecovery => "shut down in recovery",
            Self::ShuttingDown => "shutting down",
            Self::InCrashRecovery => "in crash recovery",
            Self::InArchiveRecovery => "in archive recovery",
            Self::InProduction => "in production",
        })
    }
}

/// The part that every release since 14 lays out alike, as drawn at the top of this file.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Layout {
    system_identifier: U64,
    control_version: U32,
    catalog_version: U32,
    state: U32,
    padding_20: U32,
    time: I64,
    checkpoint: U64,
    redo: U64,
    timeline: U32,
    previous_timeline: U32,
    full_page_writes_56: U32,
    wal_level_60: U32,
    next_full_xid: U64,
    next_oid: U32,
    next_multi: U32,
    next_multi_offset: U32,
    oldest_xid: U32,
    oldest_xid_database: U32,
    oldest_multi: U32,
    oldest_multi_database: U32,
    padding_100: U32,
    checkpoint_time: I64,
    oldest_commit_ts_xid: U32,
    newest_commit_ts_xid: U32,
    oldest_active_xid: U32,
    padding_124: U32,
    unlogged_lsn: U64,
    min_recovery_point: U64,
    min_recovery_timeline: U32,
    padding_148: U32,
    backup_start: U64,
    backup_end: U64,
    backup_end_required_168: U32,
    wal_level: I32,
    wal_log_hints_176: U32,
    max_connections: I32,
    max_worker_processes: I32,
    max_wal_senders: I32,
    max_prepared_xacts: I32,
    max_locks_per_xact: I32,
    track_commit_timestamp_200: U32,
    maximum_alignment: U32,
    float_format: F64,
    block_bytes: U32,
    segment_blocks: U32,
    wal_block_bytes: U32,
    wal_segment_bytes: U32,
    name_len: U32,
    index_max_keys: U32,
    toast_chunk_bytes: U32,
    large_object_block_bytes: U32,
    float8_by_value_248: U32,
    data_checksum_version: U32,
}
const _: () = assert!(size_of::<Layout>() == 256 && align_of::<Layout>() == 1);

impl Layout {
    fn check(&self, version: CatalogVersion) -> Result<ControlFile, DatadirError> {
        let wrong = |field, found: u32| DatadirError::ControlField { field, found: found.into() };
        // A file of a big-endian server fails its checksum before it comes here; one whose floating
        // point or alignment differs was written by a machine whose pages nobody here can read.
        if self.maximum_alignment.get() != 8 {
            return Err(wrong("maximum alignment", self.maximum_alignment.get()));
        }
        if self.float_format.get() != FLOAT_FORMAT {
            let found = self.float_format.get().to_bits();
            return Err(DatadirError::ControlField { field: "float format", found });
        }
        let state = self.state.get();
        let state_index = usize::try_from(state).unwrap_or(usize::MAX);
        let block_bytes = self.block_bytes.get();
        let block_size = usize::try_from(block_bytes).ok().and_then(|n| BlockSize::new(n).ok());
        let segment_blocks = self.segment_blocks.get();
        let chunk_bytes = self.toast_chunk_bytes.get();
        let chunk_size = usize::try_from(chunk_bytes).ok().and_then(ChunkSize::new);
        Ok(ControlFile {
            version,
            control_version: self.control_version.get(),
            system_identifier: self.system_identifier.get(),
            state: *ClusterState::ALL.get(state_index).ok_or(wrong("state", state))?,
            checkpoint: Lsn::new(self.checkpoint.get()),
            redo: Lsn::new(self.redo.get()),
            timeline: self.timeline.get(),
            next_full_xid: self.next_full_xid.get(),
            next_oid: Oid::new(self.next_oid.get()),
            next_multi: self.next_multi.get(),
            next_multi_offset: self.next_multi_offset.get(),
            oldest_xid: Xid::new(self.oldest_xid.get()),
            oldest_multi: self.oldest_multi.get(),
            oldest_active_xid: Xid::new(self.oldest_active_xid.get()),
            checkpoint_time: self.checkpoint_time.get(),
            min_recovery_point: Lsn::new(self.min_recovery_point.get()),
            backup_start: Lsn::new(self.backup_start.get()),
            block_size: block_size.ok_or(wrong("block size", block_bytes))?,
            segment_blocks: match segment_blocks {
                0 => return Err(wrong("segment size", 0)),
                blocks => blocks,
            },
            toast_chunk_size: chunk_size.ok_or(wrong("chunk size", chunk_bytes))?,
            data_checksum_version: self.data_checksum_version.get(),
            wal_segment_bytes: self.wal_segment_bytes.get(),
        })
    }
}

/// What every server stores to tell floating point formats apart.
#[doc(alias = "FLOATFORMAT_VALUE")]
const FLOAT_FORMAT: f64 = 1_234_567.0;

/// Where the checksum is; `None` for a layout that no release from 14 to 18 has.
const fn crc_offset(control_version: u32) -> Option<usize> {
    match control_version {
        1300 | 1700 => Some(288),
        1800 => Some(292),
        _ => None,
    }
}

/// The major release. Those from 14 to 16 differ in their catalogs alone; a version of the catalogs is
/// a date, and each release's dates begin where its predecessor was branched off.
const fn major(control_version: u32, catalog_version: u32) -> Option<u32> {
    match (control_version, catalog_version) {
        (1300, 202_007_202..=202_107_181) => Some(14),
        (1300, 202_107_182..=202_209_061) => Some(15),
        (1300, 202_209_062..=202_307_071) => Some(16),
        (1700, _) => Some(17),
        (1800, _) => Some(18),
        _ => None,
    }
}
