//! The visibility map: where a block's bits are, and what a real server wrote there.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, VisibilityAddress, VisibilityBits};
use support::VM;

/// How much of a long loop is run: all of it, but for an interpreter, which takes its time.
const STEP: usize = if cfg!(miri) { 997 } else { 1 };

#[test]
fn a_map_page_speaks_for_four_heap_blocks_a_byte() {
    let blocks = BlockSize::ALL.map(VisibilityAddress::blocks_per_page);
    assert_eq!(blocks, [4000, 8096, 16_288, 32_672, 65_440, 130_976]);
}

#[test]
fn addresses_run_through_bits_bytes_and_pages() {
    for (size, heap_block, map_block, offset, shift) in [
        (BlockSize::KIB_8, 0, 0, 24, 0),
        (BlockSize::KIB_8, 1, 0, 24, 2),
        (BlockSize::KIB_8, 3, 0, 24, 6),
        (BlockSize::KIB_8, 4, 0, 25, 0),
        (BlockSize::KIB_8, 32_671, 0, 8191, 6),
        (BlockSize::KIB_8, 32_672, 1, 24, 0),
        (BlockSize::KIB_8, u32::MAX - 1, 131_457, 24 + 1047, 4),
        (BlockSize::KIB_1, 4003, 1, 24, 6),
        (BlockSize::KIB_32, 130_975, 0, 32_767, 6),
    ] {
        let map_block = BlockNumber::new(map_block);
        let expected = VisibilityAddress { map_block, offset, shift };
        assert_eq!(VisibilityAddress::of(BlockNumber::new(heap_block), size), expected);
    }
}

#[test]
fn the_bits_are_what_pg_visibility_says_and_all_others_are_clear() {
    let page = Page::parse(VM, BlockSize::KIB_8).unwrap();
    assert_eq!(page.check(), Ok(()));
    let (mut blocks, mut kinds) = (0, Vec::new());
    for line in include_str!("../testdata/vm.bits").lines() {
        let [block, visible, frozen] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("three fields")
        };
        let block = BlockNumber::new(block.parse().unwrap());
        let mut expected = VisibilityBits::empty();
        expected.set(VisibilityBits::ALL_VISIBLE, visible == "t");
        expected.set(VisibilityBits::ALL_FROZEN, frozen == "t");
        assert_eq!(page.visibility(block), expected, "block {block}");
        kinds.push(expected);
        blocks += 1;
    }
    assert_eq!(blocks, 16);
    for kind in [VisibilityBits::empty(), VisibilityBits::ALL_VISIBLE, VisibilityBits::all()] {
        assert!(kinds.contains(&kind), "the page has blocks of each kind");
    }
    assert!(
        (blocks..32_672)
            .step_by(STEP)
            .all(|block| page.visibility(BlockNumber::new(block)).is_empty())
    );
}

#[test]
fn all_bits_at_once_are_those_of_each_block() {
    let page = Page::parse(VM, BlockSize::KIB_8).unwrap();
    let all: Vec<_> = page.visibility_bits().collect();
    assert_eq!(all.len(), 32_672);
    for (block, bits) in (0..).zip(all).step_by(STEP) {
        assert_eq!(page.visibility(BlockNumber::new(block)), bits);
    }
}

#[test]
fn a_new_map_page_promises_nothing() {
    for size in BlockSize::ALL {
        let zeros = vec![0; size.bytes()];
        let page = Page::parse(&zeros, size).unwrap();
        assert!(page.visibility_bits().step_by(STEP).all(|bits| bits.is_empty()));
    }
}
