//! A row goes into a table with one call, and comes back; a row that cannot go has changed nothing.
//!
//! Writers that wrote chunks while the row was still open to failure left chunks that no row pointed to, and
//! an update that deleted first and failed then left a row that pointed to nothing.
//! Source: `heaptoast.c`, `heap_toast_insert_or_update` and `heap_toast_delete` (REL_18).
mod common;

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::noise;
use pgtoast_base::{BlockSize, Oid, Oid8, Xid};
use pgtoast_codec::CompressionMethod;
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, HeapTupleMut, TupleDescriptor, TupleError, Value,
};
use pgtoast_toast::{
    Chunk, ChunkSize, ChunkSource, Decision, Detoaster, ReadError, RowToaster, ToastError,
    ToastRelation, Toaster, ValueIdWidth, ValueKey, WriteError,
};
use pgtoast_varlena::{ToastPointer, Varlena, VarlenaError, encode_long};

const REL: Oid = Oid::new(16_560);

/// TOAST relations in memory, as their tuples. It fails, or panics, at a call of one's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Relations {
    width: ValueIdWidth,
    tuples: Tuples,
    deleted: Vec<u64>,
    next_id: u64,
    /// Writing calls, ids not among them, until one fails.
    until_failure: Option<usize>,
    panics: bool,
    /// The values in the order in which their chunks came.
    order: Vec<u64>,
}

/// By value and number.
type Tuples = BTreeMap<(u64, i32), Vec<u8>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Full;

impl Relations {
    fn new(width: ValueIdWidth) -> Self {
        Self {
            width,
            tuples: BTreeMap::new(),
            deleted: Vec::new(),
            next_id: 3_000_000_000,
            until_failure: None,
            panics: false,
            order: Vec::new(),
        }
    }

    fn call(&mut self) -> Result<(), Full> {
        if let Some(left) = &mut self.until_failure {
            if *left == 0 {
                assert!(!self.panics, "as was asked for");
                return Err(Full);
            }
            *left -= 1;
        }
        Ok(())
    }

    /// What is in them, whoever may have asked for ids.
    fn content(&self) -> (Tuples, Vec<u64>) {
        (self.tuples.clone(), self.deleted.clone())
    }
}

impl ChunkSource for Relations {
    type Error = Full;

