//! Rows come, change and go, the TOAST relation fails now and then, and it always holds the values of the rows
//! that there are, whole, and nothing else.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use pgtoast_base::{BlockSize, Oid, Oid8};
use pgtoast_codec::CompressionMethod;
use pgtoast_page::{AttributeDescriptor, HeapTuple, HeapTupleMut, TupleDescriptor, Value};
use pgtoast_toast::{
    Chunk, ChunkSize, ChunkSource, Detoaster, ReadError, RowToaster, ToastError, ToastRelation,
    Toaster, ValueIdWidth, ValueKey, WriteError, thresholds,
};
use pgtoast_varlena::{ToastPointer, Varlena, encode_long};

use crate::input::Input;

/// The most steps in one program.
const LONGEST: usize = 30;
const REL: Oid = Oid::new(16_560);
/// `attlen`, `attbyval`, `attalign`, `attstorage`.
const COLUMNS: [(i16, bool, u8, u8); 6] = [
    (4, true, b'i', b'p'),
    (-1, false, b'i', b'x'),
    (-1, false, b'i', b'e'),
    (-1, false, b'd', b'm'),
    (-1, false, b'i', b'p'),
    (-1, false, b'i', b'x'),
];
const METHODS: [CompressionMethod; 6] = {
    use CompressionMethod::{Lz4, Pglz};
    [Pglz, Pglz, Lz4, Lz4, Pglz, Lz4]
};

/// The first byte picks block size and width of ids, two more the target. Then steps follow: one byte for
/// insert, update or delete and of which row, one for the call at which the relation fails, and for each column
/// where its value comes from.
pub fn toast_rows(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.u8();
    let sizes = [BlockSize::KIB_1, BlockSize::KIB_2, BlockSize::KIB_8];
    let size = sizes[usize::from(choices & 3) % sizes.len()];
    let width = if choices & 4 == 0 { ValueIdWidth::Oid } else { ValueIdWidth::Oid8 };
    let toaster = Toaster::new(size).with_value_ids(width);
    let toaster = toaster.with_tuple_target(input.u16().into()).unwrap_or(toaster);
    let columns = COLUMNS.map(|(len, by_value, align, storage)| {
        AttributeDescriptor::from_catalog(len, by_value, align, storage).expect("a real column")
    });
    let descriptor = TupleDescriptor::new(&columns).expect("few columns");
    let toaster = RowToaster::new(toaster, descriptor, REL).with_methods(&METHODS);
    let (chunks, deleted) = (BTreeMap::new(), BTreeMap::new());
    let relation = Relation { size, width, chunks, deleted, next_id: 1, left: None };
    let mut table = Table { toaster, descriptor, relation, rows: Vec::new() };
    for _ in 0..LONGEST {
        let code = input.u8();
        if code == 0 {
            break;
        }
        table.step(code, &mut input);
        table.assert_nothing_is_lost_or_left();
    }
    (0..table.rows.len()).for_each(|index| table.assert_whole(index));
}

/// A TOAST relation that fails after so many calls.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Relation {
    size: BlockSize,
    width: ValueIdWidth,
    /// The tuples of each value.
    chunks: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Those of the values that the row at hand has deleted.
    deleted: BTreeMap<u64, Vec<Vec<u8>>>,
    next_id: u64,
    left: Option<u8>,
}

#[derive(Debug)]
struct Failed;

/// A row as it is stored, and the payloads that it stands for.
struct Row {
    tuple: Vec<u8>,
    payloads: Vec<Option<Vec<u8>>>,
}

struct Table<'d> {
    toaster: RowToaster<'d>,
    descriptor: TupleDescriptor<'d>,
    relation: Relation,
    rows: Vec<Row>,
}

