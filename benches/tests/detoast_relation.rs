//! Every value of a relation comes whole and once, however its chunks lie and however many threads
//! share the work; anything else is an error.
//!
//! The files are made here: a table of pointers, and a TOAST table of four chunks a page.
#![expect(clippy::unwrap_used, reason = "these files are made here, and what fails is the test")]
#![expect(clippy::cast_possible_truncation, reason = "offsets in a page, and small counts")]
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use pgtoast_base::{BlockSize, Oid};
use pgtoast_benches::{Detoasted, RelationFile, ToastedColumn};
use pgtoast_page::{AttributeDescriptor, TupleDescriptor};

const CHUNK: usize = 1996;
const TOAST_REL_ID: u32 = 4711;
/// Both xmin bits: frozen. And no xmax.
const FROZEN: u16 = 0x0b00;

/// A value and its id.
type Stored = (u32, Vec<u8>);
/// Of a value the chunk of that number.
type Place = (u32, u32);

fn value(id: u32, chunks: usize) -> Stored {
    let len = (chunks - 1) * CHUNK + 100 + id as usize;
    let bytes =
        (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ id as u8);
    (id, bytes.collect())
}

fn tuple(infomask: u16, attributes: u16, data: &[u8]) -> Vec<u8> {
    let mut tuple = vec![0; 24];
    tuple[18..20].copy_from_slice(&attributes.to_le_bytes());
    tuple[20..22].copy_from_slice(&(infomask | FROZEN).to_le_bytes());
    tuple[22] = 24;
    tuple.extend_from_slice(data);
    tuple
}

/// As many tuples a page as fit, each below the one before.
fn pages(tuples: &[Vec<u8>]) -> Vec<u8> {
    let mut pages = Vec::new();
    let (mut lower, mut upper) = (0, 0);
    for tuple in tuples {
        let room = tuple.len().next_multiple_of(8);
        if upper < lower + 4 + room {
            pages.resize(pages.len() + 8192, 0);
            (lower, upper) = (24, 8192);
        }
        let start = pages.len() - 8192;
        let page = &mut pages[start..];
        upper -= room;
        page[upper..upper + tuple.len()].copy_from_slice(tuple);
        let pointer = (upper | 1 << 15 | tuple.len() << 17) as u32;
        page[lower..lower + 4].copy_from_slice(&pointer.to_le_bytes());
        lower += 4;
        for (at, word) in [(12, lower), (14, upper), (16, 8192), (18, 8192 | 4)] {
            page[at..at + 2].copy_from_slice(&(word as u16).to_le_bytes());
        }
    }
    pages
}

fn pointer((id, bytes): &Stored) -> Vec<u8> {
    let len = bytes.len() as u32;
    let mut pointer = vec![0x01, 18];
    for word in [len + 4, len, *id, TOAST_REL_ID] {
        pointer.extend_from_slice(&word.to_le_bytes());
    }
    tuple(0x0006, 1, &pointer)
}

fn chunk((id, bytes): &Stored, number: u32) -> Vec<u8> {
    let start = number as usize * CHUNK;
    let data = &bytes[start..bytes.len().min(start + CHUNK)];
    let mut columns = Vec::new();
    for word in [*id, number, (data.len() as u32 + 4) << 2] {
        columns.extend_from_slice(&word.to_le_bytes());
    }
    columns.extend_from_slice(data);
    tuple(0x0002, 3, &columns)
}

/// The two files, gone when the test is.
struct Files(PathBuf);