    fn visit(
        &mut self,
        key: ValueKey,
        _: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Full>> {
        assert_eq!(key.toast_rel_id, REL);
        let id = key.value_id.get();
        for tuple in self.tuples.range((id, 0)..=(id, i32::MAX)).map(|(_, tuple)| tuple) {
            let Some(chunk) = Chunk::parse(tuple, self.width, None)? else { continue };
            if visit(&chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl ToastRelation for Relations {
    fn new_value_id(&mut self) -> Result<Oid8, Full> {
        self.next_id += 1;
        Ok(Oid8::new(self.next_id - 1))
    }

    fn insert_chunk(&mut self, chunk: &Chunk<'_>, mut tuple: HeapTupleMut<'_>) -> Result<(), Full> {
        self.call()?;
        tuple.header_mut().set_inserted(Xid::FROZEN, 0);
        let parsed = Chunk::parse(tuple.bytes(), self.width, None);
        assert_eq!(parsed, Ok(Some(*chunk)), "the tuple is the chunk's");
        let id = chunk.value_id.get();
        if self.order.last() != Some(&id) {
            self.order.push(id);
        }
        let before = self.tuples.insert((id, chunk.seq), tuple.bytes().to_vec());
        assert_eq!(before, None, "a chunk came twice");
        Ok(())
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<(), Full> {
        self.call()?;
        self.deleted.push(pointer.value_id().expect("a value id").get());
        Ok(())
    }

    fn take_back(&mut self, inserted: &[ToastPointer], deleted: &[ToastPointer]) {
        let id = |pointer: &ToastPointer| pointer.value_id().expect("a value id").get();
        self.tuples.retain(|(value_id, _), _| !inserted.iter().any(|one| id(one) == *value_id));
        self.deleted.retain(|value_id| !deleted.iter().any(|one| id(one) == *value_id));
    }
}

fn column(storage: u8) -> AttributeDescriptor<'static> {
    AttributeDescriptor::from_catalog(-1, false, b'i', storage).expect("a real column")
}

/// A number, then a column of each storage.
fn columns() -> [AttributeDescriptor<'static>; 5] {
    let number = AttributeDescriptor::from_catalog(4, true, b'i', b'p').expect("a real column");
    [number, column(b'p'), column(b'x'), column(b'e'), column(b'm')]
}

fn long(payload: &[u8]) -> Vec<u8> {
    let mut datum = Vec::new();
    encode_long(payload, &mut datum).expect("not too long");
    datum
}

fn words(len: usize) -> Vec<u8> {
    b"What leaves the row leaves it whole, and the row knows where to. "
        .iter()
        .copied()
        .cycle()
        .take(len)
        .collect()
}

/// The datums of a tuple, as the table stores them.
fn stored(tuple: &[u8], columns: &[AttributeDescriptor<'_>]) -> Vec<Option<Vec<u8>>> {
    let descriptor = TupleDescriptor::new(columns).expect("few columns");
    let values = HeapTuple::parse(tuple).expect("a tuple").deform(descriptor).expect("a tuple");
    values.map(|one| one.expect("a value").value.bytes().map(<[u8]>::to_vec)).collect()
}

fn values(datums: &[Option<Vec<u8>>]) -> Vec<Value<'_>> {
    datums.iter().map(|one| one.as_deref().map_or(Value::Null, Value::stored)).collect()
}

/// The payload of a datum, wherever it is.
fn read(datum: &[u8], relations: &mut Relations) -> Vec<u8> {
    let size = ChunkSize::of(BlockSize::KIB_8, relations.width);
    let (datum, _) = Varlena::parse(datum, 0).expect("a datum");
    let mut detoaster = Detoaster::new(relations, size);
    detoaster.detoast(&datum).expect("a sound value").into_vec()
}

fn is_pointer(datum: &Option<Vec<u8>>) -> bool {
    datum.as_ref().is_some_and(|bytes| bytes[0] == 1)
}

#[test]
fn what_goes_in_comes_back_in_both_widths_and_with_either_method() {
    for (width, method) in
        [(ValueIdWidth::Oid, CompressionMethod::Pglz), (ValueIdWidth::Oid8, CompressionMethod::Lz4)]
    {
        let columns = columns();
        let descriptor = TupleDescriptor::new(&columns).unwrap();
        let methods = [method; 5];
        let toaster = Toaster::new(BlockSize::KIB_8).with_value_ids(width);
        let mut toaster = RowToaster::new(toaster, descriptor, REL).with_methods(&methods);
        let mut relations = Relations::new(width);
        let payloads = [words(40), [words(6000), noise(6000)].concat(), noise(2500), words(7000)];
        let datums: Vec<_> = payloads.iter().map(|payload| Some(long(payload))).collect();
        let datums = [vec![Some(vec![7, 0, 0, 0])], datums].concat();
        let row = toaster.insert(&values(&datums), &mut relations).unwrap();
        let decisions: Vec<_> = row.attributes.iter().map(|one| one.decision()).collect();
        assert!(
            matches!(
                decisions[..],
                [
                    Decision::Keep,
                    Decision::Keep,
                    Decision::CompressAndMoveOut { .. },
                    Decision::MoveOut { datum_len: 2504 },
                    Decision::Compress { .. },
                ]
            ),
            "{decisions:?}"
        );
        let stored = stored(row.tuple.bytes(), &columns);
        assert_eq!(stored[0], datums[0]);
        for (datum, payload) in stored[1..].iter().zip(&payloads) {
            assert!(read(datum.as_ref().unwrap(), &mut relations) == *payload);
        }
        assert_eq!(relations.order.len(), 2);
    }
}

#[test]
fn a_row_that_is_short_enough_is_formed_as_it_is_and_the_relation_not_asked() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, REL);
    let mut relations = Relations::new(ValueIdWidth::Oid);
    let before = relations.clone();
    let datum = long(&words(1500));
    let values = [Value::stored(&[1, 0, 0, 0]), Value::Null, Value::stored(&datum)];
    let row = toaster.insert(&values, &mut relations).unwrap();
    let mut buffer = vec![0; 8192];
    assert_eq!(row.tuple.bytes(), descriptor.form(&values, &mut buffer).unwrap().bytes());
    assert_eq!(row.attributes.len(), 3, "as many as there are values");
    assert_eq!(relations, before);
}

/// The order of chunks in a relation is that of the decisions: the server writes a value the moment it has
/// decided.
#[test]
fn values_go_out_in_the_order_in_which_that_was_decided() {
    let columns = [column(b'e'), column(b'e'), column(b'e')];
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, REL);
    let mut relations = Relations::new(ValueIdWidth::Oid);
    let datums = [900, 1800, 1700].map(|len| Some(long(&noise(len))));
    let row = toaster.insert(&values(&datums), &mut relations).unwrap();
    let stored = stored(row.tuple.bytes(), &columns);
    assert_eq!(stored.iter().map(is_pointer).collect::<Vec<_>>(), [false, true, true]);
    let id = |datum: &Option<Vec<u8>>| {
        ToastPointer::parse(datum.as_ref().unwrap(), 0).unwrap().value_id().unwrap().get()
    };
    assert_eq!(relations.order, [id(&stored[1]), id(&stored[2])]);
    assert!(id(&stored[1]) < id(&stored[2]));
}

/// A row of one small and three large values, and what it is in the table.
fn inserted(toaster: &mut RowToaster<'_>, relations: &mut Relations) -> Vec<Option<Vec<u8>>> {
    let datums = [
        Some(vec![7, 0, 0, 0]),
        None,
        Some(long(&[words(3000), noise(3000)].concat())),
        Some(long(&noise(5000))),
        Some(long(&noise(9000))),
    ];
    let row = toaster.insert(&values(&datums), relations).expect("a sound row");
    let stored = stored(row.tuple.bytes(), &columns());
    assert_eq!(stored.iter().map(is_pointer).collect::<Vec<_>>(), [false, false, true, true, true]);
    stored
}

#[test]
fn an_update_carries_over_what_is_equal_and_deletes_what_is_not() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, REL);
    let mut relations = Relations::new(ValueIdWidth::Oid);
    let old = inserted(&mut toaster, &mut relations);
    let id = |datum: &Option<Vec<u8>>| {
        ToastPointer::parse(datum.as_ref().unwrap(), 0).unwrap().value_id().unwrap().get()
    };
    let chunks = relations.tuples.len();
    // The number changes, the third column stays, the fourth becomes null, the fifth the fourth's value.
    let new = [Some(vec![2, 0, 0, 0]), None, old[2].clone(), None, old[3].clone()];
    let row = toaster.update(&values(&old), &values(&new), &mut relations).unwrap();
    let updated = stored(row.tuple.bytes(), &columns);
    assert_eq!(updated[2], old[2], "the same pointer");
    assert_eq!(relations.deleted, [id(&old[3]), id(&old[4])]);
    assert_eq!(relations.tuples.len(), chunks, "the fifth fits the row, so nothing was added");
    assert_eq!(relations.order.len(), 3);
    assert!(!is_pointer(&updated[4]), "main columns stay while a page has room");
    assert!(read(updated[4].as_ref().unwrap(), &mut relations) == noise(5000));

