//! Any bytes at all, at any address: an answer or an error, never a panic, and never a byte from
//! outside the slice.
#![allow(clippy::unwrap_used, reason = "a panic here is a failed test")]
mod support;

use pgtoast_base::{Alignment, BlockNumber, BlockSize, OffsetNumber};
use pgtoast_page::{AttributeDescriptor, HeapTuple, Item, Page, TupleDescriptor, Value};
use support::*;

/// How many rounds of `full` are run: an interpreter takes its time.
const fn rounds(full: usize) -> usize {
    if cfg!(miri) { full / 300 } else { full }
}

fn random_columns(random: &mut Random) -> Vec<AttributeDescriptor<'static>> {
    (0..random.below(20))
        .map(|_| {
            let alignment = [Alignment::Char, Alignment::Short, Alignment::Int, Alignment::Double];
            let attlen = [-2, -1, -1, -1, 1, 2, 4, 8, 16, 64][random.below(10)];
            column(attlen, alignment[random.below(4)])
        })
        .collect()
}

fn read_tuple(bytes: &[u8], columns: &[AttributeDescriptor<'_>]) -> usize {
    let Ok(tuple) = HeapTuple::new(bytes) else { return 0 };
    let sound = HeapTuple::parse(bytes).is_ok();
    let Ok(walk) = tuple.deform(TupleDescriptor::new(columns).unwrap()) else {
        assert!(!sound || usize::from(tuple.header().natts()) > columns.len());
        return 0;
    };
    let mut stored = 0;
    let mut end = usize::from(tuple.header().hoff());
    assert_eq!(walk.len(), columns.len());
    for attribute in walk.flatten() {
        if let Value::Stored(datum) = attribute.value {
            assert!(datum.offset >= end && !datum.bytes.is_empty());
            assert_eq!(&bytes[datum.offset..datum.offset + datum.bytes.len()], datum.bytes);
            end = datum.offset + datum.bytes.len();
            let _ = datum.varlena();
            stored += 1;
        }
    }
    stored
}

fn read_page(bytes: &[u8], size: BlockSize, columns: &[AttributeDescriptor<'_>]) -> usize {
    let page = Page::new(bytes, size).unwrap();
    let _ = (page.verify(), page.check(), page.verify_checksum(BlockNumber::new(1)));
    let _ = (page.special_space(), page.free_bytes(), page.is_zero());
    let mut stored = 0;
    let last = if cfg!(miri) { page.item_count().min(20) } else { page.item_count() + 1 };
    for number in (0..=last).chain([0x7fff, 0xffff]) {
        if let Ok(Item::Normal(bytes) | Item::Dead(bytes)) = page.item(OffsetNumber::new(number)) {
            stored += read_tuple(bytes, columns);
        }
    }
    stored
}

#[test]
fn damaged_pages_of_a_real_server_are_read_at_every_alignment() {
    let mut random = Random(26);
    let columns = forms_columns();
    let mut stored = 0;
    for round in 0..rounds(1500) {
        let mut buffer = vec![0xa5; 8192 + 8];
        let start = round % 8;
        let page = &mut buffer[start..start + 8192];
        page.copy_from_slice([FORMS, CHAIN, STATES, TOAST, INIT, VM][random.below(6)]);
        for _ in 0..random.below(12) {
            // Headers, line pointers and tuple headers are where damage does most.
            let at =
                if random.below(2) == 0 { random.below(96) } else { 7168 + random.below(1024) };
            page[at] = random.bytes(1)[0];
        }
        stored += read_page(&buffer[start..start + 8192], BlockSize::KIB_8, &columns);
    }
    assert!(stored > rounds(5000), "the damage leaves most attributes readable: {stored}");
}

#[test]
fn an_unharmed_page_reads_the_same_at_every_address() {
    let columns = forms_columns();
    let attributes = include_str!("../testdata/forms.attributes").lines();
    let expected = attributes.filter(|line| !line.ends_with("NULL")).count();
    let mut buffer = vec![0; 8192 + 8];
    for start in (0..8).step_by(if cfg!(miri) { 3 } else { 1 }) {
        let page = &mut buffer[start..start + 8192];
        page.copy_from_slice(FORMS);
        assert_eq!(read_page(page, BlockSize::KIB_8, &columns), expected);
    }
}

#[test]
fn pages_of_noise_are_read_at_every_block_size() {
    let mut random = Random(19);
    for round in 0..rounds(900) {
        let size = BlockSize::ALL[round % 6];
        let mut bytes = random.bytes(size.bytes());
        if round % 2 == 0 {
            // Sane offsets over noise, so that the line pointers are taken for such.
            let head = empty(size, 0);
            bytes[..24].copy_from_slice(&head[..24]);
            put(&mut bytes, LOWER, 24 + 4 * u16::try_from(random.below(200)).unwrap());
        }
        let columns = random_columns(&mut random);
        read_page(&bytes, size, &columns);
    }
}

#[test]
fn tuples_of_noise_are_walked_to_their_end() {
    let mut random = Random(9);
    let mut stored = 0;
    for round in 0..rounds(40_000) {
        let columns = random_columns(&mut random);
        let natts = u16::try_from(random.below(columns.len() + 2)).unwrap();
        let nulls = if random.below(2) == 0 { vec![] } else { vec![1 + natts / 2] };
        let mut bytes = tuple_header(natts, &nulls);
        let len = random.below(200);
        bytes.extend(random.bytes(len));
        // Long runs of noise are rarely short headers; zeros and small numbers often are.
        for at in bytes.len() - len..bytes.len() {
            if random.below(3) == 0 {
                bytes[at] = [0, 0, 1, 3, 5, 11, 18][random.below(7)];
            }
        }
        let start = round % 8;
        let shifted = [&vec![0xff; start][..], &bytes].concat();
        stored += read_tuple(&shifted[start..], &columns);
    }
    assert!(stored > rounds(20_000), "{stored}");
}
