//! What makes bytes a page, and what a page then shows.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{BlockNumber, BlockSize, Lsn, OffsetNumber};
use pgtoast_page::{Item, LinePointer, LineState, Page, PageError, PageFlags};
use support::*;

const SIZE: BlockSize = BlockSize::KIB_8;

fn verdict(change: impl FnOnce(&mut Vec<u8>)) -> Result<(), PageError> {
    let mut page = empty(SIZE, 16);
    change(&mut page);
    Page::parse(&page, SIZE).map(|_| ())
}

#[test]
fn reading_asks_for_sane_offsets_and_known_flags_and_nothing_else() {
    let bounds =
        |lower, upper, special| Err(PageError::Bounds { lower, upper, special, page_bytes: 8192 });
    assert_eq!(verdict(|_| ()), Ok(()));
    assert_eq!(verdict(|page| put(page, FLAGS, 0x0007)), Ok(()));
    assert_eq!(verdict(|page| put(page, FLAGS, 0x0008)), Err(PageError::Flags { found: 8 }));
    assert_eq!(verdict(|page| put(page, LOWER, 8176)), Ok(()));
    assert_eq!(verdict(|page| put(page, LOWER, 8177)), bounds(8177, 8176, 8176));
    assert_eq!(verdict(|page| put(page, UPPER, 8177)), bounds(24, 8177, 8176));
    assert_eq!(verdict(|page| put(page, SPECIAL, 8168)), bounds(24, 8176, 8168));
    assert_eq!(verdict(|page| put(page, SPECIAL, 8200)), bounds(24, 8176, 8200));
    let misaligned = Err(PageError::SpecialMisaligned { special: 8180 });
    assert_eq!(verdict(|page| put(page, SPECIAL, 8180)), misaligned);
    // These a server accepts when it reads, and so do we; `check` is stricter.
    assert_eq!(verdict(|page| put(page, LOWER, 0)), Ok(()));
    assert_eq!(verdict(|page| put(page, SIZE_VERSION, 0)), Ok(()));
    assert_eq!(verdict(|page| page[24..8176].fill(0xff)), Ok(()));
}

// Relations are extended ahead of use, replicas more so; backup tools have called such pages broken
// because they looked at the offsets before they asked whether the page is new.
#[test]
fn a_page_of_zeros_is_new_and_valid_at_every_size() {
    for size in BlockSize::ALL {
        let zeros = vec![0; size.bytes()];
        let page = Page::parse(&zeros, size).unwrap();
        assert!(page.is_new() && page.is_zero() && page.is_empty());
        assert_eq!(page.check(), Ok(()));
        assert_eq!(page.items().len(), 0);
        assert_eq!(page.special_space(), []);
    }
}

#[test]
fn a_new_page_with_a_single_other_byte_is_invalid_and_the_byte_is_named() {
    for offset in [0, 8, 11, 20, 24, 63, 64, 4095, 8191] {
        let mut bytes = vec![0; SIZE.bytes()];
        bytes[offset] = 1;
        let error = PageError::NewNotZero { offset };
        assert_eq!(Page::parse(&bytes, SIZE).unwrap_err(), error);
        let page = Page::new(&bytes, SIZE).unwrap();
        assert!(page.is_new() && !page.is_zero());
        assert_eq!(page.check(), Err(error));
    }
}

// Metapages of init forks are written without a log record; a check for heap pages with a log
// position has refused them.
#[test]
fn a_metapage_with_log_position_zero_and_special_space_is_valid() {
    let page = Page::parse(INIT, SIZE).unwrap();
    let header = page.header();
    assert_eq!(header.lsn(), Lsn::INVALID);
    assert_eq!((header.lower(), header.upper(), header.special()), (72, 8176, 8176));
    assert_eq!(page.special_space().len(), 16);
    assert_eq!(page.check(), Ok(()), "numbers in place of line pointers are not held to be items");
    assert_eq!(page.verify_checksum(BlockNumber::new(0)), Ok(()));
}