    // The row goes for good.
    relations.deleted.clear();
    toaster.delete(&values(&updated), &mut relations).unwrap();
    assert_eq!(relations.deleted, [id(&old[2])]);
}

/// A pointer to another row's value is no value: whoever stored it again as it was had two rows share
/// chunks, until one of them was deleted.
#[test]
fn a_pointer_to_another_rows_value_is_stored_once_more() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, REL);
    let mut relations = Relations::new(ValueIdWidth::Oid);
    let first = inserted(&mut toaster, &mut relations);
    let row = toaster.insert(&values(&first), &mut relations).unwrap();
    let second = stored(row.tuple.bytes(), &columns);
    assert_eq!(relations.order.len(), 6);
    for (one, other) in first[2..].iter().zip(&second[2..]) {
        assert_ne!(one, other);
        let payload = read(one.as_ref().unwrap(), &mut relations);
        assert!(payload == read(other.as_ref().unwrap(), &mut relations));
    }
    // What was compressed stayed so, and a plain column gets the raw value.
    let compression = |datum: &Option<Vec<u8>>| {
        ToastPointer::parse(datum.as_ref().unwrap(), 0).unwrap().ext_info().word()
    };
    assert_eq!(compression(&first[2]), compression(&second[2]));
    let plain = [first[0].clone(), first[2].clone()];
    let row = toaster.insert(&values(&plain), &mut relations).unwrap();
    let third = stored(row.tuple.bytes(), &columns);
    assert!(third[1].as_ref().unwrap()[4..] == [words(3000), noise(3000)].concat());
    assert_eq!(relations.order.len(), 6);
}

