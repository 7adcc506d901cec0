//! A fork is one row of blocks, in however many segments it lies.
//! Source: `md.c` (REL_18).
use std::sync::Arc;

use pgtoast_base::{BlockNumber, BlockSize, Oid};
use pgtoast_datadir::{
    DataFile, DatadirError, Filenode, Folder, Fork, Geometry, OverlaySource, RelationFile,
    RelationFork,
};

const FOLDER: Folder = Folder::Base { database: Oid::new(5) };
const GEOMETRY: Geometry = Geometry { block_size: BlockSize::KIB_1, segment_blocks: 3 };

fn segment(segment: u32) -> DataFile {
    let filenode = Filenode::new(16_384);
    DataFile::Relation(RelationFile { folder: FOLDER, filenode, fork: Fork::Main, segment })
}

/// Segments of so many bytes; each block holds its own number.
fn source(lens: &[usize]) -> OverlaySource {
    let mut source = OverlaySource::empty();
    for (number, len) in lens.iter().enumerate() {
        let bytes = (0..*len)
            .map(|at| u8::try_from(number * 3 + at / 1024).expect("a small number"))
            .collect();
        source.put(segment(u32::try_from(number).expect("a small number")), bytes);
    }
    source
}

fn open(source: OverlaySource) -> Result<Option<RelationFork>, DatadirError> {
    RelationFork::open(Arc::new(source), FOLDER, Filenode::new(16_384), Fork::Main, GEOMETRY)
}

#[test]
fn blocks_are_counted_through_the_segments() {
    let fork = open(source(&[3072, 3072, 2048])).unwrap().unwrap();
    assert_eq!((fork.block_count(), fork.trailing_bytes()), (8, 0));
    assert_eq!(fork.place(BlockNumber::new(7)), (segment(2), 1024));
    let mut buffer = [0; 1024];
    for block in 0..8 {
        fork.read_block(BlockNumber::new(block), &mut buffer).unwrap();
        assert_eq!(u32::from(buffer[1023]), block);
    }
    let mut buffer = [0; 5 * 1024];
    fork.read_blocks(BlockNumber::new(2), &mut buffer).unwrap();
    assert_eq!([buffer[0], buffer[1024], buffer[4096]], [2, 3, 6]);
    let error = fork.read_blocks(BlockNumber::new(4), &mut buffer).unwrap_err();
    let block = BlockNumber::new(8);
    assert_eq!(error, DatadirError::BlockMissing { file: segment(2), block, blocks: 8 });
}

#[test]
fn a_segment_that_is_not_full_ends_the_fork() {
    for (lens, blocks, trailing) in [
        (&[0][..], 0, 0),
        (&[3072], 3, 0),
        (&[3072, 0], 3, 0),
        (&[3072, 0, 0], 3, 0),
        (&[2048, 3072], 2, 0),
        (&[3072, 1025, 3072], 4, 1),
        (&[1023], 0, 1023),
    ] {
        let fork = open(source(lens)).unwrap().unwrap();
        assert_eq!((fork.block_count(), fork.trailing_bytes()), (blocks, trailing), "{lens:?}");
    }
    assert!(open(source(&[])).unwrap().is_none());
    let error = open(source(&[3073])).unwrap_err();
    assert_eq!(error, DatadirError::SegmentLength { file: segment(0), len: 3073, maximum: 3072 });
}

#[test]
fn threads_share_a_fork_by_ranges_that_leave_no_block_out() {
    for blocks in 0..9 {
        let lens: Vec<_> =
            (0..3).map(|at| 1024 * usize::clamp(blocks, at * 3, at * 3 + 3) - at * 3072).collect();
        let fork = open(source(&lens)).unwrap().unwrap();
        for parts in 0..12 {
            let mut found = Vec::new();
            for range in fork.split(parts) {
                let mut some = fork.blocks(range);
                while let Some(block) = some.next() {
                    let (number, bytes) = block.unwrap();
                    assert_eq!(u32::from(bytes[5]), number.get());
                    found.push(number.get());
                }
            }
            let expected: Vec<_> = (0..u32::try_from(blocks).unwrap()).collect();
            assert_eq!(found, expected, "{parts} parts");
        }
    }
    let fork = open(source(&[3072])).unwrap().unwrap();
    assert!(fork.blocks(9..12).next().is_none());
    assert_eq!(fork.blocks(2..9).next().unwrap().unwrap().0, BlockNumber::new(2));
}
