//! Small files that are whole or not there: written beside the old one, made durable, then given its
//! name.
//!
//! ```text
//! byte 0       8        16       20       24
//!      | magic | length | CRC-32C| 0      | content, `length` bytes
//!                         `- of magic, length and content
//! ```
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::{StoreError, StoreFile};

/// A file that is replaced as a whole, and shows if its bytes are not those that were written.
#[derive(Debug)]
#[non_exhaustive]
pub struct SealedFile;

#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct Seal {
    magic: [u8; 8],
    content_bytes: U64,
    crc: U32,
    zero: U32,
}
const _: () = assert!(size_of::<Seal>() == 24 && align_of::<Seal>() == 1);

impl Seal {
    const MAGIC: [u8; 8] = *b"PGTSEAL1";

    fn of(content: &[u8]) -> Self {
        let mut seal = Self {
            magic: Self::MAGIC,
            content_bytes: U64::new(content.len() as u64),
            crc: U32::ZERO,
            zero: U32::ZERO,
        };
        seal.crc = U32::new(seal.crc_with(content));
        seal
    }

    fn crc_with(&self, content: &[u8]) -> u32 {
        let crc = crc32c::crc32c(&self.magic);
        let crc = crc32c::crc32c_append(crc, self.content_bytes.as_bytes());
        crc32c::crc32c_append(crc, content)
    }
}

impl SealedFile {
    /// The content of the file.
    ///
    /// # Errors
    /// [`StoreError::Io`], of kind `NotFound` if it is not there; [`StoreError::SealMissing`],
    /// [`StoreError::SealLength`], [`StoreError::SealBroken`] if the bytes are not those written.
    pub fn read(disk: &dyn Disk, file: StoreFile) -> Result<Vec<u8>, StoreError> {
        let mut bytes =
            read_whole(disk, &file.path()).map_err(|error| StoreError::io(file, 0, &error))?;
        let Ok((seal, content)) = Seal::read_from_prefix(&bytes) else {
            return Err(StoreError::SealMissing { file });
        };
        if seal.magic != Seal::MAGIC {
            return Err(StoreError::SealMissing { file });
        }
        let (expected, found) = (seal.content_bytes.get(), content.len() as u64);
        if expected != found {
            return Err(StoreError::SealLength { file, expected, found });
        }
        let (expected, found) = (seal.crc_with(content), seal.crc.get());
        if expected != found || seal.zero != U32::ZERO {
            return Err(StoreError::SealBroken { file, expected, found });
        }
        bytes.drain(..size_of::<Seal>());
        Ok(bytes)
    }

    /// Replaces the content, or makes the file. What was in it before is there until all of the new
    /// content is durable, also after a crash.
    ///
    /// # Errors
    /// [`StoreError::Io`]: the file then has the old content or the new.
    pub fn replace(disk: &dyn Disk, file: StoreFile, content: &[u8]) -> Result<(), StoreError> {
        let path = file.path();
        let beside = beside(&path);
        let replaced = write_whole(disk, &beside, content).and_then(|()| {
            disk.rename(&beside, &path)?;
            disk.sync_dir(path.parent().unwrap_or(Path::new("")))
        });
        replaced.map_err(|error| StoreError::io(file, 0, &error))
    }
}

/// Where the new content is written: nothing ever reads it there.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Existing)?;
    let len = usize::try_from(file.len()?).map_err(|_| ErrorKind::OutOfMemory)?;
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match file.read_at(&mut [IoSliceMut::new(&mut bytes[done..])], done as u64) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn write_whole(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let file = disk.open(path, OpenMode::Create)?;
    // What a crash left there may be longer.
    file.set_len(0)?;
    let seal = Seal::of(content);
    write_all(&*file, &mut [IoSlice::new(seal.as_bytes()), IoSlice::new(content)])?;
    file.sync()
}

fn write_all(file: &dyn DiskFile, mut buffers: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut offset = 0;
    // Empty ones in front would look like a disk that takes nothing.
    IoSlice::advance_slices(&mut buffers, 0);
    while !buffers.is_empty() {
        match file.write_at(buffers, offset) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut buffers, written);
                offset += written as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