#[test]
fn a_relation_that_fails_at_any_call_is_as_it_was() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, REL);
    let mut relations = Relations::new(ValueIdWidth::Oid);
    let old = inserted(&mut toaster, &mut relations);
    let new =
        [Some(vec![2, 0, 0, 0]), None, old[3].clone(), old[2].clone(), Some(long(&noise(12_000)))];
    let before = relations.content();
    for panics in [false, true] {
        let mut calls = 0;
        loop {
            let mut relations =
                Relations { until_failure: Some(calls), panics, ..relations.clone() };
            let mut update =
                || toaster.update(&values(&old), &values(&new), &mut relations).map(|_| ());
            match catch_unwind(AssertUnwindSafe(&mut update)) {
                Ok(Ok(())) => break,
                Ok(Err(error)) => assert_eq!(error, WriteError::Relation(Full)),
                Err(_) => assert!(panics),
            }
            assert!(relations.content() == before, "after {calls} calls");
            calls += 1;
        }
        // 3 + 2 + 7 chunks and three values to delete.
        assert_eq!(calls, 15);
    }
    // The toaster itself is none the worse.
    let row = toaster.update(&values(&old), &values(&new), &mut relations).unwrap();
    assert_eq!(row.attributes.len(), 5);
    assert_eq!(relations.deleted.len(), 3);
}

#[test]
fn a_row_that_cannot_be_is_refused_before_the_relation_is_asked_for_anything() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, REL);
    let mut relations = Relations::new(ValueIdWidth::Oid);
    let big = Some(long(&noise(9000)));
    let cut = Some(long(&noise(100))[..50].to_vec());
    let unknown = Some(vec![1, 99]);
    let number = Some(vec![7, 0, 0, 0]);
    let error = |datums: &[Option<Vec<u8>>], toaster: &mut RowToaster<'_>| {
        let mut relations = Relations::new(ValueIdWidth::Oid);
        let before = relations.clone();
        let error = toaster.insert(&values(datums), &mut relations).map(|_| ()).unwrap_err();
        let update = toaster.update(&values(&[]), &values(datums), &mut relations).map(|_| ());
        assert_eq!(update, Err(error));
        assert_eq!(relations, before, "{error:?}");
        error
    };
    let tuple = |error| WriteError::Toast(ToastError::Tuple(error));
    // 9004 bytes that are plain, with others that could go.
    assert_eq!(
        error(&[number.clone(), big.clone(), big.clone()], &mut toaster),
        WriteError::Toast(ToastError::RowTooBig { size: 9056, limit: 8160 })
    );
    assert_eq!(
        error(&[Some(vec![1, 0, 0])], &mut toaster),
        tuple(TupleError::DatumLength { attribute: 1, expected: 4, found: 3 })
    );
    assert_eq!(
        error(&[number.clone(), None, big.clone(), cut], &mut toaster),
        tuple(TupleError::Varlena {
            attribute: 4,
            error: VarlenaError::Truncated { offset: 0, needed: 104, available: 50 }
        })
    );
    assert_eq!(
        error(&[number.clone(), None, unknown, big.clone()], &mut toaster),
        tuple(TupleError::Varlena {
            attribute: 3,
            error: VarlenaError::UnknownTag { offset: 1, tag: 99 }
        })
    );
    let six = vec![None; 6];
    let count = tuple(TupleError::AttributeCount { stored: 6, table: 5 });
    assert_eq!(error(&six, &mut toaster), count);
    assert_eq!(toaster.delete(&values(&six), &mut relations), Err(count));
    // A pointer whose value is not there: nothing is written of its neighbour either.
    let stored = inserted(&mut toaster, &mut relations);
    relations.tuples.clear();
    let before = relations.clone();
    let new = [number, None, big, stored[2].clone()];
    let missing = toaster.insert(&values(&new), &mut relations).map(|_| ());
    let is_missing = matches!(
        missing,
        Err(WriteError::Toast(ToastError::MissingChunk { chunk: 0, chunk_count: 2, .. }))
    );
    assert!(is_missing, "{missing:?}");
    assert_eq!(relations, before);
}

#[test]
fn an_id_that_no_value_can_have_is_refused_before_a_chunk_is_written() {
    let columns = columns();
    let descriptor = TupleDescriptor::new(&columns).unwrap();
    for (width, next_id, bits) in
        [(ValueIdWidth::Oid, 0, 32), (ValueIdWidth::Oid, 1 << 32, 32), (ValueIdWidth::Oid8, 0, 64)]
    {
        let toaster = Toaster::new(BlockSize::KIB_8).with_value_ids(width);
        let mut toaster = RowToaster::new(toaster, descriptor, REL);
        let mut relations = Relations { next_id, ..Relations::new(width) };
        let datum = long(&noise(9000));
        let new = [Value::Null, Value::Null, Value::stored(&datum)];
        let error = toaster.insert(&new, &mut relations).map(|_| ()).unwrap_err();
        let found = Oid8::new(next_id);
        assert_eq!(error, WriteError::Toast(ToastError::ValueId { found, bits }));
        assert!(relations.tuples.is_empty());
    }
}
