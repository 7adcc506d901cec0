//! The structure of a page, beyond what reading asks for. Each fault is found, named and located;
//! sound pages of a real server have none.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{BlockSize, OffsetNumber};
use pgtoast_page::{LinePointer, Page, PageError};
use support::*;

const SIZE: BlockSize = BlockSize::KIB_8;

fn findings(bytes: &[u8], size: BlockSize) -> Vec<PageError> {
    let page = Page::new(bytes, size).unwrap();
    let findings = page.findings();
    assert_eq!(page.check().err(), findings.first().copied(), "check is the first finding");
    findings
}

fn of_pointers(pointers: &[LinePointer]) -> Vec<PageError> {
    findings(&with_pointers(SIZE, pointers), SIZE)
}

fn redirect(target: u16) -> LinePointer {
    LinePointer::redirect(OffsetNumber::new(target))
}

#[test]
fn pages_of_a_real_server_have_no_findings() {
    for page in [FORMS, CHAIN, STATES, TOAST, INIT, VM] {
        assert_eq!(findings(page, SIZE), []);
    }
    for size in BlockSize::ALL {
        assert_eq!(findings(&empty(size, 0), size), []);
        assert_eq!(findings(&empty(size, 16), size), []);
    }
}

#[test]
fn a_page_of_another_block_size_or_layout_names_both() {
    let mut page = empty(SIZE, 0);
    put(&mut page, SIZE_VERSION, 0x4004);
    let error = PageError::SizeVersion { expected: 0x2004, found: 0x4004 };
    assert_eq!(findings(&page, SIZE), [error]);
    let text = "page says 16384 bytes and layout 4, expected 8192 bytes and layout 4";
    assert_eq!(error.to_string(), text);
    put(&mut page, SIZE_VERSION, 0x2003);
    let error = PageError::SizeVersion { expected: 0x2004, found: 0x2003 };
    assert_eq!(findings(&page, SIZE), [error]);
}

#[test]
fn line_pointers_are_whole_and_leave_the_header_alone() {
    for (lower, fault) in [(24, false), (28, false), (0, true), (23, true), (25, true), (30, true)]
    {
        let mut page = empty(SIZE, 0);
        put(&mut page, LOWER, lower);
        let expected = if fault { vec![PageError::LinePointers { lower }] } else { vec![] };
        assert_eq!(findings(&page, SIZE), expected);
    }
    // Some index pages end their data anywhere.
    let mut page = empty(SIZE, 8);
    put(&mut page, LOWER, 25);
    assert_eq!(findings(&page, SIZE), []);
}

#[test]
fn several_faults_of_a_header_are_all_reported() {
    let mut page = empty(SIZE, 0);
    put(&mut page, SIZE_VERSION, 0);
    put(&mut page, FLAGS, 0x8000);
    put(&mut page, LOWER, 10);
    let expected = [
        PageError::SizeVersion { expected: 0x2004, found: 0 },
        PageError::Flags { found: 0x8000 },
        PageError::LinePointers { lower: 10 },
    ];
    assert_eq!(findings(&page, SIZE), expected);
}

#[test]
fn a_header_out_of_order_keeps_its_items_unread() {
    let mut page = with_pointers(SIZE, &[LinePointer::normal(8000, 8)]);
    put(&mut page, FLAGS, 0x0010);
    put(&mut page, UPPER, 20);
    let bounds = PageError::Bounds { lower: 28, upper: 20, special: 8192, page_bytes: 8192 };
    assert_eq!(findings(&page, SIZE), [PageError::Flags { found: 0x0010 }, bounds]);
}

#[test]
fn unknown_flags_do_not_hide_faults_of_items() {
    let mut page = with_pointers(SIZE, &[LinePointer::normal(8000, 8)]);
    put(&mut page, FLAGS, 0x0010);
    let short = PageError::ItemTooShort { item: 1, len: 8, needed: 24 };
    assert_eq!(findings(&page, SIZE), [PageError::Flags { found: 0x0010 }, short]);
}

