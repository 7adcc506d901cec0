//! Single faults in a sound index, and what the check says about each: which rule, which block, which
//! item. Nothing else may come of them but results and errors.
mod support;

use pgtoast_base::BlockSize;
use pgtoast_nbtree::{Index, Insertion, KeyWidth, MemoryPages, NbtreeError};
use support::{entries, key, tid};

const PAGE: usize = 1024;

/// Blocks 1, 2, 4, 5, … are leaves of 43 entries or so, block 3 is the root.
fn sound() -> Vec<u8> {
    let index =
        Index::create(MemoryPages::new(BlockSize::KIB_1), KeyWidth::Oid).expect("a sound index");
    for n in 0..200 {
        assert_eq!(index.insert(key(1000 + u64::from(n), 0), tid(n)), Ok(Insertion::Done));
    }
    assert_eq!(index.check().expect("a sound index").levels, 2);
    index.into_pages().to_bytes()
}

fn pointer(block: usize, item: usize) -> usize {
    block * PAGE + 24 + 4 * (item - 1)
}

fn tuple(image: &[u8], block: usize, item: usize) -> usize {
    let at = pointer(block, item);
    let word = u32::from_le_bytes(image[at..at + 4].try_into().expect("a sound index"));
    block * PAGE + (word & 0x7fff) as usize
}

fn special(block: usize) -> usize {
    (block + 1) * PAGE - 16
}

type Damage = fn(&mut Vec<u8>);

#[test]
fn every_fault_is_named_where_it_is() {
    let faults: [(Damage, NbtreeError); 13] = [
        (|image| image[24] ^= 1, NbtreeError::Meta { magic: 0x0005_3163, version: 4 }),
        (
            |image| image[32..36].copy_from_slice(&99u32.to_le_bytes()),
            NbtreeError::Missing { block: 99 },
        ),
        (
            |image| {
                let (one, other) = (pointer(1, 5), pointer(1, 6));
                (0..4).for_each(|byte| image.swap(one + byte, other + byte));
            },
            NbtreeError::ItemOrder { block: 1, item: 6 },
        ),
        (
            |image| image[pointer(2, 3)..][..2].copy_from_slice(&0x8010u16.to_le_bytes()),
            NbtreeError::ItemOutside { block: 2, item: 3 },
        ),
        (
            |image| {
                let at = tuple(image, 2, 7);
                image[at + 6] = 24;
            },
            NbtreeError::ItemLen { block: 2, item: 7, expected: 16, found: 24 },
        ),
        (
            |image| {
                let at = tuple(image, 2, 7);
                image[at + 7] |= 0x20;
            },
            NbtreeError::ItemColumns { block: 2, item: 7, found: 1 },
        ),
        (
            |image| {
                let at = tuple(image, 1, 1);
                image[at + 8..at + 12].copy_from_slice(&1001u32.to_le_bytes());
            },
            NbtreeError::HighKey { block: 1, item: 44 },
        ),
        (
            |image| image[special(2)..][..4].copy_from_slice(&7u32.to_le_bytes()),
            NbtreeError::Sibling { block: 2, expected: 1, found: 7 },
        ),
        (|image| image[special(2) + 8] = 1, NbtreeError::Level { block: 2, expected: 0, found: 1 }),
        (
            |image| image[special(2) + 4..][..4].copy_from_slice(&1u32.to_le_bytes()),
            NbtreeError::Sibling { block: 1, expected: 2, found: 0 },
        ),
        (|image| image[special(2) + 12] = 5, NbtreeError::Flags { block: 2, found: 5 }),
        (
            |image| {
                let at = tuple(image, 3, 2);
                image[at..at + 4].copy_from_slice(&[0, 0, 5, 0]);
            },
            NbtreeError::DownlinkMissing { block: 3, child: 2 },
        ),
        (
            |image| {
                let at = tuple(image, 3, 2);
                image[at + 8] ^= 1;
            },
            NbtreeError::ChildBounds { block: 3, item: 2, child: 2 },
        ),
    ];
    for (number, (damage, expected)) in faults.into_iter().enumerate() {
        let mut image = sound();
        damage(&mut image);
        let pages = MemoryPages::from_bytes(BlockSize::KIB_1, &image);
        let found = match Index::open(pages, KeyWidth::Oid) {
            Err(error) => vec![error],
            Ok(index) => {
                let mut found = Vec::new();
                index.check_each(|finding| found.push(finding.into())).unwrap();
                for n in 0..250 {
                    let _ = index.get(key(1000 + n, 0));
                    let _ = index.insert(key(1000 + n, 1), tid(0));
                }
                let _ = index.vacuum(|_| true);
                found
            }
        };
        let expected = pgtoast_nbtree::IndexError::Index(expected);
        assert_eq!(found.first(), Some(&expected), "fault {number}: {found:?}");
    }
}

/// The heap holds every chunk still; rebuilding the index from it is the cure.
#[test]
fn an_index_of_zeros_is_an_error_and_a_new_one_is_packed_from_the_rows() {
    let image = sound();
    let pages = MemoryPages::from_bytes(BlockSize::KIB_1, &vec![0; image.len()]);
    let error = Index::open(pages, KeyWidth::Oid).err();
    let meta = NbtreeError::Meta { magic: 0, version: 0 };
    assert_eq!(error, Some(pgtoast_nbtree::IndexError::Index(meta)));
    let rows = (0..200).map(|n| (key(1000 + u64::from(n), 0), tid(n)));
    let pages = MemoryPages::new(BlockSize::KIB_1);
    let index = Index::build(pages, KeyWidth::Oid, rows.clone()).unwrap();
    assert_eq!(entries(&index), rows.collect::<Vec<_>>());
}
