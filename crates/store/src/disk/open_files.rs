//! Which files are open at the system, out of all that are open for a store.
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, RwLock};

/// A file that has a path, and is open at the system when it is used.
#[derive(Debug)]
pub(super) struct SystemFile {
    path: PathBuf,
    /// Read-locked while the system works on it.
    file: RwLock<Option<File>>,
    /// Since the list last came past it.
    used: AtomicBool,
    among: Arc<OpenFiles>,
}

/// Those that are open at the system, in the order in which they are looked at for one to close.
#[derive(Debug)]
pub(super) struct OpenFiles {
    limit: usize,
    queue: Mutex<VecDeque<Weak<SystemFile>>>,
}

impl OpenFiles {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), queue: Mutex::new(VecDeque::new()) }
    }

    /// A file that was just opened.
    pub(super) fn add(self: &Arc<Self>, path: PathBuf, file: File) -> Arc<SystemFile> {
        let file = Arc::new(SystemFile {
            path,
            file: RwLock::new(Some(file)),
            used: AtomicBool::new(true),
            among: Arc::clone(self),
        });
        self.opened(&file);
        file
    }

    /// Notes that it is open, and closes others if they are too many. One in use stays.
    fn opened(&self, file: &Arc<SystemFile>) {
        let mut queue = self.queue.lock();
        queue.push_back(Arc::downgrade(file));
        for _ in 0..2 * queue.len() {
            if queue.len() <= self.limit {
                return;
            }
            let Some(first) = queue.pop_front() else { return };
            // One that nobody has any more was closed with its last user.
            let Some(file) = first.upgrade() else { continue };
            if file.used.swap(false, Ordering::Relaxed) || !file.close() {
                queue.push_back(first);
            }
        }
    }
}

impl SystemFile {
    /// Calls the system with the file, which is opened before if it must be.
    pub(super) fn with<T>(
        self: &Arc<Self>,
        mut call: impl FnMut(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        self.used.store(true, Ordering::Relaxed);
        loop {
            if let Some(file) = &*self.file.read() {
                return call(file);
            }
            self.reopen()?;
        }
    }

    fn reopen(self: &Arc<Self>) -> io::Result<()> {
        let mut file = self.file.write();
        if file.is_some() {
            return Ok(());
        }
        *file = Some(File::options().read(true).write(true).open(&self.path)?);
        drop(file);
        self.among.opened(self);
        Ok(())
    }

    /// Closes it, unless it is in use.
    fn close(&self) -> bool {
        match self.file.try_write() {
            Some(mut file) => {
                *file = None;
                true
            }
            None => false,
        }
    }
}
