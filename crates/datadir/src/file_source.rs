//! A data directory on disk.
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{ErrorKind, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pgtoast_base::Oid;

use crate::{DataFile, DatadirError, Folder, Source};

/// The files below a path, read by position. Files stay open between reads, up to a number.
#[derive(Debug)]
pub struct FileSource {
    root: PathBuf,
    /// The one relation there is, by its first file.
    relation: Option<PathBuf>,
    tablespaces: BTreeMap<Oid, PathBuf>,
    open: Mutex<HashMap<DataFile, Arc<File>>>,
}

impl FileSource {
    /// The data directory, copy or unpacked base backup at `root`. Nothing is opened yet.
    ///
    /// Tablespaces are found through the links in `pg_tblspc`. Where a base backup came without the
    /// links, its `tablespace_map` says where they would lead.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let tablespaces = mapped_tablespaces(&root);
        Self { root, relation: None, tablespaces, open: Mutex::default() }
    }

    /// One relation, wherever its files are: `first` is that of segment 0 of the main fork. Any
    /// [`RelationFile`](crate::RelationFile) is then one of its files, whatever its folder and number.
    #[must_use]
    pub fn relation(first: impl Into<PathBuf>) -> Self {
        let first = first.into();
        let root = first.parent().map(Path::to_owned).unwrap_or_default();
        let tablespaces = BTreeMap::new();
        Self { root, relation: Some(first), tablespaces, open: Mutex::default() }
    }

    /// Looks for a tablespace at `path`, wherever its link leads.
    #[must_use]
    pub fn with_tablespace(mut self, tablespace: Oid, path: impl Into<PathBuf>) -> Self {
        self.tablespaces.insert(tablespace, path.into());
        self
    }

    /// The data directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file is.
    #[must_use]
    pub fn path(&self, file: DataFile) -> PathBuf {
        if let (Some(first), DataFile::Relation(file)) = (&self.relation, file) {
            let mut path = first.clone().into_os_string();
            path.push(file.fork.suffix());
            if file.segment != 0 {
                path.push(format!(".{}", file.segment));
            }
            return path.into();
        }
        // The name is the last part of the printed path; the folder may be elsewhere.
        let printed = file.to_string();
        let name = printed.rsplit_once('/').map_or(printed.as_str(), |(_, name)| name);
        self.folder_path(file.folder()).join(name)
    }

    /// Where a folder is.
    #[must_use]
    pub fn folder_path(&self, folder: Folder) -> PathBuf {
        if let Folder::Tablespace { tablespace, version, database } = folder
            && let Some(path) = self.tablespaces.get(&tablespace)
        {
            return path.join(version.to_string()).join(database.to_string());
        }
        self.root.join(folder.to_string())
    }

    /// The process that `postmaster.pid` names, if it runs and the file is of this very directory: a
    /// copy of a directory has the file of the original.
    #[doc(alias = "postmaster.pid")]
    #[must_use]
    pub fn running_server(&self) -> Option<u32> {
        let text = fs::read_to_string(self.root.join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        // A server in single-user mode writes its number negative.
        let number = lines.next()?.trim().parse::<i32>().ok()?.unsigned_abs();
        let is_here = lines.next().is_none_or(|directory| {
            match (fs::canonicalize(directory.trim()), fs::canonicalize(&self.root)) {
                (Ok(there), Ok(here)) => there == here,
                (Err(_), _) => false,
                (Ok(_), Err(_)) => true,
            }
        });
        let pid = rustix::process::Pid::from_raw(i32::try_from(number).ok()?)?;
        let runs = match rustix::process::test_kill_process(pid) {
            Ok(()) => true,
            // Not ours to signal, so it is there.
            Err(error) => error == rustix::io::Errno::PERM,
        };
        (is_here && runs).then_some(number)
    }

    fn open(&self, file: DataFile) -> Result<Arc<File>, DatadirError> {
        // Nothing half done can be seen in the map, so a panic elsewhere does not spoil it.
        let lock = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = lock().get(&file) {
            return Ok(Arc::clone(open));
        }
        let path = self.path(file);
        let located = |error: std::io::Error| located(file, 0, &error);
        // Opening a pipe would wait for its other end for ever.
        if !fs::metadata(&path).map_err(located)?.is_file() {
            return Err(DatadirError::FileKind { file });
        }
        let opened = Arc::new(File::open(&path).map_err(located)?);
        let mut open = lock();
        if open.len() >= OPEN_FILES {
            open.clear();
        }
        open.insert(file, Arc::clone(&opened));
        Ok(opened)
    }
}

impl Source for FileSource {
    fn file_len(&self, file: DataFile) -> Result<Option<u64>, DatadirError> {
        match fs::metadata(self.path(file)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
            Ok(_) => Err(DatadirError::FileKind { file }),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(located(file, 0, &error)),
        }
    }

    fn read_vectored_at(
        &self,
        file: DataFile,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DatadirError> {
        let open = self.open(file)?;
        let (mut buffers, mut done) = (buffers, 0);
        // A read may end early without being at the end of the file; only one of nothing is that.
        while !buffers.is_empty() {
            let batch = buffers.len().min(MOST_BUFFERS);
            let at = offset.saturating_add(done as u64);
            match rustix::io::preadv(&open, &mut buffers[..batch], at) {
                Ok(0) => break,
                Ok(count) => {
                    done += count;
                    IoSliceMut::advance_slices(&mut buffers, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(located(file, at, &error.into())),
            }
            while buffers.first().is_some_and(|buffer| buffer.is_empty()) {
                buffers = &mut buffers[1..];
            }
        }
        Ok(done)
    }

    fn list(&self, folder: Folder) -> Result<Vec<String>, DatadirError> {
        let located = |error: std::io::Error| DatadirError::FolderIo { folder, kind: error.kind() };
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder_path(folder)).map_err(located)? {
            names.push(entry.map_err(located)?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }
}

/// How many files are kept open.
const OPEN_FILES: usize = 128;
/// How many buffers the system takes at once.
#[doc(alias = "IOV_MAX")]
const MOST_BUFFERS: usize = 1024;

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn located(file: DataFile, offset: u64, error: &std::io::Error) -> DatadirError {
    if is_absent(error) {
        DatadirError::FileMissing { file }
    } else {
        DatadirError::Io { file, offset, kind: error.kind() }
    }
}

/// What `tablespace_map` says, of tablespaces that have no link.
///
/// A line is the tablespace's id, a space and the path, in which a backslash comes before a line break
/// or a backslash.
fn mapped_tablespaces(root: &Path) -> BTreeMap<Oid, PathBuf> {
    let text = fs::read_to_string(root.join("tablespace_map")).unwrap_or_default();
    let mut mapped = BTreeMap::new();
    for line in split_map(&text) {
        let Some((oid, path)) = line.split_once(' ') else { continue };
        let Some(oid) = crate::file::decimal(oid) else { continue };
        if !root.join("pg_tblspc").join(oid.to_string()).exists() {
            mapped.insert(Oid::new(oid), PathBuf::from(path));
        }
    }
    mapped
}

fn split_map(text: &str) -> Vec<String> {
    let (mut lines, mut line, mut escaped) = (Vec::new(), String::new(), false);
    for letter in text.chars() {
        match letter {
            '\\' if !escaped => escaped = true,
            '\n' | '\r' if !escaped => lines.push(core::mem::take(&mut line)),
            letter => {
                line.push(letter);
                escaped = false;
            }
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_in_a_path_of_the_map_is_part_of_the_path() {
        let lines = split_map("16400 /a\\\nb\\\\c\n16401 /d\n");
        assert_eq!(lines, ["16400 /a\nb\\c", "16401 /d", ""]);
    }
}