impl<'d> Table<'d> {
    fn step(&mut self, code: u8, input: &mut Input<'_>) {
        let before = self.relation.chunks.clone();
        self.relation.left = input.u8().checked_sub(200);
        let picked = usize::from(code >> 2).checked_rem(self.rows.len());
        let verdict = match (code & 3, picked) {
            (0 | 1, _) | (_, None) => self.write(None, input),
            (2, picked) => self.write(picked, input),
            (_, Some(index)) => {
                let old = values(&self.rows[index].tuple, self.descriptor);
                let deleted = self.toaster.delete(&old, &mut self.relation);
                deleted.map(|()| drop(self.rows.swap_remove(index)))
            }
        };
        self.relation.left = None;
        self.relation.deleted.clear();
        if let Err(error) = verdict {
            let is_expected = matches!(
                error,
                WriteError::Relation(Failed) | WriteError::Toast(ToastError::RowTooBig { .. })
            );
            assert!(is_expected, "{error:?}");
            assert!(self.relation.chunks == before, "{error:?} left something");
        }
    }

    /// Writes a row, in place of the one at `old` if there is that.
    fn write(
        &mut self,
        old: Option<usize>,
        input: &mut Input<'_>,
    ) -> Result<(), WriteError<Failed>> {
        let (datums, payloads) = self.new_row(old, input);
        let new: Vec<_> = datums
            .iter()
            .map(|datum| datum.as_deref().map_or(Value::Null, Value::stored))
            .collect();
        let old_values = old.map(|index| values(&self.rows[index].tuple, self.descriptor));
        let row = match &old_values {
            Some(old) => self.toaster.update(old, &new, &mut self.relation)?,
            None => self.toaster.insert(&new, &mut self.relation)?,
        };
        let row = Row { tuple: row.tuple.bytes().to_vec(), payloads };
        let index = old.unwrap_or(self.rows.len());
        match self.rows.get_mut(index) {
            Some(place) => *place = row,
            None => self.rows.push(row),
        }
        self.relation.left = None;
        self.assert_whole(index);
        Ok(())
    }

    /// Datums and what they stand for; pointers to values of other rows and columns among them.
    fn new_row(&self, old: Option<usize>, input: &mut Input<'_>) -> (Datums, Datums) {
        let (mut datums, mut payloads) = (Vec::new(), Vec::new());
        for column in 0..COLUMNS.len() {
            let code = input.u8();
            let taken = match (code & 3, old) {
                _ if self.rows.is_empty() => None,
                (2, _) => {
                    Some((usize::from(code >> 2) % self.rows.len(), usize::from(code) % 5 + 1))
                }
                (3, Some(index)) => Some((index, column)),
                _ => None,
            };
            let (datum, payload) = match taken {
                _ if column == 0 => (Some(vec![1, code, 0, 0]), Some(vec![1, code, 0, 0])),
                Some((row, column)) => {
                    let row = &self.rows[row];
                    let datum = values(&row.tuple, self.descriptor)[column].bytes();
                    (datum.map(<[u8]>::to_vec), row.payloads[column].clone())
                }
                None if code & 3 == 0 => (None, None),
                None => {
                    let payload = payload(code, input.u8());
                    let mut datum = Vec::new();
                    encode_long(&payload, &mut datum).expect("not too long");
                    (Some(datum), Some(payload))
                }
            };
            datums.push(datum);
            payloads.push(payload);
        }
        (datums, payloads)
    }

    fn assert_whole(&mut self, index: usize) {
        let Some(Row { tuple, payloads }) = self.rows.get(index) else { return };
        assert!(tuple.len() <= thresholds::main_target(self.relation.size));
        let size = ChunkSize::of(self.relation.size, self.relation.width);
        let values = values(tuple, self.descriptor);
        for ((value, payload), (len, ..)) in values.iter().zip(payloads).zip(COLUMNS) {
            let found = match value.bytes() {
                Some(bytes) if len == -1 => {
                    let (datum, _) = Varlena::parse(bytes, 0).expect("what was formed");
                    let mut detoaster = Detoaster::new(&mut self.relation, size);
                    Some(detoaster.detoast(&datum).expect("a whole value").into_vec())
                }
                bytes => bytes.map(<[u8]>::to_vec),
            };
            assert!(found == *payload, "row {index} has another value");
        }
    }

