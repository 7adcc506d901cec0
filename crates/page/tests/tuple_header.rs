//! Tuple headers against what `pageinspect` says of the same tuples, and the ways a header can lie.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{BlockSize, OffsetNumber, Xid};
use pgtoast_page::{HeapTuple, Infomask, Infomask2, Item, Page, TupleError, TupleHeader};
use support::*;

#[test]
fn every_field_is_what_pageinspect_says() {
    let mut tuples = 0;
    for (page, items) in [
        (FORMS, include_str!("../testdata/forms.items")),
        (CHAIN, include_str!("../testdata/chain.items")),
        (STATES, include_str!("../testdata/states.items")),
    ] {
        let page = Page::parse(page, BlockSize::KIB_8).unwrap();
        for fields in support::items(items) {
            let item = OffsetNumber::new(fields[0].parse().unwrap());
            let Ok(Item::Normal(bytes)) = page.item(item) else {
                assert_eq!(fields[4], "-");
                continue;
            };
            let tuple = HeapTuple::parse(bytes).unwrap();
            let header = tuple.header();
            let infomask2 = header.infomask2().bits() | header.natts();
            let found = [
                header.xmin().to_string(),
                header.xmax().to_string(),
                header.field3().to_string(),
                header.ctid().to_string(),
                infomask2.to_string(),
                header.infomask().bits().to_string(),
                header.hoff().to_string(),
            ];
            assert_eq!(found, fields[4..]);
            tuples += 1;
        }
    }
    assert_eq!(tuples, 32);
}

fn header(infomask: u16, infomask2: u16) -> TupleHeader {
    let mut bytes = tuple_header(0, &[]);
    put(&mut bytes, 20, infomask);
    put(&mut bytes, 18, infomask2);
    *HeapTuple::new(&bytes).unwrap().header()
}

#[test]
fn a_lock_alone_is_told_from_an_update() {
    for (infomask, locked_only) in [
        (0x0000, false),
        (0x0080, true),  // the lock-only bit
        (0x0040, true),  // exclusive alone: a lock of an old release
        (0x0050, false), // share, without the lock-only bit
        (0x0010, false),
        (0x1040, false), // a multixact says by itself what it is
        (0x1080, true),
        (0x01c0, true),
        (0x0440, true),
    ] {
        assert_eq!(header(infomask, 0).is_locked_only(), locked_only, "{infomask:#06x}");
    }
}

#[test]
fn frozen_is_both_hints_or_the_frozen_id() {
    assert!(header(0x0300, 0).is_frozen());
    assert!(!header(0x0100, 0).is_frozen() && !header(0x0200, 0).is_frozen());
    let mut bytes = tuple_header(0, &[]);
    bytes[0] = 2;
    let tuple = HeapTuple::new(&bytes).unwrap();
    assert!(tuple.header().is_frozen());
    assert_eq!(tuple.header().xmin(), Xid::FROZEN);
}

#[test]
fn a_chain_goes_on_only_while_nothing_was_undone() {
    for (infomask, infomask2, goes_on) in [
        (0x0000, 0x4000, true),
        (0x0100, 0x4000, true),
        (0x0300, 0x4000, true),  // frozen, not invalid
        (0x0200, 0x4000, false), // inserted by a transaction that was undone
        (0x0800, 0x4000, false), // the update was undone
        (0x0000, 0x8000, false), // heap-only, but the last of its chain
    ] {
        assert_eq!(header(infomask, infomask2).is_hot_updated(), goes_on, "{infomask:#06x}");
    }
    assert!(header(0, 0x8000).is_heap_only());
}

#[test]
fn the_attribute_count_and_the_flags_of_its_word_are_kept_apart() {
    let header = header(0xffff, 0xffff);
    assert_eq!(header.natts(), 2047);
    assert_eq!(header.infomask2() & Infomask2::all(), Infomask2::all());
    assert_eq!(header.infomask2().bits() & Infomask2::NATTS_MASK, 0);
    assert_eq!(header.infomask(), Infomask::all());
}

#[test]
fn hoff_is_the_header_and_the_bitmap_padded() {
    for (natts, nulls, hoff) in [
        (0, &[][..], 24),
        (1664, &[], 24), // without nulls there is no bitmap
        (1, &[1], 24),
        (8, &[3], 24),
        (9, &[3], 32),
        (72, &[72], 32),
        (73, &[72], 40),
        (1664, &[1], 232),
    ] {
        let bytes = tuple_header(natts, nulls);
        let tuple = HeapTuple::parse(&bytes).unwrap();
        assert_eq!(usize::from(tuple.header().hoff()), hoff);
        assert_eq!(tuple.header().expected_hoff(), hoff);
    }
}

#[test]
fn each_lie_about_hoff_is_told_apart() {
    let verdict = |hoff: u8, len: usize, nulls: &[u16]| {
        let mut bytes = tuple_header(9, nulls);
        bytes.resize(len, 0);
        bytes[22] = hoff;
        HeapTuple::parse(&bytes).map(|_| ())
    };
    assert_eq!(verdict(24, 24, &[]), Ok(()));
    assert_eq!(verdict(32, 32, &[4]), Ok(()));
    assert_eq!(verdict(32, 24, &[]), Err(TupleError::DataPastEnd { hoff: 32, len: 24 }));
    assert_eq!(verdict(255, 100, &[]), Err(TupleError::DataPastEnd { hoff: 255, len: 100 }));
    assert_eq!(verdict(32, 40, &[]), Err(TupleError::DataStart { expected: 24, found: 32 }));
    assert_eq!(verdict(25, 40, &[]), Err(TupleError::DataStart { expected: 24, found: 25 }));
    assert_eq!(verdict(24, 40, &[4]), Err(TupleError::BitmapPastData { bitmap_end: 25, hoff: 24 }));
    assert_eq!(verdict(0, 40, &[]), Err(TupleError::BitmapPastData { bitmap_end: 23, hoff: 0 }));
    assert_eq!(verdict(40, 40, &[4]), Err(TupleError::DataStart { expected: 32, found: 40 }));
}

#[test]
fn fewer_bytes_than_a_header_are_no_tuple() {
    for found in [0, 1, 22] {
        let error = TupleError::Length { needed: 23, found };
        assert_eq!(HeapTuple::new(&vec![0; found]).unwrap_err(), error);
    }
    assert!(HeapTuple::new(&[0; 23]).is_ok());
}
