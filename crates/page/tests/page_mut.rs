//! Pages that are changed: where items go, which line pointers are reused and dropped, what is
//! refused; and after every call the page is sound, after every refusal the same.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, Lsn, OffsetNumber, Xid};
use pgtoast_page::{
    HeapTuple, HeapTupleMut, Infomask, Infomask2, Item, LineState, Page, PageError, PageFlags,
    PageMut, RowUpdate, TrailingPointers,
};
use support::*;

const SIZE: BlockSize = BlockSize::KIB_8;

fn item(number: u16) -> OffsetNumber {
    OffsetNumber::new(number)
}

/// A tuple of so many bytes, at least 24, all of them after the header `fill`.
fn tuple(len: usize, fill: u8) -> Vec<u8> {
    let mut tuple = tuple_header(1, &[]);
    tuple.resize(len, fill);
    tuple
}

/// Does something to a page; the page is sound afterwards, and unchanged if it was refused.
fn apply<T>(
    bytes: &mut [u8],
    change: impl FnOnce(&mut PageMut<'_>) -> Result<T, PageError>,
) -> Result<T, PageError> {
    let before = bytes.to_vec();
    let outcome = change(&mut PageMut::open(bytes, SIZE).unwrap());
    Page::new(bytes, SIZE).unwrap().check().unwrap();
    if outcome.is_err() {
        assert!(*bytes == before, "a refusal changed the page");
    }
    outcome
}

fn states(bytes: &[u8]) -> String {
    let pointers = Page::new(bytes, SIZE).unwrap().line_pointers().iter();
    let letter = |state| match state {
        LineState::Unused => 'u',
        LineState::Normal => 'n',
        LineState::Redirect => 'r',
        LineState::Dead => 'd',
    };
    pointers.map(|pointer| letter(pointer.state())).collect()
}

fn flags(bytes: &[u8]) -> PageFlags {
    Page::new(bytes, SIZE).unwrap().header().flags()
}

fn offsets(bytes: &[u8]) -> Vec<u16> {
    Page::new(bytes, SIZE).unwrap().line_pointers().iter().map(|one| one.offset()).collect()
}

fn heap_with(lens: &[usize]) -> Vec<u8> {
    let mut bytes = vec![0xaa; SIZE.bytes()];
    let mut page = PageMut::init(&mut bytes, SIZE, 0).unwrap();
    for (len, fill) in lens.iter().zip((1..=255).cycle()) {
        page.add_tuple(&tuple(*len, fill)).unwrap();
    }
    bytes
}

#[test]
fn an_empty_page_is_the_one_that_a_server_makes() {
    for size in BlockSize::ALL {
        for (asked, kept) in [(0, 0), (1, 8), (8, 8), (9, 16), (16, 16)] {
            let mut bytes = vec![0xaa; size.bytes()];
            let page = PageMut::init(&mut bytes, size, asked).unwrap();
            page.page().check().unwrap();
            assert_eq!(bytes, empty(size, kept), "{size} {asked}");
        }
        let mut bytes = vec![0; size.bytes()];
        let limit = size.bytes() - 24;
        PageMut::init(&mut bytes, size, limit).unwrap();
        let error = PageError::SpecialLength { len: limit + 1, limit };
        assert_eq!(PageMut::init(&mut bytes, size, limit + 1).err(), Some(error));
        assert!(PageMut::init(&mut bytes, size, usize::MAX).is_err());
    }
    let mut short = [0; 100];
    let error = PageError::Length { expected: SIZE.bytes(), found: 100 };
    assert_eq!(PageMut::init(&mut short, SIZE, 0).err(), Some(error));
    assert_eq!(PageMut::open(&mut short, SIZE).err(), Some(error));
}

#[test]
fn only_a_sound_page_is_opened() {
    let mut bytes = vec![0; SIZE.bytes()];
    assert_eq!(PageMut::open(&mut bytes, SIZE).err(), Some(PageError::Uninitialised));
    bytes[100] = 1;
    let error = PageError::NewNotZero { offset: 100 };
    assert_eq!(PageMut::open(&mut bytes, SIZE).err(), Some(error));
    let mut bytes = heap_with(&[40]);
    put(&mut bytes, LOWER, 26);
    let error = PageError::LinePointers { lower: 26 };
    assert_eq!(PageMut::open(&mut bytes, SIZE).err(), Some(error));
}

#[test]
fn an_empty_page_over_zeros_is_the_same_and_nothing_else_is_made_one() {
    for special_len in [0, 16, 8000] {
        let (mut one, mut other) = (vec![0; SIZE.bytes()], vec![0xaa; SIZE.bytes()]);
        PageMut::init_new(&mut one, SIZE, special_len).unwrap();
        PageMut::init(&mut other, SIZE, special_len).unwrap();
        assert_eq!(one, other);
        let again = PageMut::init_new(&mut one, SIZE, special_len);
        assert!(matches!(again, Err(PageError::Bounds { .. })), "{again:?}");
        assert_eq!(one, other);
    }
    let mut new = vec![0; SIZE.bytes()];
    let refused = PageMut::init_new(&mut new, SIZE, 8169).map(|_| ());
    assert_eq!(refused, Err(PageError::SpecialLength { len: 8169, limit: 8168 }));
    let refused = PageMut::init_new(&mut new[1..], SIZE, 0).map(|_| ());
    assert_eq!(refused, Err(PageError::Length { expected: 8192, found: 8191 }));
    assert!(new.iter().all(|byte| *byte == 0));
}

#[test]
fn a_page_that_was_open_is_opened_again_by_its_header() {
    let mut bytes = heap_with(&[100, 200]);
    let mut page = PageMut::reopen(&mut bytes, SIZE).unwrap();
    assert_eq!(page.add_tuple(&tuple(40, 3)), Ok(item(3)));
    Page::new(&bytes, SIZE).unwrap().check().unwrap();
    let refused = PageMut::reopen(&mut bytes[1..], SIZE).map(|_| ());
    assert_eq!(refused, Err(PageError::Length { expected: 8192, found: 8191 }));
    for (at, byte) in [(12, 0xff), (14, 0), (16, 1)] {
        let mut broken = bytes.clone();
        broken[at] = byte;
        broken[at + 1] = byte;
        assert!(PageMut::reopen(&mut broken, SIZE).is_err(), "byte {at}");
    }
}

#[test]
fn items_go_down_from_the_end_in_steps_of_8_and_keep_their_true_length() {
    let bytes = heap_with(&[24, 25, 46]);
    let page = Page::parse(&bytes, SIZE).unwrap();
    assert_eq!((page.header().lower(), page.header().upper()), (36, 8192 - 24 - 32 - 48));
    assert_eq!(offsets(&bytes), [8168, 8136, 8088]);
    assert_eq!(page.item(item(3)).unwrap(), Item::Normal(&tuple(46, 3)));
    assert_eq!(page.free_bytes_for_item(), 8088 - 36 - 4);
}

// Four chunks of a TOAST table fill a page but for 24 bytes, and a row may be as long as 8160 bytes.
#[test]
fn a_page_is_full_when_an_item_and_its_line_pointer_do_not_fit() {
    let mut bytes = heap_with(&[2032; 4]);
    assert_eq!(Page::parse(&bytes, SIZE).unwrap().free_bytes(), 24);
    let error = PageError::Full { needed: 28, free: 24 };
    assert_eq!(apply(&mut bytes, |page| page.add_tuple(&tuple(24, 9))), Err(error));
    for (len, fits) in [(8160, true), (8161, false), (9000, false), (40_000, false)] {
        let outcome = apply(&mut heap_with(&[]), |page| page.add_tuple(&tuple(len, 1)));
        assert_eq!(outcome.is_ok(), fits, "{len}");
    }
    let error = PageError::ItemTooShort { item: 1, len: 23, needed: 24 };
    assert_eq!(apply(&mut heap_with(&[]), |page| page.add_tuple(&[0; 23])), Err(error));
}

#[test]
fn a_heap_page_has_at_most_291_items_however_much_room_there_is() {
    let mut bytes = heap_with(&[24; 291]);
    assert_eq!(Page::parse(&bytes, SIZE).unwrap().heap_free_bytes(), 0);
    apply(&mut bytes, |page| {
        (1..=290).try_for_each(|number| page.set_dead(item(number)))?;
        page.compact(TrailingPointers::Drop)
    })
    .unwrap();
    let page = Page::parse(&bytes, SIZE).unwrap();
    assert_eq!(
        (page.item_count(), page.free_bytes_for_item()),
        (291, 8192 - 24 - 291 * 4 - 24 - 4)
    );
    assert_eq!(page.heap_free_bytes(), 0);
    let error = PageError::ItemLimit { item: 292, limit: 291 };
    assert_eq!(apply(&mut bytes, |page| page.add_tuple(&tuple(24, 9))), Err(error));
    // One that is free for reuse, and known to be, changes that; the hint alone does not.
    apply(&mut bytes, |page| page.set_unused(item(7))).unwrap();
    assert_eq!(Page::parse(&bytes, SIZE).unwrap().heap_free_bytes(), 0);
    assert_eq!(apply(&mut bytes, |page| page.add_tuple(&tuple(24, 9))), Err(error));
    apply(&mut bytes, |page| page.truncate_line_pointers()).unwrap();
    let page = Page::parse(&bytes, SIZE).unwrap();
    assert_eq!(page.heap_free_bytes(), page.free_bytes_for_item());
    assert_eq!(apply(&mut bytes, |page| page.add_tuple(&tuple(24, 9))), Ok(item(7)));
    assert!(flags(&bytes).contains(PageFlags::HAS_FREE_LINES));
    assert_eq!(Page::parse(&bytes, SIZE).unwrap().heap_free_bytes(), 0);
    assert_eq!(apply(&mut bytes, |page| page.add_tuple(&tuple(24, 9))), Err(error));
}

#[test]
fn the_lowest_unused_line_pointer_is_reused_only_under_the_hint_which_a_vain_search_clears() {
    let mut bytes = heap_with(&[40; 6]);
    let add =
        |bytes: &mut Vec<u8>| apply(bytes, |page| page.add_tuple(&tuple(32, 9))).unwrap().get();
    apply(&mut bytes, |page| page.set_unused(item(2)).and(page.set_unused(item(4)))).unwrap();
    assert_eq!((states(&bytes), flags(&bytes)), ("nununn".into(), PageFlags::empty()));
    assert_eq!(add(&mut bytes), 7);
    apply(&mut bytes, |page| page.compact(TrailingPointers::Drop)).unwrap();
    assert_eq!(flags(&bytes), PageFlags::HAS_FREE_LINES);
    assert_eq!((add(&mut bytes), add(&mut bytes)), (2, 4));
    assert_eq!(flags(&bytes), PageFlags::HAS_FREE_LINES);
    assert_eq!((add(&mut bytes), flags(&bytes)), (8, PageFlags::empty()));
}

#[test]
fn a_tuple_is_placed_at_an_unused_item_or_the_next_and_nowhere_else() {
    let mut bytes = heap_with(&[40; 3]);
    apply(&mut bytes, |page| page.set_unused(item(2))).unwrap();
    let mut place =
        |number| apply(&mut bytes, |page| page.place_tuple(item(number), &tuple(48, 9)));
    assert_eq!(place(1), Err(PageError::ItemState { item: 1, found: LineState::Normal }));
    for number in [0, 5, u16::MAX] {
        assert_eq!(place(number), Err(PageError::ItemMissing { item: number, count: 3 }));
    }
    assert_eq!((place(2), place(4)), (Ok(()), Ok(())));
    assert_eq!(states(&bytes), "nnnn");
    assert_eq!(offsets(&bytes)[1..], [8192 - 120 - 48, 8192 - 80 - 40, 8192 - 120 - 96]);
}

#[test]
fn an_inserted_tuple_names_its_place_and_a_deleted_one_is_remembered_by_the_page() {
    let mut bytes = heap_with(&[40]);
    let block = BlockNumber::new(70_000);
    let everyone = |bytes: &mut [u8]| {
        apply(bytes, |page| {
            page.set_flags(PageFlags::ALL_VISIBLE, true);
            page.set_lsn(Lsn::new(5));
            Ok(())
        })
    };
    everyone(&mut bytes).unwrap();
    let tid = apply(&mut bytes, |page| page.insert_tuple(block, &tuple(40, 2))).unwrap();
    assert_eq!(tid, ItemPointer::new(block, item(2)));
    assert_eq!(flags(&bytes), PageFlags::empty());
    everyone(&mut bytes).unwrap();
    for (xid, oldest) in [(900, 900), (901, 900), (899, 899)] {
        apply(&mut bytes, |page| page.delete_tuple(tid, Xid::new(xid), 3)).unwrap();
        assert_eq!(Page::parse(&bytes, SIZE).unwrap().header().prune_xid(), Xid::new(oldest));
    }
    assert_eq!(flags(&bytes), PageFlags::empty());
    let page = Page::parse(&bytes, SIZE).unwrap();
    let Ok(Item::Normal(stored)) = page.item(item(2)) else { panic!("it is still stored") };
    let header = *HeapTuple::parse(stored).unwrap().header();
    assert_eq!((header.xmax(), header.field3(), header.ctid()), (Xid::new(899), 3, tid));
    assert_eq!(page.header().lsn(), Lsn::new(5));
    let gone = ItemPointer::new(block, item(3));
    let error = PageError::ItemMissing { item: 3, count: 2 };
    assert_eq!(apply(&mut bytes, |page| page.delete_tuple(gone, Xid::new(1), 0)), Err(error));
}

#[test]
fn an_updated_tuple_leads_to_its_next_version_which_after_a_hot_update_is_in_the_page() {
    let block = BlockNumber::new(7);
    let header = |bytes: &[u8], number| {
        let Ok(Item::Normal(tuple)) = Page::parse(bytes, SIZE).unwrap().item(item(number)) else {
            panic!("it is stored")
        };
        *HeapTuple::parse(tuple).unwrap().header()
    };
    for (update, old, new) in [
        (RowUpdate::Hot, Infomask2::HOT_UPDATED, Infomask2::HEAP_ONLY),
        (RowUpdate::SameKey, Infomask2::empty(), Infomask2::empty()),
        (RowUpdate::NewKey, Infomask2::KEYS_UPDATED, Infomask2::empty()),
    ] {
        let mut bytes = heap_with(&[40]);
        let mut next = tuple(40, 2);
        let mut next = HeapTupleMut::new(&mut next).unwrap();
        next.header_mut().set_inserted_by_update(Xid::new(800), 1, update);
        let tid = apply(&mut bytes, |page| {
            page.set_flags(PageFlags::ALL_VISIBLE, true);
            page.insert_tuple(block, next.bytes())
        });
        let tid = tid.unwrap();
        let change =
            |page: &mut PageMut<'_>| page.update_tuple(item(1), Xid::new(800), 1, tid, update);
        apply(&mut bytes, change).unwrap();
        let (first, second) = (header(&bytes, 1), header(&bytes, 2));
        assert_eq!((first.xmax(), first.field3(), first.ctid()), (Xid::new(800), 1, tid));
        assert_eq!((first.infomask2(), second.infomask2()), (old, new));
        assert!(second.infomask().contains(Infomask::UPDATED | Infomask::XMAX_INVALID));
        assert_eq!((second.xmin(), second.ctid()), (Xid::new(800), tid));
        let page = Page::parse(&bytes, SIZE).unwrap();
        assert_eq!(page.header().prune_xid(), Xid::new(800));
        assert!(!page.header().flags().contains(PageFlags::ALL_VISIBLE));
        // The second version is deleted in its turn, and stays what it was to indexes.
        apply(&mut bytes, |page| page.delete_tuple(tid, Xid::new(801), 0)).unwrap();
        assert_eq!(header(&bytes, 2).infomask2(), new | Infomask2::KEYS_UPDATED);
    }
    let mut bytes = heap_with(&[40]);
    let nowhere = ItemPointer::new(block, item(2));
    let mut update = |item, update| {
        apply(&mut bytes, |page| page.update_tuple(item, Xid::new(800), 1, nowhere, update))
    };
    let missing = Err(PageError::ItemMissing { item: 2, count: 1 });
    assert_eq!(update(item(1), RowUpdate::Hot), missing);
    assert_eq!(update(item(2), RowUpdate::SameKey), missing);
    assert_eq!(update(item(1), RowUpdate::SameKey), Ok(()), "it may be in another page");
}

// A chain of two updates: item 1 comes to lead past item 2 to item 3, and in the end all go. A step out
// of order would leave a line pointer that leads nowhere.
#[test]
fn an_item_that_a_redirect_leads_to_stays() {
    let mut bytes = heap_with(&[40; 3]);
    let mut change = |what: fn(&mut PageMut<'_>) -> Result<(), PageError>| apply(&mut bytes, what);
    assert_eq!(change(|page| page.redirect(item(1), item(2))), Ok(()));
    let stays = Err(PageError::ItemRedirected { item: 2, by: 1 });
    assert_eq!(change(|page| page.set_unused(item(2))), stays);
    assert_eq!(change(|page| page.set_dead(item(2))), stays);
    assert_eq!(change(|page| page.redirect(item(2), item(3))), stays);
    assert_eq!(change(|page| page.redirect(item(1), item(3))), Ok(()));
    assert_eq!(change(|page| page.set_unused(item(2))), Ok(()));
    for (from, to, error) in [
        (3, 3, PageError::ItemEmptyTarget { item: 3, target: 3 }),
        (3, 1, PageError::ItemEmptyTarget { item: 3, target: 1 }),
        (3, 4, PageError::ItemBadTarget { item: 3, target: 4, count: 3 }),
        (2, 3, PageError::ItemState { item: 2, found: LineState::Unused }),
        (4, 3, PageError::ItemMissing { item: 4, count: 3 }),
        (0, 3, PageError::ItemMissing { item: 0, count: 3 }),
    ] {
        let outcome = apply(&mut bytes, |page| page.redirect(item(from), item(to)));
        assert_eq!(outcome, Err(error), "{from} to {to}");
    }
    let mut change = |what: fn(&mut PageMut<'_>) -> Result<(), PageError>| apply(&mut bytes, what);
    assert_eq!(change(|page| page.set_dead(item(1))), Ok(()));
    let dead = Err(PageError::ItemState { item: 1, found: LineState::Dead });
    assert_eq!(change(|page| page.set_dead(item(1))), dead);
    assert_eq!(change(|page| page.set_unused(item(3))), Ok(()));
    assert_eq!(states(&bytes), "duu");
}

#[test]
fn compaction_places_items_by_line_pointer_and_leaves_what_was_there_in_the_hole() {
    let mut bytes = heap_with(&[40, 50, 60, 70, 80]);
    let change = |page: &mut PageMut<'_>| {
        page.set_dead(item(1))?;
        page.set_unused(item(3))?;
        page.compact(TrailingPointers::Drop)?;
        page.add_tuple(&tuple(33, 6))?; // as item 3, below item 5: no longer in order
        page.set_unused(item(2))?;
        page.compact(TrailingPointers::Drop)
    };
    apply(&mut bytes, change).unwrap();
    assert_eq!(states(&bytes), "dunnn");
    let top = 8192;
    assert_eq!(offsets(&bytes), [0, 0, top - 40, top - 40 - 72, top - 40 - 72 - 80]);
    let page = Page::parse(&bytes, SIZE).unwrap();
    for (number, len, fill) in [(3, 33, 6), (4, 70, 4), (5, 80, 5)] {
        assert_eq!(page.item(item(number)), Ok(Item::Normal(&tuple(len, fill))));
    }
    assert_eq!(page.header().upper(), top - 192);
    assert!(bytes[44..8000].iter().any(|byte| *byte != 0), "old bytes are not cleared");
}

#[test]
fn trailing_unused_line_pointers_go_or_stay_by_the_release_and_the_caller() {
    let drop = |page: &mut PageMut<'_>| page.compact(TrailingPointers::Drop);
    let keep = |page: &mut PageMut<'_>| page.compact(TrailingPointers::Keep);
    let truncate = |page: &mut PageMut<'_>| page.truncate_line_pointers();
    type Change = fn(&mut PageMut<'_>) -> Result<(), PageError>;
    for (unused, change, left, hint) in [
        (&[4, 5][..], drop as Change, "nnn", false),
        (&[2, 5], drop, "nunn", true),
        (&[1, 2, 3, 4, 5], drop, "", false),
        (&[4, 5], keep, "nnnuu", true),
        (&[], keep, "nnnnn", false),
        (&[1, 2, 3, 4, 5], keep, "uuuuu", true),
        (&[4, 5], truncate, "nnn", false),
        (&[1, 4, 5], truncate, "unn", true),
        (&[1, 2, 3, 4, 5], truncate, "u", true),
        (&[], truncate, "nnnnn", false),
    ] {
        let mut bytes = heap_with(&[40; 5]);
        apply(&mut bytes, |page| {
            unused.iter().try_for_each(|number| page.set_unused(item(*number)))
        })
        .unwrap();
        apply(&mut bytes, change).unwrap();
        let found = (states(&bytes), flags(&bytes).contains(PageFlags::HAS_FREE_LINES));
        assert_eq!(found, (left.to_owned(), hint), "{unused:?}");
    }
    let mut never_used = heap_with(&[]);
    apply(&mut never_used, truncate).unwrap();
    assert_eq!(never_used, heap_with(&[]));
}

fn index_with(lens: &[usize]) -> Vec<u8> {
    let mut bytes = vec![0; SIZE.bytes()];
    let mut page = PageMut::init(&mut bytes, SIZE, 16).unwrap();
    page.special_space_mut().fill(0x55);
    for (len, number) in lens.iter().zip(1..) {
        page.insert_item(item(number), &vec![to_u8(number); *len]).unwrap();
    }
    bytes
}

fn to_u8(number: u16) -> u8 {
    u8::try_from(number).unwrap()
}

fn index_items(bytes: &[u8]) -> Vec<(u8, usize)> {
    let page = Page::new(bytes, SIZE).unwrap();
    assert_eq!(page.special_space(), [0x55; 16]);
    let stored = page.items().map(|(number, _)| match page.item(number).unwrap() {
        Item::Normal(bytes) | Item::Dead(bytes) => {
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            (bytes[0], bytes.len())
        }
        other => panic!("{other:?}"),
    });
    stored.collect()
}

#[test]
fn index_items_make_room_for_each_other_and_close_up() {
    let mut bytes = index_with(&[16, 24, 17]);
    apply(&mut bytes, |page| page.insert_item(item(1), &[7; 8])).unwrap();
    apply(&mut bytes, |page| page.insert_item(item(3), &[8; 9])).unwrap();
    assert_eq!(index_items(&bytes), [(7, 8), (1, 16), (8, 9), (2, 24), (3, 17)]);
    let offsets_before = [8104, 8160, 8088, 8136, 8112];
    assert_eq!(offsets(&bytes), offsets_before);
    apply(&mut bytes, |page| page.delete_item(item(4))).unwrap();
    assert_eq!(index_items(&bytes), [(7, 8), (1, 16), (8, 9), (3, 17)]);
    assert_eq!(offsets(&bytes), [8128, 8160, 8112, 8136]);
    apply(&mut bytes, |page| page.mark_item_dead(item(2))).unwrap();
    assert_eq!(states(&bytes), "ndnn");
    let dead = PageError::ItemState { item: 2, found: LineState::Dead };
    assert_eq!(apply(&mut bytes, |page| page.mark_item_dead(item(2))), Err(dead));
    assert_eq!(index_items(&bytes), [(7, 8), (1, 16), (8, 9), (3, 17)]);
    for number in [0, 5, u16::MAX] {
        let error = PageError::ItemMissing { item: number, count: 4 };
        assert_eq!(apply(&mut bytes, |page| page.delete_item(item(number))), Err(error));
    }
    let error = PageError::ItemMissing { item: 6, count: 4 };
    assert_eq!(apply(&mut bytes, |page| page.insert_item(item(6), &[1])), Err(error));
}

// One or two items leave the others in the order in which they lie; three bring them into the order of
// their line pointers.
#[test]
fn many_deletions_at_once_sort_the_page_and_few_do_not() {
    let start = || {
        let mut bytes = index_with(&[16; 5]);
        apply(&mut bytes, |page| page.insert_item(item(1), &[6; 16])).unwrap();
        bytes
    };
    let delete = |bytes: &mut [u8], numbers: &[u16]| {
        let items: Vec<_> = numbers.iter().copied().map(item).collect();
        apply(bytes, |page| page.delete_items(&items))
    };
    let mut two = start();
    delete(&mut two, &[2, 6]).unwrap();
    assert_eq!(index_items(&two), [(6, 16), (2, 16), (3, 16), (4, 16)]);
    assert_eq!(offsets(&two), [8112, 8160, 8144, 8128]);
    let mut three = start();
    delete(&mut three, &[2, 4, 6]).unwrap();
    assert_eq!(index_items(&three), [(6, 16), (2, 16), (4, 16)]);
    assert_eq!(offsets(&three), [8160, 8144, 8128]);
    let mut all = start();
    delete(&mut all, &[1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(index_items(&all), []);
    assert_eq!(delete(&mut all, &[]), Ok(()));
    for (numbers, bad) in [(&[2, 1, 3][..], 1), (&[1, 2, 2], 2), (&[1, 2, 7], 7), (&[0], 0)] {
        let error = PageError::ItemMissing { item: bad, count: 6 };
        assert_eq!(delete(&mut start(), numbers), Err(error));
    }
}

#[test]
fn items_of_an_index_that_overlap_or_leave_the_page_are_not_moved() {
    let sound = index_with(&[16, 16, 16]);
    let spoil = |word: u32| {
        let mut bytes = sound.clone();
        bytes[28..32].copy_from_slice(&word.to_le_bytes());
        bytes
    };
    let word = |offset: u32, len: u32| offset | 1 << 15 | len << 17;
    let outside =
        |offset, len| PageError::ItemOutside { item: 2, offset, len, start: 8128, end: 8176 };
    for (word, error) in [
        (word(8144, 40), outside(8144, 40)),
        (word(8120, 16), outside(8120, 16)),
        (word(8144, 0), outside(8144, 0)),
        (word(8150, 16), PageError::ItemMisaligned { item: 2, offset: 8150 }),
        (word(8144, 17), PageError::ItemOverlap { item: 2, other: 1 }),
    ] {
        for numbers in [&[1][..], &[1, 2, 3]] {
            let items: Vec<_> = numbers.iter().copied().map(item).collect();
            let outcome = apply(&mut spoil(word), |page| page.delete_items(&items));
            assert_eq!(outcome, Err(error));
        }
    }
}

#[test]
fn heaps_and_indexes_are_not_taken_for_each_other() {
    let not_heap = PageError::NotHeap { special: 8176 };
    let mut index = index_with(&[32, 32]);
    type Change = fn(&mut PageMut<'_>) -> Result<(), PageError>;
    for change in [
        (|page| page.add_tuple(&tuple(40, 1)).map(drop)) as Change,
        |page| page.place_tuple(item(1), &tuple(40, 1)),
        |page| page.redirect(item(1), item(2)),
        |page| page.set_dead(item(1)),
        |page| page.set_unused(item(1)),
        |page| page.tuple_mut(item(1)).map(drop),
        |page| page.compact(TrailingPointers::Drop),
        |page| page.truncate_line_pointers(),
    ] {
        assert_eq!(apply(&mut index, change), Err(not_heap));
    }
    let mut heap = heap_with(&[40, 40]);
    for change in [
        (|page| page.insert_item(item(1), &[1; 40])) as Change,
        |page| page.mark_item_dead(item(1)),
        |page| page.delete_item(item(1)),
        |page| page.delete_items(&[item(1)]),
    ] {
        assert_eq!(apply(&mut heap, change), Err(PageError::NotIndex));
    }
}

#[test]
fn free_space_is_told_in_every_way_a_server_asks() {
    let mut bytes = heap_with(&[]);
    let page = Page::parse(&bytes, SIZE).unwrap();
    assert_eq!(
        (page.free_bytes(), page.free_bytes_for_item(), page.heap_free_bytes()),
        (8168, 8164, 8164)
    );
    assert_eq!((page.free_bytes_for_items(3), page.free_bytes_for_items(u16::MAX)), (8156, 0));
    put(&mut bytes, UPPER, 32);
    let page = Page::new(&bytes, SIZE).unwrap();
    assert_eq!([0, 1, 2, 3].map(|count| page.free_bytes_for_items(count)), [8, 4, 0, 0]);
    put(&mut bytes, UPPER, 26);
    assert_eq!(Page::new(&bytes, SIZE).unwrap().free_bytes_for_item(), 0);
}

fn tid(item: OffsetNumber) -> ItemPointer {
    ItemPointer::new(BlockNumber::new(0), item)
}

/// What a call does with one item, and with how many it means the next there would be.
type Call = (fn(&mut PageMut<'_>, OffsetNumber) -> Result<(), PageError>, u16);

/// Offsets were made of numbers before the numbers were checked, and led out of the page. Here the page
/// has four items: every call is given those that it has not.
#[test]
fn a_number_beyond_the_last_item_is_refused_by_every_call() {
    let (heap, index) = (heap_with(&[30, 40, 50, 60]), index_with(&[8, 16, 24, 32]));
    let calls: [Call; 9] = [
        (|page, item| page.place_tuple(item, &tuple(40, 1)), 1),
        (|page, item| page.tuple_mut(item).map(|_| ()), 0),
        (|page, item| page.set_dead(item), 0),
        (|page, item| page.set_unused(item), 0),
        (|page, item| page.redirect(item, OffsetNumber::FIRST), 0),
        (|page, item| page.delete_tuple(tid(item), Xid::new(9), 0), 0),
        (|page, at| page.update_tuple(at, Xid::new(9), 0, tid(item(1)), RowUpdate::SameKey), 0),
        (|page, at| page.update_tuple(item(1), Xid::new(9), 0, tid(at), RowUpdate::Hot), 0),
        (|page, item| page.redirect(OffsetNumber::FIRST, item), 0),
    ];
    let index_calls: [Call; 5] = [
        (|page, item| page.insert_item(item, &[1; 8]), 1),
        (|page, item| page.mark_item_dead(item), 0),
        (|page, item| page.delete_item(item), 0),
        (|page, item| page.delete_items(&[item]), 0),
        (|page, at| page.delete_items(&[item(1), item(2), item(3), at]), 0),
    ];
    for (bytes, calls) in [(heap, &calls[..]), (index, &index_calls)] {
        for (number, (call, next)) in calls.iter().enumerate() {
            for beyond in [0, 5 + next, 6, 7, 291, 292, 2047, 0x7fff, u16::MAX - 1, u16::MAX] {
                let mut bytes = bytes.clone();
                let refused = apply(&mut bytes, |page| call(page, item(beyond)));
                let is_located = matches!(
                    refused,
                    Err(PageError::ItemMissing { .. } | PageError::ItemBadTarget { .. })
                );
                assert!(is_located, "call {number}, item {beyond}: {refused:?}");
                let page = Page::new(&bytes, SIZE).unwrap();
                assert!(page.line_pointer(item(beyond)).is_none() || beyond <= 4);
            }
        }
    }
}

/// Lengths that no page has room for, as when the size of a value was taken from its pointer.
#[test]
fn an_item_longer_than_a_page_is_refused_whatever_its_length() {
    for len in [8169, 8192, 32_768, 65_535, 65_536, 65_576, 1 << 20] {
        let mut heap = heap_with(&[30]);
        let error = apply(&mut heap, |page| page.add_tuple(&tuple(len, 1))).unwrap_err();
        assert!(matches!(error, PageError::Full { .. }), "{len}: {error}");
        let mut index = index_with(&[8]);
        let error = apply(&mut index, |page| page.insert_item(item(1), &vec![1; len])).unwrap_err();
        assert!(matches!(error, PageError::Full { .. }), "{len}: {error}");
    }
}