#[test]
fn a_stored_item_is_aligned_long_enough_and_in_the_tuple_space() {
    let good = LinePointer::normal(8000, 24);
    let outside =
        |offset, len, start| PageError::ItemOutside { item: 2, offset, len, start, end: 8192 };
    for (offset, len, expected) in [
        (7972, 24, PageError::ItemMisaligned { item: 2, offset: 7972 }),
        (7976, 23, PageError::ItemTooShort { item: 2, len: 23, needed: 24 }),
        (7976, 0, PageError::ItemTooShort { item: 2, len: 0, needed: 24 }),
        (8176, 24, outside(8176, 24, 8000)),
        (32_760, 32_767, outside(32_760, 32_767, 8000)),
    ] {
        let mut page = with_pointers(SIZE, &[good, LinePointer::normal(offset, len)]);
        put(&mut page, UPPER, offset.min(8000) & !7);
        assert_eq!(findings(&page, SIZE), [expected]);
    }
    // Below `upper` is the hole, whatever it holds.
    let mut page = with_pointers(SIZE, &[good, LinePointer::normal(7976, 24)]);
    put(&mut page, UPPER, 8000);
    assert_eq!(findings(&page, SIZE), [outside(7976, 24, 8000)]);
}

#[test]
fn a_redirect_leads_to_a_stored_item_of_the_page() {
    let stored = LinePointer::normal(8000, 30);
    let dead = LinePointer::dead();
    assert_eq!(of_pointers(&[redirect(2), stored, LinePointer::UNUSED, dead]), []);
    let bad = |target| PageError::ItemBadTarget { item: 1, target, count: 4 };
    let empty = |target| PageError::ItemEmptyTarget { item: 1, target };
    for (target, expected) in [
        (0, bad(0)),
        (1, empty(1)), // itself
        (3, empty(3)), // unused
        (4, empty(4)), // dead
        (5, bad(5)),
        (0x7fff, bad(0x7fff)),
    ] {
        let pointers = [redirect(target), stored, LinePointer::UNUSED, dead];
        assert_eq!(of_pointers(&pointers), [expected]);
    }
}

#[test]
fn a_heap_item_without_a_tuple_names_no_bytes() {
    for state in [0, 2, 3] {
        let pointer = LinePointer::from_word(state << 15 | 40 << 17 | 8000);
        assert_eq!(of_pointers(&[pointer]), [PageError::ItemStored { item: 1, len: 40 }]);
    }
}

#[test]
fn items_that_share_bytes_are_reported_with_the_other_one() {
    let at = LinePointer::normal;
    let overlap = |item, other| PageError::ItemOverlap { item, other };
    assert_eq!(
        of_pointers(&[at(8000, 192), at(7976, 24), at(7936, 40)]),
        [],
        "each ends at the next"
    );
    assert_eq!(of_pointers(&[at(7936, 40), at(8000, 192), at(7976, 24)]), [], "in any order");
    assert_eq!(of_pointers(&[at(8000, 192), at(7976, 25)]), [overlap(2, 1)]);
    assert_eq!(of_pointers(&[at(8000, 40), at(8000, 40)]), [overlap(2, 1)]);
    assert_eq!(
        of_pointers(&[at(8008, 24), at(8000, 192)]),
        [overlap(2, 1)],
        "one inside the other"
    );
    // Padding belongs to the item: the next one starts on a multiple of 8.
    assert_eq!(of_pointers(&[at(7976, 24), at(8000, 33), at(8032, 24)]), [overlap(3, 2)]);
    let three = [at(7000, 1000), at(7960, 50), at(7992, 24), at(8104, 24)];
    assert_eq!(of_pointers(&three)[..2], [overlap(2, 1), overlap(3, 1)]);
}

#[test]
fn overlaps_are_found_against_every_pair_by_brute_force() {
    let mut random = Random(25);
    for _ in 0..if cfg!(miri) { 10 } else { 2000 } {
        let count = 2 + random.below(6);
        let pointers: Vec<_> = (0..count)
            .map(|_| {
                let offset = u16::try_from(4000 + random.below(500) / 8 * 8).unwrap();
                LinePointer::normal(offset, u16::try_from(24 + random.below(80)).unwrap())
            })
            .collect();
        let end = |pointer: LinePointer| pointer.offset() + pointer.len().next_multiple_of(8);
        let mut expected = Vec::new();
        for (at, late) in pointers.iter().enumerate() {
            let clash =
                |early: &LinePointer| early.offset() < end(*late) && late.offset() < end(*early);
            if pointers[..at].iter().any(clash) {
                expected.push(at + 1);
            }
        }
        let found = of_pointers(&pointers).into_iter().map(|error| match error {
            PageError::ItemOverlap { item, other } => {
                let (late, early) =
                    (pointers[usize::from(item) - 1], pointers[usize::from(other) - 1]);
                assert!(other < item && early.offset() < end(late) && late.offset() < end(early));
                usize::from(item)
            }
            other => panic!("{other}"),
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}