impl Files {
    fn new(name: &str, values: &[Stored], places: &[Place]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("bench-detoast-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let pointers: Vec<_> = values.iter().map(pointer).collect();
        let find = |id| values.iter().find(|(other, _)| *other == id).unwrap();
        let chunks = places.iter().map(|(id, number)| chunk(find(*id), *number));
        fs::write(directory.join("heap"), pages(&pointers)).unwrap();
        fs::write(directory.join("toast"), pages(&chunks.collect::<Vec<_>>())).unwrap();
        Self(directory)
    }

    /// The values by row, and what was counted.
    fn detoast(&self, threads: u32) -> anyhow::Result<(Vec<Vec<u8>>, Detoasted)> {
        let open = |name| RelationFile::open(&self.0.join(name), BlockSize::KIB_8);
        let (heap, toast) = (open("heap")?, open("toast")?);
        let columns = [AttributeDescriptor::from_catalog(-1, false, b'i', b'e')?];
        let column = ToastedColumn {
            heap: &heap,
            descriptor: TupleDescriptor::new(&columns)?,
            column: 0,
            toast: &toast,
            toast_rel_id: Oid::new(TOAST_REL_ID),
            block_size: BlockSize::KIB_8,
        };
        let values = Mutex::new(Vec::new());
        let done = column.detoast(threads, |row, value| {
            values.lock().unwrap().push((row, value.to_vec()));
            Ok(())
        })?;
        let mut values = values.into_inner().unwrap();
        values.sort();
        Ok((values.into_iter().map(|(_, value)| value).collect(), done))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn in_order(values: &[Stored]) -> Vec<Place> {
    let numbers = |(id, bytes): &Stored| {
        let (id, count) = (*id, bytes.len().div_ceil(CHUNK) as u32);
        (0..count).map(move |number| (id, number))
    };
    values.iter().flat_map(numbers).collect()
}

fn assert_whole(name: &str, values: &[Stored], places: &[Place]) {
    let files = Files::new(name, values, places);
    for threads in 1..=5 {
        let (found, done) = files.detoast(threads).unwrap();
        let expected: Vec<_> = values.iter().map(|(_, bytes)| bytes.clone()).collect();
        assert!(found == expected, "{name}, {threads} threads");
        let raw_bytes = expected.iter().map(Vec::len).sum();
        assert_eq!(done, Detoasted { values: expected.len(), raw_bytes });
    }
}

#[test]
fn values_that_lie_across_the_border_of_two_parts_come_whole() {
    let values: Vec<_> = (1..=7).map(|id| value(id, 3 + id as usize)).collect();
    assert_whole("border", &values, &in_order(&values));
}

#[test]
fn chunks_in_any_order_make_the_same_values() {
    let values: Vec<_> = (1..=6).map(|id| value(id, 5)).collect();
    let mut places = in_order(&values);
    places.reverse();
    assert_whole("reversed", &values, &places);
    places.sort_by_key(|(id, number)| (number.wrapping_mul(7) % 5, *id));
    assert_whole("mixed", &values, &places);
}

#[test]
fn a_last_chunk_on_an_earlier_page_is_found() {
    // Where the server finds a gap that is large enough.
    let values: Vec<_> = (1..=4).map(|id| value(id, 8)).collect();
    let mut places = in_order(&values);
    let last = places.iter().position(|place| *place == (3, 7)).unwrap();
    let moved = places.remove(last);
    places.insert(2, moved);
    assert_whole("gap", &values, &places);
}

#[test]
fn chunks_that_nothing_points_to_are_left() {
    let values: Vec<_> = (1..=5).map(|id| value(id, 4)).collect();
    let places = in_order(&values);
    let files = Files::new("orphans", &values[1..4], &in_order(&values[1..4]));
    let chunks = places.iter().map(|(id, number)| chunk(&values[*id as usize - 1], *number));
    fs::write(files.0.join("toast"), pages(&chunks.collect::<Vec<_>>())).unwrap();
    for threads in 1..=3 {
        assert_eq!(files.detoast(threads).unwrap().1.values, 3);
    }
}

#[test]
fn a_missing_chunk_and_a_missing_value_are_errors() {
    let values: Vec<_> = (1..=4).map(|id| value(id, 6)).collect();
    let places = in_order(&values);
    for gone in [0, 8, 23] {
        let mut places = places.clone();
        places.remove(gone);
        let files = Files::new(&format!("gone{gone}"), &values, &places);
        (1..=4).for_each(|threads| assert!(files.detoast(threads).is_err(), "{gone} {threads}"));
    }
    let files = Files::new("none", &values, &places[..18]);
    (1..=4).for_each(|threads| assert!(files.detoast(threads).is_err(), "{threads}"));
}

#[test]
fn a_chunk_that_comes_again_is_an_error_wherever_it_lies() {
    let values: Vec<_> = (1..=4).map(|id| value(id, 6)).collect();
    let mut places = in_order(&values);
    for again in [1, 12, places.len()] {
        places.insert(again, (2, 1));
        let files = Files::new(&format!("again{again}"), &values, &places);
        (1..=4).for_each(|threads| assert!(files.detoast(threads).is_err(), "{again} {threads}"));
        places.remove(again);
    }
}

#[test]
fn pointers_that_claim_more_than_there_is_get_no_memory() {
    let values = [value(1, 2)];
    let files = Files::new("claims", &values, &in_order(&values));
    let claims: Stored = (1, Vec::new());
    let mut lie = pointer(&claims);
    lie[26..34].copy_from_slice(&[0xff, 0xff, 0xff, 0x3f, 0xfb, 0xff, 0xff, 0x3f]);
    fs::write(files.0.join("heap"), pages(&[lie])).unwrap();
    assert!(files.detoast(1).unwrap_err().to_string().contains("claim"));
}
