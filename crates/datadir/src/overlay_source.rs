//! A data directory in memory, or one on disk with changes that are in memory alone.
use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSliceMut};
use std::sync::Arc;

use crate::{DataFile, DatadirError, Folder, Source};

/// Files in memory over those of another source, or over nothing. What lies below is never changed.
///
/// Copies share the files that they do not change, so one undamaged directory can be the ground of
/// many damaged ones.
///
/// ```
/// use pgtoast_datadir::{DataFile, OverlaySource, Source};
///
/// let mut source = OverlaySource::empty();
/// source.put("base/5/16384".parse()?, vec![1, 2, 3]);
/// let mut damaged = source.clone();
/// damaged.edit("base/5/16384".parse()?, |bytes| bytes[1] ^= 0x80)?;
/// let read = |source: &OverlaySource| source.read_start("base/5/16384".parse().unwrap(), 10);
/// assert_eq!((read(&source)?, read(&damaged)?), (vec![1, 2, 3], vec![1, 0x82, 3]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OverlaySource {
    base: Option<Arc<dyn Source>>,
    /// `None` for a file that is gone.
    files: BTreeMap<DataFile, Option<Arc<Vec<u8>>>>,
    /// Names that are no file's of a data directory, by folder.
    foreign: BTreeMap<Folder, Vec<String>>,
}

impl OverlaySource {
    /// Over nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Over `base`, with no changes yet.
    #[must_use]
    pub fn over(base: Arc<dyn Source>) -> Self {
        Self { base: Some(base), ..Self::default() }
    }

    /// Makes the file, or takes the place of what is there.
    pub fn put(&mut self, file: DataFile, bytes: Vec<u8>) {
        self.files.insert(file, Some(Arc::new(bytes)));
    }

    /// Removes the file, if there is one.
    pub fn remove(&mut self, file: DataFile) {
        self.files.insert(file, None);
    }

    /// Changes the file in memory, in any way and length. All of it is read for that.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn edit<R>(
        &mut self,
        file: DataFile,
        change: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<R, DatadirError> {
        let mut bytes = match self.files.remove(&file) {
            Some(bytes) => bytes.ok_or(DatadirError::FileMissing { file })?,
            None => match &self.base {
                Some(base) => Arc::new(base.read_start(file, usize::MAX)?),
                None => return Err(DatadirError::FileMissing { file }),
            },
        };
        let result = change(Arc::make_mut(&mut bytes));
        self.files.insert(file, Some(bytes));
        Ok(result)
    }

    /// Gives each of two files the bytes of the other.
    ///
    /// # Errors
    /// Those of reading them.
    pub fn swap(&mut self, one: DataFile, other: DataFile) -> Result<(), DatadirError> {
        let bytes = self.edit(one, core::mem::take)?;
        let others = self.edit(other, |there| core::mem::replace(there, bytes))?;
        self.put(one, others);
        Ok(())
    }

    /// Adds a name to a folder's list: a file that nobody can read by this interface, or a folder.
    pub fn add_name(&mut self, folder: Folder, name: impl Into<String>) {
        self.foreign.entry(folder).or_default().push(name.into());
    }

    /// The files that are held in memory, those removed left out.
    pub fn files(&self) -> impl Iterator<Item = (DataFile, &[u8])> {
        self.files.iter().filter_map(|(file, bytes)| Some((*file, bytes.as_ref()?.as_slice())))
    }
}

impl FromIterator<(DataFile, Vec<u8>)> for OverlaySource {
    /// These files and no others.
    fn from_iter<I: IntoIterator<Item = (DataFile, Vec<u8>)>>(files: I) -> Self {
        let mut source = Self::empty();
        files.into_iter().for_each(|(file, bytes)| source.put(file, bytes));
        source
    }
}

impl Source for OverlaySource {
    fn file_len(&self, file: DataFile) -> Result<Option<u64>, DatadirError> {
        match (self.files.get(&file), &self.base) {
            (Some(bytes), _) => Ok(bytes.as_ref().map(|bytes| bytes.len() as u64)),
            (None, Some(base)) => base.file_len(file),
            (None, None) => Ok(None),
        }
    }

    fn read_vectored_at(
        &self,
        file: DataFile,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize, DatadirError> {
        let bytes = match (self.files.get(&file), &self.base) {
            (Some(Some(bytes)), _) => bytes,
            (None, Some(base)) => return base.read_vectored_at(file, offset, buffers),
            _ => return Err(DatadirError::FileMissing { file }),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let (mut rest, mut done) = (bytes.get(start..).unwrap_or_default(), 0);
        for buffer in buffers {
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            done += count;
        }
        Ok(done)
    }

    fn list(&self, folder: Folder) -> Result<Vec<String>, DatadirError> {
        let missing = DatadirError::FolderIo { folder, kind: ErrorKind::NotFound };
        let below = self.base.as_ref().map_or(Err(missing), |base| base.list(folder));
        let mut names = below.or_else(|error| {
            // A folder that exists above alone is one all the same.
            let is_file_here = self.files.keys().any(|file| is_in(*file, folder).is_some());
            let is_here = is_file_here || self.foreign.contains_key(&folder);
            if is_here { Ok(Vec::new()) } else { Err(error) }
        })?;
        names.retain(|name| {
            DataFile::in_folder(folder, name)
                .is_none_or(|file| !matches!(self.files.get(&file), Some(None)))
        });
        let above = self.files.iter().filter(|(_, bytes)| bytes.is_some());
        names.extend(above.filter_map(|(file, _)| is_in(*file, folder)));
        names.extend(self.foreign.get(&folder).into_iter().flatten().cloned());
        names.sort();
        names.dedup();
        Ok(names)
    }
}

/// The name of what `folder` holds of the path of `file`: its own, or that of a folder on the way.
fn is_in(file: DataFile, folder: Folder) -> Option<String> {
    let path = file.to_string();
    let rest = match folder {
        Folder::Root => path.as_str(),
        folder => path.strip_prefix(&format!("{folder}/"))?,
    };
    Some(rest.split('/').next().unwrap_or(rest).to_owned())
}
