//! Sealed files: what was written comes back, or an error that says what is wrong; and a directory
//! has one owner.
use std::fs;
use std::io::ErrorKind;

use pgtoast_base::BlockSize;
use pgtoast_store::disk::{Disk, FileDisk};
use pgtoast_store::file::{ControlFile, ControlState, DirectoryLock, SealedFile};
use pgtoast_store::{StoreError, StoreFile};
use tempfile::TempDir;

const CONTROL: ControlFile = ControlFile {
    block_size: BlockSize::KIB_16,
    segment_blocks: 65_536,
    checksums: true,
    state: ControlState::InProduction,
    system_id: 0x0123_4567_89ab_cdef,
    next_xid: (3 << 32) + 5,
    oldest_xid: 3,
    next_oid: 4_294_967_295,
    next_oid8: u64::MAX - 1,
};

#[test]
fn a_control_file_reads_as_it_was_written() {
    let directory = TempDir::new().unwrap();
    let disk = FileDisk::new(directory.path());
    for state in [ControlState::InProduction, ControlState::Shutdown] {
        let control = ControlFile { state, ..CONTROL };
        control.replace(&disk).unwrap();
        assert_eq!(ControlFile::read(&disk), Ok(control));
    }
    assert_eq!(disk.list("".as_ref()).unwrap(), ["control"].map(Into::<std::path::PathBuf>::into));
}

#[test]
fn a_store_of_other_blocks_is_refused_with_both_sizes() {
    let refused = CONTROL.check_block_size(BlockSize::KIB_8).unwrap_err();
    assert_eq!(refused, StoreError::BlockSize { stored: 16_384, asked: 8192 });
    assert_eq!(refused.to_string(), "the store has blocks of 16384 bytes, not of 8192");
    assert_eq!(CONTROL.check_block_size(BlockSize::KIB_16), Ok(()));
}

#[test]
fn a_store_that_was_not_closed_is_refused() {
    assert_eq!(CONTROL.check_closed(), Err(StoreError::NotClosed));
    let closed = ControlFile { state: ControlState::Shutdown, ..CONTROL };
    assert_eq!(closed.check_closed(), Ok(()));
}

#[test]
fn every_changed_bit_of_a_sealed_file_is_noticed_and_every_cut() {
    let directory = TempDir::new().unwrap();
    let disk = FileDisk::new(directory.path());
    let path = directory.path().join("manifest");
    SealedFile::replace(&disk, StoreFile::Manifest, b"tables").unwrap();
    let sound = fs::read(&path).unwrap();
    assert_eq!(SealedFile::read(&disk, StoreFile::Manifest).unwrap(), b"tables");
    for bit in 0..8 * sound.len() {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, bytes).unwrap();
        let error = SealedFile::read(&disk, StoreFile::Manifest).unwrap_err();
        assert!(error.to_string().starts_with("manifest: "), "bit {bit}: {error}");
    }
    for len in 0..sound.len() {
        fs::write(&path, &sound[..len]).unwrap();
        SealedFile::read(&disk, StoreFile::Manifest).unwrap_err();
    }
    let missing = StoreError::Io { file: StoreFile::Control, offset: 0, kind: ErrorKind::NotFound };
    assert_eq!(SealedFile::read(&disk, StoreFile::Control), Err(missing));
}

#[test]
fn a_crash_while_a_sealed_file_is_replaced_leaves_the_old_one() {
    let directory = TempDir::new().unwrap();
    let disk = FileDisk::new(directory.path());
    SealedFile::replace(&disk, StoreFile::Manifest, b"old").unwrap();
    fs::write(directory.path().join("manifest.new"), [7; 100]).unwrap();
    assert_eq!(SealedFile::read(&disk, StoreFile::Manifest).unwrap(), b"old");
    SealedFile::replace(&disk, StoreFile::Manifest, b"").unwrap();
    assert_eq!(SealedFile::read(&disk, StoreFile::Manifest).unwrap(), b"");
}

#[test]
fn a_control_file_of_nonsense_is_an_error_at_its_place() {
    let directory = TempDir::new().unwrap();
    let disk = FileDisk::new(directory.path());
    CONTROL.replace(&disk).unwrap();
    let sound = SealedFile::read(&disk, StoreFile::Control).unwrap();
    for offset in [0, 4, 8, 12, 16] {
        for value in [0_u32, 9, u32::MAX] {
            if (offset, value) == (12, 0) || (offset, value) == (16, 0) || (offset, value) == (8, 9)
            {
                continue;
            }
            if offset == 8 && value == u32::MAX {
                continue;
            }
            let mut bytes = sound.clone();
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
            SealedFile::replace(&disk, StoreFile::Control, &bytes).unwrap();
            let offset = u32::try_from(offset).unwrap();
            let error = StoreError::Control { offset, found: value.into() };
            assert_eq!(ControlFile::read(&disk), Err(error));
        }
    }
    SealedFile::replace(&disk, StoreFile::Control, &sound[1..]).unwrap();
    assert_eq!(ControlFile::read(&disk), Err(StoreError::Control { offset: 0, found: 55 }));
}

#[test]
fn a_directory_has_one_owner_at_a_time() {
    let directory = TempDir::new().unwrap();
    let disk = FileDisk::new(directory.path());
    let lock = DirectoryLock::take(&disk).unwrap();
    assert_eq!(DirectoryLock::take(&disk).unwrap_err(), StoreError::Locked);
    assert_eq!(
        DirectoryLock::take(&FileDisk::new(directory.path())).unwrap_err(),
        StoreError::Locked
    );
    drop(lock);
    DirectoryLock::take(&disk).unwrap();
}
