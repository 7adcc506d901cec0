//! Iterators that lie about their length, sources that give other chunks than they were asked for, callers'
//! functions that panic: exact content or an error, and everything dropped once.
//!
//! Vectors that reserved what an iterator claimed were written past their end when more came, and dropped
//! their elements twice when it panicked. And a length was taken from an 18-byte pointer instead of the value.
mod common;

use std::cell::Cell;
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{cut, external, fault, noise, pointer_to};
use pgtoast_base::{Alignment, BlockSize, Oid, Oid8};
use pgtoast_codec::{CompressionMethod, DatumCompressor};
use pgtoast_page::Storage;
use pgtoast_toast::{
    ByteSlice, Chunk, ChunkIndex, ChunkOrder, ChunkSize, ChunkSource, Decision, Detoaster,
    OutOfLine, ReadError, ToastAttribute, ToastError, Toaster, Trigger, Value, ValueKey, ValueScan,
    raw_len,
};
use pgtoast_varlena::{ToastPointer, Varlena};

/// Hands out `items` and claims `claimed`; panics before item `panics_at`. Counts when it is dropped.
struct Liar<'a, I: Iterator> {
    items: I,
    claimed: usize,
    panics_at: Option<usize>,
    handed_out: usize,
    dropped: &'a Cell<usize>,
}

impl<'a, I: Iterator> Liar<'a, I> {
    fn new(items: I, claimed: usize, dropped: &'a Cell<usize>) -> Self {
        Self { items, claimed, panics_at: None, handed_out: 0, dropped }
    }
}

impl<I: Iterator> Iterator for Liar<'_, I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        assert_ne!(self.panics_at, Some(self.handed_out), "as was asked for");
        self.handed_out += 1;
        self.items.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.claimed, Some(self.claimed))
    }
}

impl<I: Iterator> Drop for Liar<'_, I> {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
    }
}

/// Chunks of one byte each, so that 10 000 bytes make as many.
fn tiny() -> ChunkSize {
    ChunkSize::new(1).expect("one byte")
}

#[test]
fn an_index_holds_what_came_and_not_what_was_claimed() {
    let stored = noise(10_000);
    for (count, claimed) in [(10_000, 0), (3, 10_000), (10_000, 3), (0, 10_000), (10_000, 10_000)] {
        let dropped = Cell::new(0);
        let chunks = cut(&stored[..count], tiny()).into_iter();
        let index: ChunkIndex<'_> = Liar::new(chunks, claimed, &dropped).collect();
        assert_eq!((index.chunks().len(), dropped.get()), (count, 1));
        let datum = Varlena::External(pointer_to(count, count, CompressionMethod::Pglz));
        let mut detoaster = Detoaster::new(index, tiny());
        let value = detoaster.detoast(&datum).expect("all chunks");
        assert!(value.as_bytes() == &stored[..count], "{count} came, {claimed} were claimed");
    }
}

#[test]
fn a_scan_looks_for_what_came_and_not_what_was_claimed() {
    for (count, claimed) in [(10_000, 0), (3, 10_000)] {
        let dropped = Cell::new(0);
        let pointers = (0..count).map(|_| pointer_to(2000, 2000, CompressionMethod::Pglz));
        let scan = ValueScan::new(Liar::new(pointers, claimed, &dropped), ChunkSize::default());
        assert_eq!(dropped.get(), 1);
        // All to one value, of which no chunk came.
        let faults: Vec<_> = scan.expect("sound pointers").finish().collect();
        assert!(
            matches!(faults[..], [(_, ToastError::MissingChunk { chunk: 0, .. })]),
            "{faults:?}"
        );
    }
}

