//! A store is opened and closed.
//!
//! ```text
//! control   | shut down |--open-->| in production |--close-->| shut down |
//!                                    `- found like this: it was not closed
//! ```
use core::hash::{BuildHasher as _, Hasher as _};
use std::collections::hash_map::RandomState;
use std::io::ErrorKind;
use std::sync::Arc;

use pgtoast_base::{Oid, Xid};

use super::StoreInner;
use crate::buffer::{BufferPool, PoolOptions};
use crate::disk::Disk;
use crate::file::{ControlFile, ControlState, DirectoryLock};
use crate::manifest::Manifest;
use crate::sync::{Mutex, RwLock};
use crate::table::TableInner;
use crate::toast::{DetoastCache, ToastShared, ValueIds};
use crate::transaction::{CommitLog, Transactions};
use crate::{StoreError, StoreOptions, Table};

impl StoreInner {
    pub(super) fn open(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self, StoreError> {
        let lock = DirectoryLock::take(&*disk)?;
        let found = if_there(ControlFile::read(&*disk))?;
        let control = match &found {
            Some(control) => {
                if let Some(asked) = options.block_size {
                    control.check_block_size(asked)?;
                }
                control.check_closed()?;
                *control
            }
            None => new_control(&options),
        };
        let manifest = match found {
            Some(_) => Manifest::read(&*disk)?,
            None => {
                let manifest = Manifest::empty();
                manifest.replace(&*disk)?;
                manifest
            }
        };
        let log = CommitLog::load(&*disk, control.oldest_xid..control.next_xid)?;
        let shared = shared(&disk, &control, log, options);
        let control = ControlFile { state: ControlState::InProduction, ..control };
        let mut tables = std::collections::BTreeMap::new();
        for entry in manifest.entries()? {
            let inner =
                TableInner::new(&entry.name, &entry.schema, entry.relations, &shared, false)?;
            tables.insert(entry.name, Table { inner: Arc::new(inner) });
        }
        control.replace(&*disk)?;
        Ok(Self {
            disk,
            shared,
            tables: RwLock::new(tables),
            manifest: Mutex::new(manifest),
            control: Mutex::new(control),
            is_closed: false,
            _lock: lock,
        })
    }

    pub(super) fn close(mut self) -> Result<(), StoreError> {
        self.write_out(ControlState::Shutdown)?;
        self.is_closed = true;
        Ok(())
    }

    /// Writes everything to its files, and at last what state they are in.
    pub(super) fn write_out(&self, state: ControlState) -> Result<(), StoreError> {
        let mut control = self.control.lock();
        let ToastShared { pool, transactions, ids, .. } = &self.shared;
        for table in self.tables.read().values() {
            table.inner.heap.save()?;
            if let Some(toast) = table.inner.toast() {
                toast.heap.save()?;
            }
        }
        pool.flush()?;
        transactions.save_log(&*self.disk)?;
        let (next_xid, next_value_id) = (transactions.next_full_xid(), ids.next());
        let oldest_xid = transactions.oldest_unfrozen();
        let low = u32::try_from(next_value_id & u64::from(u32::MAX)).unwrap_or_default();
        let changed = ControlFile {
            state,
            next_xid,
            oldest_xid,
            next_oid: low,
            next_oid8: next_value_id,
            ..*control
        };
        changed.replace(&*self.disk)?;
        *control = changed;
        Ok(())
    }
}

/// `None` if there is no such file.
fn if_there<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::Io { kind: ErrorKind::NotFound, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn new_control(options: &StoreOptions) -> ControlFile {
    let block_size = options.block_size.unwrap_or_default();
    let first_xid = Xid::FIRST_NORMAL.get().into();
    ControlFile {
        block_size,
        segment_blocks: options.segment_blocks.unwrap_or(PoolOptions::segment_blocks(block_size)),
        checksums: options.checksums,
        state: ControlState::InProduction,
        // The keys of a hasher are the standard library's source of chance.
        system_id: RandomState::new().build_hasher().finish(),
        next_xid: first_xid,
        oldest_xid: first_xid,
        next_oid: Oid::FIRST_NORMAL.get(),
        next_oid8: Oid::FIRST_NORMAL.get().into(),
    }
}

fn shared(
    disk: &Arc<dyn Disk>,
    control: &ControlFile,
    log: CommitLog,
    options: StoreOptions,
) -> ToastShared {
    let pool = BufferPool::new(
        Arc::clone(disk),
        PoolOptions {
            block_size: control.block_size,
            bytes: options.buffer_bytes,
            io_combine_limit: options.io_combine_limit,
            checksums: control.checksums,
            segment_blocks: control.segment_blocks,
        },
    );
    let next_value_id = options.next_value_id.unwrap_or(control.next_oid8);
    let cache = (options.cache_bytes > 0).then(|| Arc::new(DetoastCache::new(options.cache_bytes)));
    ToastShared {
        pool: Arc::new(pool),
        transactions: Transactions::new(control.next_xid, log),
        ids: Arc::new(ValueIds::new(next_value_id, options.listener)),
        cache,
    }
}
