//! Page checksums against those of real servers.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Page, PageError, set_checksum};
use support::{CHAIN, FORMS, INIT, STATES, TOAST, VM, empty};

/// How much of a long loop is run: all of it, but for an interpreter, which takes its time.
const STEP: usize = if cfg!(miri) { 4096 } else { 1 };

fn checksum(page: &[u8], block: u32) -> u16 {
    Page::new(page, BlockSize::KIB_8).unwrap().checksum(BlockNumber::new(block))
}

#[test]
fn known_pages_have_their_known_checksums() {
    let heap = empty(BlockSize::KIB_8, 0);
    let index = empty(BlockSize::KIB_8, 16);
    let mut full = empty(BlockSize::KIB_8, 0);
    for (at, byte) in full.iter_mut().enumerate().skip(24) {
        *byte = u8::try_from((7 * at + 3) & 255).unwrap();
    }
    for (page, block, expected) in [
        (&heap, 0, 25_952),
        (&heap, 1, 25_951),
        (&heap, 2, 25_954),
        (&heap, 131_072, 25_950), // the first block of the second segment counts on
        (&index, 0, 44_699),
        (&index, 1, 44_698),
        (&index, 2, 44_701),
        (&full, 0, 28_733),
        (&full, 1, 28_734),
    ] {
        assert_eq!(checksum(page, block), expected, "block {block}");
    }
}

#[test]
fn pages_of_a_real_server_verify_in_their_own_place_only() {
    for (page, block) in [(FORMS, 0), (CHAIN, 0), (STATES, 0), (TOAST, 1), (INIT, 0), (VM, 0)] {
        let page = Page::parse(page, BlockSize::KIB_8).unwrap();
        assert_eq!(page.verify_checksum(BlockNumber::new(block)), Ok(()));
        assert!(page.verify_checksum(BlockNumber::new(block + 1)).is_err());
    }
}

#[test]
fn a_flipped_byte_changes_the_checksum_unless_it_is_one_of_its_own() {
    let whole = checksum(FORMS, 0);
    let mut page = FORMS.to_vec();
    let mut unnoticed = 0;
    for at in (0..page.len()).step_by(STEP) {
        page[at] ^= 0x10;
        let same = checksum(&page, 0) == whole;
        page[at] ^= 0x10;
        if (8..10).contains(&at) {
            assert!(same, "byte {at}");
        } else {
            unnoticed += usize::from(same);
        }
    }
    // Sixteen bits let one change in 65535 pass: not more than a few of these 8190.
    assert!(unnoticed < 4, "{unnoticed} changes pass");
}

#[test]
fn the_error_names_both_sums() {
    let mut page = INIT.to_vec();
    page[30] ^= 1;
    let page = Page::parse(&page, BlockSize::KIB_8).unwrap();
    let found = Page::new(INIT, BlockSize::KIB_8).unwrap().header().checksum();
    let expected = page.checksum(BlockNumber::new(0));
    let error = PageError::Checksum { expected, found };
    assert_eq!(page.verify_checksum(BlockNumber::new(0)), Err(error));
    assert_eq!(error.to_string(), format!("page checksum {found:#06x}, expected {expected:#06x}"));
}

#[test]
fn a_new_page_has_no_checksum_to_verify_or_to_set() {
    for size in BlockSize::ALL {
        let mut zeros = vec![0; size.bytes()];
        assert_eq!(Page::parse(&zeros, size).unwrap().verify_checksum(BlockNumber::new(7)), Ok(()));
        assert_eq!(set_checksum(&mut zeros, size, BlockNumber::new(7)), Ok(None));
        assert!(zeros.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn what_is_set_verifies_at_every_block_size() {
    for size in BlockSize::ALL {
        let mut page = empty(size, 0);
        let block = BlockNumber::new(3);
        let set = set_checksum(&mut page, size, block).unwrap().unwrap();
        let view = Page::parse(&page, size).unwrap();
        assert_eq!(view.header().checksum(), set);
        assert_eq!(view.verify_checksum(block), Ok(()));
    }
}

#[test]
fn a_slice_of_another_length_is_no_page() {
    let error = |found| Err(PageError::Length { expected: 8192, found });
    for len in [0, 23, 24, 8191, 8193, 16_384] {
        let mut bytes = vec![0; len];
        assert_eq!(set_checksum(&mut bytes, BlockSize::KIB_8, BlockNumber::new(0)), error(len));
    }
}

#[test]
fn no_page_and_no_block_number_make_a_checksum_of_zero() {
    // All ones in the 16-bit fold is the case that would wrap to zero, so go through many blocks.
    assert!((0..200_000).step_by(STEP).all(|block| checksum(FORMS, block) != 0));
}