#[test]
fn every_item_is_where_pageinspect_says() {
    for (page, items) in [
        (FORMS, include_str!("../testdata/forms.items")),
        (CHAIN, include_str!("../testdata/chain.items")),
        (STATES, include_str!("../testdata/states.items")),
    ] {
        let page = Page::parse(page, SIZE).unwrap();
        assert_eq!(page.item_count() as usize, items.lines().count());
        for (line, (item, pointer)) in items.lines().zip(page.items()) {
            let fields: Vec<u16> = line.split(' ').take(4).map(|n| n.parse().unwrap()).collect();
            let state = pointer.state() as u16;
            assert_eq!(fields, [item.get(), pointer.offset(), state, pointer.len()]);
            let expected = match pointer.state() {
                LineState::Unused => Item::Unused,
                LineState::Redirect => Item::Redirect(OffsetNumber::new(fields[1])),
                LineState::Dead => Item::Dead(&[]),
                LineState::Normal => {
                    let start = usize::from(fields[1]);
                    Item::Normal(&page.bytes()[start..start + usize::from(fields[3])])
                }
            };
            assert_eq!(page.item(item), Ok(expected));
        }
    }
}

#[test]
fn no_item_number_outside_the_array_leads_anywhere() {
    let page = Page::parse(FORMS, SIZE).unwrap();
    for item in [0, 6, 7, 2047, 0xfffd, 0xffff] {
        let number = OffsetNumber::new(item);
        assert_eq!(page.line_pointer(number), None);
        assert_eq!(page.item(number), Err(PageError::ItemMissing { item, count: 5 }));
    }
}

#[test]
fn bytes_past_the_end_of_the_page_are_an_error_and_never_read() {
    for (offset, len) in [(8184, 9), (32_760, 32_767), (32_767, 1), (0, 8193)] {
        let bytes = with_pointers(SIZE, &[LinePointer::normal(offset, len)]);
        let page = Page::new(&bytes, SIZE).unwrap();
        let error = PageError::ItemOutside { item: 1, offset, len, start: 0, end: 8192 };
        assert_eq!(page.item(OffsetNumber::FIRST), Err(error));
    }
}

#[test]
fn a_dead_index_entry_keeps_its_bytes_and_a_dead_heap_item_has_none() {
    let mut bytes =
        with_pointers(SIZE, &[LinePointer::dead(), LinePointer::from_word(0x0021_9ff0)]);
    bytes[8176..].fill(9);
    let page = Page::new(&bytes, SIZE).unwrap();
    assert_eq!(page.item(OffsetNumber::new(1)), Ok(Item::Dead(&[])));
    assert_eq!(page.item(OffsetNumber::new(2)), Ok(Item::Dead(&[9; 16])));
}

#[test]
fn offsets_of_a_32_kib_page_use_all_their_bits() {
    let size = BlockSize::KIB_32;
    let mut bytes = with_pointers(size, &[LinePointer::normal(32_736, 32)]);
    bytes[32_736..].fill(7);
    let page = Page::parse(&bytes, size).unwrap();
    assert_eq!((page.header().special(), page.header().size_version()), (32_768, 0x8004));
    assert_eq!(page.item(OffsetNumber::FIRST), Ok(Item::Normal(&[7; 32])));
    assert_eq!(page.check(), Ok(()));
}

#[test]
fn a_full_toast_page_holds_four_chunks() {
    let page = Page::parse(TOAST, SIZE).unwrap();
    let items: Vec<_> = page.items().map(|(_, it)| (it.offset(), it.len())).collect();
    assert_eq!(items, [(6160, 2032), (4128, 2032), (2096, 2032), (64, 2032)]);
    assert_eq!((page.header().flags(), page.free_bytes()), (PageFlags::empty(), 24));
    assert_eq!(page.check(), Ok(()));
}