    fn assert_nothing_is_lost_or_left(&self) {
        let mut expected = BTreeSet::new();
        for row in &self.rows {
            for (value, (len, ..)) in values(&row.tuple, self.descriptor).iter().zip(COLUMNS) {
                if len == -1
                    && let Some(bytes) = value.bytes()
                    && let Ok(pointer) = ToastPointer::parse(bytes, 0)
                {
                    assert_eq!(pointer.toast_rel_id(), REL);
                    assert!(expected.insert(id(&pointer)), "two rows share a value");
                }
            }
        }
        assert!(self.relation.chunks.keys().eq(&expected), "lost or left values");
    }
}

type Datums = Vec<Option<Vec<u8>>>;

fn values<'a>(tuple: &'a [u8], descriptor: TupleDescriptor<'a>) -> Vec<Value<'a>> {
    let mut values = vec![Value::Null; COLUMNS.len()];
    let tuple = HeapTuple::parse(tuple).expect("what was formed");
    tuple.deform_into(descriptor, &mut values).expect("what was formed");
    values
}

/// Up to 8 kB that compress well, not at all, or in part.
fn payload(code: u8, len: u8) -> Vec<u8> {
    let len = usize::from(len) * usize::from(len) / 8;
    let noise = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 13).to_le_bytes()[0];
    let kind = code >> 2 & 3;
    (0..len)
        .map(|at| match kind {
            0 => code,
            1 => noise(at),
            2 if at % 1000 < 400 => noise(at),
            _ => (at % 26).to_le_bytes()[0] + b'a',
        })
        .collect()
}

fn id(pointer: &ToastPointer) -> u64 {
    pointer.value_id().expect("a value id").get()
}

impl Relation {
    fn call(&mut self) -> Result<(), Failed> {
        self.left = match self.left {
            Some(0) => return Err(Failed),
            left => left.map(|left| left - 1),
        };
        Ok(())
    }
}

impl ChunkSource for Relation {
    type Error = Failed;

    fn visit(
        &mut self,
        key: ValueKey,
        _: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Failed>> {
        self.call().map_err(ReadError::Source)?;
        for tuple in self.chunks.get(&key.value_id.get()).into_iter().flatten() {
            if let Some(chunk) = Chunk::parse(tuple, self.width, None)?
                && visit(&chunk).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

impl ToastRelation for Relation {
    fn new_value_id(&mut self) -> Result<Oid8, Failed> {
        self.call()?;
        self.next_id += 1;
        Ok(Oid8::new(self.next_id))
    }

    fn insert_chunk(&mut self, chunk: &Chunk<'_>, tuple: HeapTupleMut<'_>) -> Result<(), Failed> {
        self.call()?;
        let chunks = self.chunks.entry(chunk.value_id.get()).or_default();
        assert_eq!(usize::try_from(chunk.seq), Ok(chunks.len()));
        assert!(tuple.bytes().len() <= thresholds::chunk_tuple_len(self.size));
        chunks.push(tuple.bytes().to_vec());
        Ok(())
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<(), Failed> {
        self.call()?;
        let chunks = self.chunks.remove(&id(pointer)).expect("a value that is there");
        self.deleted.insert(id(pointer), chunks);
        Ok(())
    }

    fn take_back(&mut self, inserted: &[ToastPointer], deleted: &[ToastPointer]) {
        self.chunks.retain(|value_id, _| !inserted.iter().any(|one| id(one) == *value_id));
        for pointer in deleted {
            // The last may not have come that far.
            if let Some(chunks) = self.deleted.remove(&id(pointer)) {
                self.chunks.insert(id(pointer), chunks);
            }
        }
    }
}
