//! Chunks that are not what the pointer promises: each fault told apart, with the tuple it is in.
//! The words in the names are a server's verdicts on the same damage.
mod common;

use common::{Listed, VALUE_ID, cut, fault, noise, pointer_to, tid};
use pgtoast_base::Oid8;
use pgtoast_codec::CompressionMethod;
use pgtoast_toast::{
    Assembler, ByteSlice, Chunk, ChunkOrder, ChunkPlan, ChunkSize, Collector, Detoaster, ToastError,
};
use pgtoast_varlena::{ToastPointer, Varlena};

const ID: Oid8 = Oid8::new(VALUE_ID as u64);
/// Eight chunks, the last of 292 bytes less 1.
const LEN: usize = 7 * 1996 + 291;

fn plain(stored_len: usize) -> ToastPointer {
    pointer_to(stored_len, stored_len, CompressionMethod::Pglz)
}

/// What reading the whole value says: into a vector and into a buffer, which must agree.
fn read(pointer: &ToastPointer, chunks: &[Chunk<'_>], order: ChunkOrder) -> ToastError {
    let mut detoaster = Detoaster::new(Listed::new(chunks.to_vec(), order), ChunkSize::default());
    let error = fault(detoaster.detoast(&Varlena::External(*pointer)));
    let mut target = vec![0; pointer.raw_payload_len().expect("a length")];
    let into = fault(detoaster.detoast_into(&Varlena::External(*pointer), &mut target));
    match (error, into) {
        // Noticed when all chunks have come, the buffer's way knows no place.
        (
            ToastError::ChunkNumber { found, expected, .. },
            ToastError::ChunkNumber {
                found: found_into, expected: expected_into, tid: None, ..
            },
        ) => assert_eq!((found, expected), (found_into, expected_into)),
        (error, into) => assert_eq!(error, into),
    }
    error
}

#[test]
fn a_pointer_that_claims_one_byte_more_makes_the_last_chunk_too_short() {
    let stored = noise(LEN);
    let mut pointer = plain(LEN + 1);
    if let ToastPointer::Oid(_) = pointer {
        // Only the stored length is off; the raw one is right.
        pointer = pointer_to(LEN, LEN + 1, CompressionMethod::Pglz);
    }
    for order in [ChunkOrder::Index, ChunkOrder::Any] {
        let error = read(&pointer, &cut(&stored, ChunkSize::default()), order);
        let (chunk, chunk_count, found, expected) = (7, 8, 291, 292);
        let tid = tid(7);
        assert_eq!(
            error,
            ToastError::ChunkSize { value_id: ID, chunk, chunk_count, found, expected, tid }
        );
    }
    // The start of the value can still be read.
    let source = Listed::new(cut(&stored, ChunkSize::default()), ChunkOrder::Index);
    let mut detoaster = Detoaster::new(source, ChunkSize::default());
    let datum = Varlena::External(pointer);
    assert_eq!(
        detoaster.slice_bytes(&datum, ByteSlice::new(0, 10)).unwrap().as_bytes(),
        &stored[..10]
    );
    // And where the chunks agree with it, the pointer's two lengths do not.
    let stored = noise(LEN + 1);
    let error = read(&pointer, &cut(&stored, ChunkSize::default()), ChunkOrder::Any);
    let (value_id, raw_len, stored_len) = (ID, LEN, LEN + 1);
    assert_eq!(error, ToastError::PointerLengths { value_id, raw_len, stored_len });
}

#[test]
fn a_short_chunk_in_the_middle_is_an_unexpected_size() {
    let stored = noise(LEN);
    let mut chunks = cut(&stored, ChunkSize::default());
    chunks[1].data = &chunks[1].data[..1992];
    for order in [ChunkOrder::Index, ChunkOrder::Any] {
        let (chunk, chunk_count, found, expected) = (1, 8, 1992, 1996);
        let error = ToastError::ChunkSize {
            value_id: ID,
            chunk,
            chunk_count,
            found,
            expected,
            tid: tid(1),
        };
        assert_eq!(read(&plain(LEN), &chunks, order), error);
    }
    let source = Listed::new(chunks, ChunkOrder::Index);
    let mut detoaster = Detoaster::new(source, ChunkSize::default());
    let datum = Varlena::External(plain(LEN));
    assert_eq!(
        detoaster.slice_bytes(&datum, ByteSlice::new(0, 10)).unwrap().as_bytes(),
        &stored[..10]
    );
}

#[test]
fn swapped_numbers_fail_although_the_index_order_is_fine() {
    let stored = noise(LEN);
    let mut chunks = cut(&stored, ChunkSize::default());
    (chunks[1].seq, chunks[2].seq) = (2, 1);
    let error = ToastError::ChunkNumber { value_id: ID, found: 2, expected: 1, tid: tid(1) };
    let mut detoaster =
        Detoaster::new(Listed::new(chunks, ChunkOrder::Index), ChunkSize::default());
    assert_eq!(fault(detoaster.detoast(&Varlena::External(plain(LEN)))), error);
    assert_eq!(
        fault(detoaster.detoast_into(&Varlena::External(plain(LEN)), &mut vec![0; LEN])),
        error
    );
}

#[test]
fn a_nonsense_number_is_out_of_range_or_not_the_next() {
    let stored = noise(LEN);
    for found in [0x6032_e974, i32::MAX, -1, i32::MIN, 8] {
        let mut chunks = cut(&stored, ChunkSize::default());
        chunks[3].seq = found;
        let (first, last) = (0, 7);
        let error = ToastError::ChunkOutOfRange { value_id: ID, found, first, last, tid: tid(3) };
        assert_eq!(read(&plain(LEN), &chunks, ChunkOrder::Any), error);
        // An index scan for all of the value meets it where its key is.
        let mut assembler = Assembler::new(
            ChunkPlan::new(&plain(LEN), ChunkSize::default()).unwrap(),
            ChunkOrder::Index,
        );
        let mut target = vec![0; LEN];
        for chunk in &chunks[..3] {
            assembler.accept(chunk, &mut target).unwrap();
        }
        let error = ToastError::ChunkNumber { value_id: ID, found, expected: 3, tid: tid(3) };
        assert_eq!(assembler.accept(&chunks[3], &mut target), Err(error));
    }
}

#[test]
fn a_hole_is_seen_at_the_chunk_behind_it_and_at_the_end_as_missing() {
    let stored = noise(16 * 1996);
    let whole = cut(&stored, ChunkSize::default());
    let pointer = plain(stored.len());
    for order in [ChunkOrder::Index, ChunkOrder::Any] {
        let mut chunks = whole.clone();
        chunks.remove(7);
        let error = read(&pointer, &chunks, order);
        assert_eq!(
            error,
            ToastError::ChunkNumber { value_id: ID, found: 8, expected: 7, tid: tid(8) }
        );
        let datum = Varlena::External(pointer);
        let mut detoaster = Detoaster::new(Listed::new(chunks, order), ChunkSize::default());
        // A slice that ends inside the hole misses it, and those that do not touch it succeed.
        let error = fault(detoaster.slice_bytes(&datum, ByteSlice::new(10_000, 4000)));
        assert_eq!(error, ToastError::MissingChunk { value_id: ID, chunk: 7, chunk_count: 16 });
        assert!(detoaster.slice_bytes(&datum, ByteSlice::new(0, 7 * 1996)).is_ok());
        assert!(detoaster.slice_bytes(&datum, ByteSlice::new(8 * 1996, 9999)).is_ok());
        let missing = |chunk| ToastError::MissingChunk { value_id: ID, chunk, chunk_count: 16 };
        assert_eq!(read(&pointer, &whole[..15], order), missing(15));
        assert_eq!(read(&pointer, &[], order), missing(0));
    }
}

#[test]
fn a_last_chunk_that_was_not_there_yet_when_the_file_was_copied_is_missing() {
    // 16 384 bytes claimed, 15 968 there.
    let stored = noise(16_384);
    let chunks = cut(&stored, ChunkSize::default());
    assert_eq!(chunks.iter().take(8).map(|chunk| chunk.data.len()).sum::<usize>(), 15_968);
    let (chunk, chunk_count) = (8, 9);
    let missing = ToastError::MissingChunk { value_id: ID, chunk, chunk_count };
    assert_eq!(read(&plain(16_384), &chunks[..8], ChunkOrder::Any), missing);
    let source = Listed::new(chunks[..8].to_vec(), ChunkOrder::Index);
    let mut detoaster = Detoaster::new(source, ChunkSize::default());
    let prefix = detoaster
        .slice_bytes(&Varlena::External(plain(16_384)), ByteSlice::new(0, 15_968))
        .unwrap();
    assert!(prefix.as_bytes() == &stored[..15_968]);
}

#[test]
fn a_chunk_that_comes_twice_is_an_unexpected_number_wherever_it_comes() {
    let stored = noise(LEN);
    let whole = cut(&stored, ChunkSize::default());
    let mut again = whole[4];
    again.tid = tid(99);
    for at in 5..=8 {
        let mut chunks = whole.clone();
        chunks.insert(at, again);
        let error = read(&plain(LEN), &chunks, ChunkOrder::Any);
        let ToastError::ChunkNumber { value_id: ID, found: 4, expected: 5, tid: place } = error
        else {
            panic!("{error}")
        };
        assert!(place == tid(99) || place == tid(4), "{place:?}");
    }
    // Twice in place of another: as many chunks as there should be.
    let mut chunks = whole;
    chunks[6] = again;
    let error = read(&plain(LEN), &chunks, ChunkOrder::Any);
    assert!(matches!(error, ToastError::ChunkNumber { found: 4, expected: 5, .. }), "{error}");
    // In the order of an index the next one is expected, and the same one found.
    let mut assembler = Assembler::new(
        ChunkPlan::new(&plain(LEN), ChunkSize::default()).unwrap(),
        ChunkOrder::Index,
    );
    let mut target = vec![0; LEN];
    assembler.accept(&chunks[0], &mut target).unwrap();
    let error = ToastError::ChunkNumber { value_id: ID, found: 0, expected: 1, tid: tid(0) };
    assert_eq!(assembler.accept(&chunks[0], &mut target), Err(error));
}

#[test]
fn one_chunk_too_many_is_out_of_range() {
    let stored = noise(9 * 1996);
    let chunks = cut(&stored, ChunkSize::default());
    let (found, first, last) = (8, 0, 7);
    let error = ToastError::ChunkOutOfRange { value_id: ID, found, first, last, tid: tid(8) };
    assert_eq!(read(&plain(8 * 1996), &chunks, ChunkOrder::Any), error);
    let plan = ChunkPlan::new(&plain(8 * 1996), ChunkSize::default()).unwrap();
    let (mut collector, mut target) = (Collector::new(plan, ChunkOrder::Index), vec![0; 8 * 1996]);
    let mut assembler = Assembler::new(plan, ChunkOrder::Index);
    for chunk in &chunks[..8] {
        collector.accept(chunk).unwrap();
        assembler.accept(chunk, &mut target).unwrap();
    }
    assert_eq!(collector.accept(&chunks[8]), Err(error));
    assert_eq!(assembler.accept(&chunks[8], &mut target), Err(error));
}

#[test]
fn chunks_in_every_order_make_the_value() {
    let stored = noise(5 * 1996 + 1);
    let mut chunks = cut(&stored, ChunkSize::default());
    // Heap's algorithm: all 720 orders of six chunks.
    let mut counters = [0; 6];
    let mut at = 0;
    loop {
        let plan = ChunkPlan::new(&plain(stored.len()), ChunkSize::default()).unwrap();
        let mut assembler = Assembler::new(plan, ChunkOrder::Any);
        let mut collector = Collector::new(plan, ChunkOrder::Any);
        let mut target = vec![0xaa; stored.len()];
        for chunk in &chunks {
            assert!(!assembler.is_complete());
            assembler.accept(chunk, &mut target).unwrap();
            collector.accept(chunk).unwrap();
        }
        assert_eq!(assembler.finish(), Ok(()));
        assert!(target == stored && collector.finish().unwrap() == stored);
        while at < 6 && counters[at] >= at {
            counters[at] = 0;
            at += 1;
        }
        if at == 6 {
            break;
        }
        chunks.swap(if at % 2 == 0 { 0 } else { counters[at] }, at);
        counters[at] += 1;
        at = 0;
    }
}

#[test]
fn a_chunk_of_another_value_and_a_buffer_of_another_length_are_errors() {
    let stored = noise(100);
    let mut chunks = cut(&stored, ChunkSize::default());
    let plan = ChunkPlan::new(&plain(100), ChunkSize::default()).unwrap();
    let mut assembler = Assembler::new(plan, ChunkOrder::Any);
    let error = ToastError::TargetLength { found: 99, expected: 100 };
    assert_eq!(assembler.accept(&chunks[0], &mut [0; 99]), Err(error));
    chunks[0].value_id = Oid8::new((1 << 32) + u64::from(VALUE_ID));
    let error = ToastError::ChunkValue { found: chunks[0].value_id, expected: ID, tid: tid(0) };
    assert_eq!(assembler.accept(&chunks[0], &mut [0; 100]), Err(error));
    assert!(error.to_string().contains("4294983858"), "64-bit ids are printed whole: {error}");
}
