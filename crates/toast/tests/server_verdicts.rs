//! Twelve values, eleven of them damaged in a way of their own, and what a PostgreSQL 15 server said to
//! eight slices of each. Ours is the same verdict, chunk for chunk and byte for byte, and knows the tuple.
mod common;

use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use common::{pages, pointer};
use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_page::Item;
use pgtoast_toast::{
    ByteSlice, Chunk, ChunkOrder, ChunkSize, ChunkSource, Detoaster, ReadError, ToastError,
    ValueIdWidth, ValueKey,
};
use pgtoast_varlena::{ToastPointer, Varlena};

const FILE: &[u8] = include_bytes!("data/faults.toast");
const VERDICTS: &str = include_str!("data/faults.txt");

/// What the index of the relation says, which nobody damaged: the chunks were inserted value after
/// value and lie in the file in that order, four of each value. Some lead nowhere any more.
struct Index {
    tuples: Vec<(ValueKey, u32, ItemPointer, Option<&'static [u8]>)>,
}

impl Index {
    fn new(pointers: &[ToastPointer]) -> Self {
        let keys = pointers.iter().map(|pointer| ValueKey::of(pointer).expect("has an id"));
        let entries = keys.flat_map(|key| (0..4).map(move |seq| (key, seq)));
        let tuples = pages(FILE).flat_map(|(block, page)| {
            page.items().map(move |(item, _)| {
                let tuple = match page.item(item) {
                    Ok(Item::Normal(tuple)) => Some(tuple),
                    _ => None,
                };
                (ItemPointer::new(block, item), tuple)
            })
        });
        let tuples = entries.zip(tuples).map(|((key, seq), (tid, tuple))| (key, seq, tid, tuple));
        Self { tuples: tuples.collect() }
    }
}

impl ChunkSource for Index {
    type Error = Infallible;

    fn order(&self) -> ChunkOrder {
        ChunkOrder::Index
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        for (_, _, tid, tuple) in
            self.tuples.iter().filter(|(entry, seq, ..)| *entry == key && chunks.contains(seq))
        {
            let Some(tuple) = tuple else { continue };
            if let Some(chunk) = Chunk::parse(tuple, ValueIdWidth::Oid, Some(*tid))?
                && visit(&chunk).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

/// A slice of a row's value, and what the server made of it.
struct Recorded {
    row: usize,
    slice: ByteSlice,
    verdict: &'static str,
}

/// The rows' pointers and the slices.
fn recorded() -> (Vec<ToastPointer>, Vec<Recorded>) {
    let (mut pointers, mut slices) = (Vec::new(), Vec::new());
    for line in VERDICTS.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        match words[..] {
            ["pointer", _, hex] => pointers.push(pointer(hex)),
            ["slice", row, offset, len, verdict] => {
                let number = |text: &str| text.parse().expect("a number");
                let slice = ByteSlice::new(number(offset), number(len));
                slices.push(Recorded { row: number(row), slice, verdict });
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!((pointers.len(), slices.len()), (12, 96));
    (pointers, slices)
}

/// An error in the words of the record; it must be about value `expected_id`.
fn in_short(error: ToastError, expected_id: Oid8) -> String {
    let (id, text) = match error {
        ToastError::ChunkNumber { value_id, found, expected, tid: Some(_) } => {
            (value_id, format!("number {found} expected {expected}"))
        }
        ToastError::ChunkOutOfRange { value_id, found, first, last, tid: Some(_) } => {
            (value_id, format!("number {found} outside {first} {last}"))
        }
        ToastError::ChunkSize { value_id, chunk, chunk_count, found, expected, tid: Some(_) } => {
            (value_id, format!("size {found} expected {expected} chunk {chunk} of {chunk_count}"))
        }
        ToastError::ChunkToasted { value_id, tid: Some(_), .. } => (value_id, "toasted".to_owned()),
        ToastError::MissingChunk { value_id, chunk, .. } => (value_id, format!("missing {chunk}")),
        other => panic!("{other:?}"),
    };
    assert_eq!(id, expected_id);
    text
}

#[test]
fn every_slice_of_every_damaged_value_gets_the_servers_verdict() {
    let (pointers, slices) = recorded();
    let mut detoaster = Detoaster::new(Index::new(&pointers), ChunkSize::default());
    for Recorded { row, slice, verdict } in slices {
        let pointer = pointers[row - 1];
        let value_id = pointer.value_id().unwrap();
        let ours = match detoaster.slice_bytes(&Varlena::External(pointer), slice) {
            Ok(part) => {
                let text: String =
                    (row * 1000..row * 1000 + 785).map(|number| format!("{number:.>8}")).collect();
                let end = slice.offset.min(text.len()) + part.len();
                assert_eq!(
                    part.to_str(),
                    Ok(&text[slice.offset.min(text.len())..end]),
                    "row {row}"
                );
                format!("ok {}", part.len())
            }
            Err(ReadError::Toast(error)) => in_short(error, value_id),
        };
        assert_eq!(ours, verdict, "row {row}, {slice:?}");
    }
}