#[test]
fn an_iterator_that_panics_at_its_eighth_item_is_dropped_once() {
    let dropped = Cell::new(0);
    let chunks = cut(&[7; 100], tiny()).into_iter();
    let mut liar = Liar::new(chunks, 100, &dropped);
    liar.panics_at = Some(7);
    let collected = catch_unwind(AssertUnwindSafe(|| liar.collect::<ChunkIndex<'_>>()));
    assert!(collected.is_err());
    assert_eq!(dropped.get(), 1);
    let pointers = (0..100).map(|_| pointer_to(2000, 2000, CompressionMethod::Pglz));
    let mut liar = Liar::new(pointers, 0, &dropped);
    liar.panics_at = Some(7);
    let made = catch_unwind(AssertUnwindSafe(|| ValueScan::new(liar, ChunkSize::default())));
    assert!(made.is_err());
    assert_eq!(dropped.get(), 2);
}

/// Whoever takes a value from a scan may panic. That value is gone; the others come.
#[test]
fn a_visitor_that_panics_costs_one_value() {
    let stored = noise(3000);
    let value = |number: u64| {
        let value_id = Oid8::new(number);
        cut(&stored, ChunkSize::default()).into_iter().map(move |chunk| Chunk { value_id, ..chunk })
    };
    let pointers = (1..=9_u32).map(|number| {
        let datum = [&((3004_u32 << 2).to_le_bytes())[..], &stored].concat();
        OutOfLine::new(&datum).expect("a datum").pointer(Oid::new(number), Oid::new(16_560))
    });
    let mut scan = ValueScan::new(pointers, ChunkSize::default()).expect("sound pointers");
    let mut came = 0;
    for number in 1..=9 {
        for chunk in value(number) {
            let accept = AssertUnwindSafe(|| {
                scan.accept(&chunk, |_, bytes| {
                    assert_ne!(number, 7, "as was asked for");
                    assert!(bytes == stored);
                    came += 1;
                })
            });
            assert_eq!(catch_unwind(accept).is_err(), number == 7 && chunk.seq == 1);
        }
    }
    assert_eq!(came, 8);
    assert_eq!(scan.finish().next(), None);
}

/// A compressor that claims a length no datum has, or none at all, and one that panics.
#[test]
fn a_compressor_that_lies_or_panics_leaves_sound_decisions() {
    let row = || {
        (0..10)
            .map(|_| ToastAttribute::varlena(1500, Storage::Extended, Alignment::Int))
            .collect::<Vec<_>>()
    };
    let toaster = Toaster::new(BlockSize::KIB_8);
    for claimed in [usize::MAX, usize::MAX - 7, 1 << 40, 1504] {
        let mut attributes = row();
        let outcome =
            toaster.decide(&mut attributes, Trigger::Length, |_, _| Some(claimed), |_| ());
        assert_eq!(outcome.fits().ok(), Some(Toaster::tuple_len(&attributes)));
        let compressed = attributes.iter().filter(|one| {
            matches!(
                one.decision(),
                Decision::Compress { .. } | Decision::CompressAndMoveOut { .. }
            )
        });
        assert_eq!(compressed.count(), 0, "{claimed} bytes are no gain");
    }
    let mut attributes = row();
    let outcome = toaster.decide(&mut attributes, Trigger::Length, |_, _| Some(0), |_| ());
    assert_eq!(outcome.fits().ok(), Some(Toaster::tuple_len(&attributes)));

    let (mut attributes, mut asked) = (row(), 0);
    let decide = AssertUnwindSafe(|| {
        let compress = |_, _| {
            asked += 1;
            assert_ne!(asked, 7, "as was asked for");
            Some(1200)
        };
        toaster.decide(&mut attributes, Trigger::Length, compress, |_| ()).tuple_len()
    });
    assert!(catch_unwind(decide).is_err());
    let decided = attributes.iter().filter(|one| one.decision() != Decision::Keep);
    assert_eq!(decided.count(), 6, "what was decided before stands");
    let outcome = toaster.decide(&mut attributes, Trigger::Length, |_, _| None, |_| ());
    assert_eq!(outcome.fits().ok(), Some(Toaster::tuple_len(&attributes)));
}

/// Gives each chunk a byte at a time, or more of them than it was asked for.
struct Source<'a> {
    chunks: Vec<Chunk<'a>>,
    repeats: usize,
    order: ChunkOrder,
}

impl ChunkSource for Source<'_> {
    type Error = Infallible;

    fn order(&self) -> ChunkOrder {
        self.order
    }

    fn visit(
        &mut self,
        _: ValueKey,
        _: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        for chunk in self.chunks.iter().cycle().take(self.chunks.len() * self.repeats) {
            // It does not stop when it is told to, either.
            let _ = visit(chunk);
        }
        Ok(())
    }
}

#[test]
fn a_source_that_gives_bytes_one_by_one_is_read_or_found_out() {
    let stored = noise(5000);
    let datum = Varlena::External(pointer_to(5000, 5000, CompressionMethod::Pglz));
    for order in [ChunkOrder::Any, ChunkOrder::Index] {
        let source = || Source { chunks: cut(&stored, tiny()), repeats: 1, order };
        let value = Detoaster::new(source(), tiny()).detoast(&datum).map(Value::into_vec);
        assert!(value == Ok(stored.clone()), "{order:?}");
        let error = fault(Detoaster::new(source(), ChunkSize::default()).detoast(&datum));
        assert!(matches!(error, ToastError::ChunkSize { found: 1, expected: 1996, .. }), "{error}");
    }
}

#[test]
fn a_source_that_gives_more_than_was_asked_for_is_found_out() {
    let stored = noise(5000);
    let datum = Varlena::External(pointer_to(5000, 5000, CompressionMethod::Pglz));
    for order in [ChunkOrder::Any, ChunkOrder::Index] {
        let source = || Source { chunks: cut(&stored, ChunkSize::default()), repeats: 1000, order };
        let mut detoaster = Detoaster::new(source(), ChunkSize::default());
        let error = fault(detoaster.detoast(&datum));
        assert!(matches!(error, ToastError::ChunkNumber { .. }), "{error}");
        let error = fault(detoaster.detoast_into(&datum, &mut [0; 5000]));
        assert!(matches!(error, ToastError::ChunkNumber { .. }), "{error}");
        // In the middle only: what was not asked for is passed over in any order, and an index has none.
        let error = fault(detoaster.slice_bytes(&datum, ByteSlice::new(2000, 10)));
        assert!(matches!(error, ToastError::ChunkNumber { .. }), "{error}");
    }
}

/// The pointer's 18 bytes are nobody's value: what works on values is not to be had for it, or says so.
#[test]
fn a_pointer_does_not_pass_for_its_value() {
    let hex = "0112a40f0000a00f00007840000076400000";
    let datum = external(hex);
    let bytes: Vec<u8> = {
        let Varlena::External(pointer) = datum else { panic!("a pointer") };
        let mut bytes = vec![0; pointer.datum_len()];
        pointer.encode(&mut bytes).expect("room for a pointer");
        bytes
    };
    assert_eq!(Value::of_plain(&datum), None);
    assert_eq!(raw_len(&datum), Ok(4000), "the value's, not the pointer's");
    assert_eq!(OutOfLine::new(&bytes), Err(ToastError::StorePointer));
    let mut target = vec![1, 2, 3];
    for method in [CompressionMethod::Pglz, CompressionMethod::Lz4] {
        assert_eq!(DatumCompressor::new().compress(method, &datum, &mut target), None);
        assert_eq!(target, [1, 2, 3]);
    }
    let pointer = ToastPointer::parse(&bytes, 0).expect("a pointer");
    let error = Value::of_stored(&pointer, &bytes).map(Value::into_vec);
    assert!(matches!(error, Err(ToastError::PointerLengths { stored_len: 18, .. })), "{error:?}");
}
