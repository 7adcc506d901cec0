//! The same trees in a file of heap pages, where adjacent leaves are one read.
#![cfg(unix)]
mod common;

use std::fs;

use common::{RELATION, store, value};
use pgtoast_base::BlockSize;
use pgtoast_direct::{FileStore, MemoryStore};

const SIZE: BlockSize = BlockSize::KIB_8;

#[test]
fn a_file_has_the_pages_of_the_store_in_memory_and_reads_runs_of_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("16560");
    let open = || {
        let mut options = fs::File::options();
        options.read(true).write(true).create(true).truncate(false).open(&path).unwrap()
    };
    let mut memory = store();
    let mut file = FileStore::new(open(), SIZE).unwrap();
    let mut pointers = Vec::new();
    for len in [1, 5000, 199_600, 1_000_000] {
        let pointer = RELATION.write(&mut file, &value(len)).unwrap();
        assert_eq!(RELATION.write(&mut memory, &value(len)).unwrap(), pointer);
        // Half of it is in the file by now, and the last page is not.
        assert_eq!(RELATION.read(&file, &pointer).unwrap(), value(len));
        pointers.push((pointer, len));
    }
    file.flush().unwrap();
    drop(file);
    let bytes = fs::read(&path).unwrap();
    assert!(bytes == memory.to_file().unwrap());
    let copy = MemoryStore::from_pages(&bytes, SIZE).unwrap();

    let mut file = FileStore::new(open(), SIZE).unwrap();
    for (pointer, len) in &pointers {
        let reads = file.counts().reads;
        let mut target = vec![0; *len];
        let cost = RELATION.read_into(&file, pointer, &mut target).unwrap();
        assert!(target == value(*len) && target == RELATION.read(&copy, pointer).unwrap());
        let reads = file.counts().reads - reads;
        // 99 leaves are 25 blocks, two reads; 50 leaves 13 or 14, one.
        let (leaves, nodes) = (len.div_ceil(1996) as u64, u64::from(cost.at_level(1)));
        let expected = match leaves {
            1 => 1,
            2..=100 => 1 + (leaves - 1).div_ceil(61),
            _ => 1 + nodes + leaves.div_ceil(50) + 1, // the first leaf alone, as it tells its level
        };
        assert!(reads <= expected, "{len}: {reads} reads, {expected} expected");
    }
    let (pointer, _) = pointers.remove(2);
    assert_eq!(RELATION.delete(&mut file, &pointer).unwrap(), 100);
    assert!(RELATION.read(&file, &pointer).is_err());
    for (pointer, len) in &pointers {
        assert!(RELATION.read(&file, pointer).unwrap() == value(*len));
    }
}
