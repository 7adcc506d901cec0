//! Deciding and cutting take no memory, and a row toaster only until its buffers have grown.
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use allocation_counter::measure;
use pgtoast_base::{BlockSize, Oid, Oid8};
use pgtoast_page::{AttributeDescriptor, HeapTupleMut, TupleDescriptor, Value};
use pgtoast_toast::{
    Chunk, ChunkSize, ChunkSource, OutOfLine, ReadError, RowToaster, ToastAttribute, ToastRelation,
    Toaster, Trigger, ValueIdWidth, ValueKey,
};
use pgtoast_varlena::{ToastPointer, encode_long};

mod common;

/// Counts what comes, and keeps nothing.
#[derive(Default)]
struct Counter {
    values: u64,
    chunks: usize,
}

impl ChunkSource for Counter {
    type Error = Infallible;

    fn visit(
        &mut self,
        _: ValueKey,
        _: Range<u32>,
        _: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        Ok(())
    }
}

impl ToastRelation for Counter {
    fn new_value_id(&mut self) -> Result<Oid8, Infallible> {
        self.values += 1;
        Ok(Oid8::new(self.values))
    }

    fn insert_chunk(&mut self, _: &Chunk<'_>, _: HeapTupleMut<'_>) -> Result<(), Infallible> {
        self.chunks += 1;
        Ok(())
    }

    fn delete_value(&mut self, _: &ToastPointer) -> Result<(), Infallible> {
        Ok(())
    }

    fn take_back(&mut self, _: &[ToastPointer], _: &[ToastPointer]) {}
}

/// So many rows or values.
const COUNT: usize = if cfg!(miri) { 100 } else { 10_000 };

fn columns() -> [AttributeDescriptor<'static>; 4] {
    let text =
        |storage| AttributeDescriptor::from_catalog(-1, false, b'i', storage).expect("sound");
    [
        AttributeDescriptor::from_catalog(4, true, b'i', b'p').expect("sound"),
        text(b'x'),
        text(b'e'),
        text(b'm'),
    ]
}

/// Datums of 0 to 12 000 bytes, some of which compress.
fn datums() -> Vec<Vec<u8>> {
    let noise = common::noise(6000);
    let payloads = (0..60).map(|number| {
        let (words, noise) = (vec![b'w'; number * 100], &noise[..number % 7 * 1000]);
        [&words, noise].concat()
    });
    let datum = |payload: Vec<u8>| {
        let mut datum = Vec::new();
        encode_long(&payload, &mut datum).expect("sound");
        datum
    };
    payloads.map(datum).collect()
}

#[test]
fn ten_thousand_decisions_with_their_steps_allocate_nothing() {
    let (columns, datums) = (columns(), datums());
    let toaster = Toaster::new(BlockSize::KIB_8).with_tuple_target(500).unwrap();
    let mut steps = 0;
    let info = measure(|| {
        for row in 0..COUNT {
            let value = |number: usize| Value::stored(&datums[(row * number) % datums.len()]);
            let values = [Value::stored(&[1; 4]), value(1), value(7), value(11)];
            let mut attributes = [ToastAttribute::null(); 4];
            for ((attribute, column), value) in attributes.iter_mut().zip(&columns).zip(&values) {
                *attribute = ToastAttribute::of(column, value).unwrap();
            }
            let compress = |index: usize, _| (index % 2 == 1).then_some(100);
            let outcome =
                toaster.decide(&mut attributes, Trigger::Length, compress, |_| steps += 1);
            assert!(outcome.fits().is_ok());
        }
    });
    assert!(steps > 3 * COUNT, "{steps} steps");
    assert_eq!((info.count_total, info.bytes_total), (0, 0));
}

#[test]
fn cutting_values_into_chunk_tuples_allocates_nothing() {
    let datums = datums();
    let mut buffer = vec![0; 2100];
    let mut chunks = 0;
    let info = measure(|| {
        for datum in datums.iter().cycle().take(COUNT) {
            let value = OutOfLine::new(datum).unwrap();
            let pointer = value.pointer(Oid::new(7), Oid::new(8));
            let value_id = pointer.value_id().unwrap();
            for (seq, data) in value.chunks(ChunkSize::default()) {
                let chunk = Chunk { value_id, seq, data, tid: None };
                let tuple = chunk.form(ValueIdWidth::Oid, &mut buffer).unwrap();
                let parsed = Chunk::parse(tuple.bytes(), ValueIdWidth::Oid, None).unwrap();
                assert_eq!(parsed, Some(chunk));
                chunks += 1;
            }
        }
    });
    assert!(chunks > COUNT, "{chunks} chunks");
    assert_eq!((info.count_total, info.bytes_total), (0, 0));
}

#[test]
fn a_row_toaster_allocates_nothing_once_its_buffers_have_grown() {
    let (columns, datums) = (columns(), datums());
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, Oid::new(16_560));
    let mut counter = Counter::default();
    let mut write = |rows: usize| {
        for row in 0..rows {
            let value = |number: usize| Value::stored(&datums[(row * number) % datums.len()]);
            let values = [Value::stored(&[1; 4]), value(1), value(7), value(11)];
            toaster.insert(&values, &mut counter).unwrap();
        }
    };
    write(datums.len());
    let info = measure(|| write(COUNT / 10));
    assert_eq!((info.count_total, info.bytes_total), (0, 0));
    assert!(counter.chunks > COUNT / 10, "{} chunks", counter.chunks);
}
