//! A table with values out of line, and changes of its rows.
use pgtoast_base::{BlockSize, Lsn, Oid, Oid8, Xid};
use pgtoast_page::Value;
use pgtoast_reorder::{
    Action, BuiltinType, Catalog, Change, Column, InsertFlags, Layout, Message, Output, Record,
    Relation, RelationMap, ReorderBuffer, ReorderError, ReplicaIdentity, RowChange, SpillStore,
    TextOptions, TextOutput, TransactionInfo, Truncate,
};
use pgtoast_toast::{Chunk, ChunkSize, OutOfLine, ValueIdWidth};

pub(crate) const TABLE: Oid = Oid::new(16_384);
pub(crate) const TOAST: Oid = Oid::new(16_387);
pub(crate) const TOAST8: Oid = Oid::new(16_388);

/// `create table t (id int4, note text, numbers int4[])`.
pub(crate) fn table() -> Relation {
    let columns = vec![
        Column::new("id", BuiltinType::INT4),
        Column::new("note", BuiltinType::TEXT),
        Column::new("numbers", BuiltinType::INT4_ARRAY),
    ];
    Relation::table(TABLE, "public", "t", columns).expect("three columns")
}

pub(crate) fn catalog() -> RelationMap {
    catalog_with(ReplicaIdentity::Default)
}

pub(crate) fn catalog_with(identity: ReplicaIdentity) -> RelationMap {
    RelationMap::new([
        table().with_replica_identity(identity),
        Relation::toast(TOAST, ValueIdWidth::Oid),
        Relation::toast(TOAST8, ValueIdWidth::Oid8),
    ])
}

pub(crate) fn long(payload: &[u8]) -> Vec<u8> {
    let mut datum = Vec::new();
    pgtoast_varlena::encode_long(payload, &mut datum).expect("it is short");
    datum
}

/// A row's tuple from the datums of its last two columns.
pub(crate) fn row(id: i32, note: Option<&[u8]>, numbers: Option<&[u8]>) -> Vec<u8> {
    let id = id.to_le_bytes();
    let values = [
        Value::stored(&id),
        note.map_or(Value::Null, Value::stored),
        numbers.map_or(Value::Null, Value::stored),
    ];
    let table = table();
    let descriptor = table.descriptor().expect("three columns");
    let mut tuple = vec![0; descriptor.tuple_len(&values).expect("values of their types")];
    descriptor.form(&values, &mut tuple).expect("there is room");
    tuple
}

/// A row with a short text.
pub(crate) fn text_row(id: i32, note: &str) -> Vec<u8> {
    row(id, Some(&long(note.as_bytes())), None)
}

/// The chunks of a value, and the pointer to it.
pub(crate) fn chunks(
    value_id: u64,
    payload: &[u8],
    width: ValueIdWidth,
) -> (Vec<Vec<u8>>, Vec<u8>) {
    let datum = long(payload);
    let out = OutOfLine::new(&datum).expect("a datum");
    let value_id = Oid8::new(value_id);
    let tuples = out
        .chunks(ChunkSize::of(BlockSize::KIB_8, width))
        .map(|(seq, data)| {
            let chunk = Chunk { value_id, seq, data, tid: None };
            let mut tuple = vec![0; chunk.tuple_len(width)];
            chunk.form(width, &mut tuple).expect("there is room");
            tuple
        })
        .collect();
    let relation = if width == ValueIdWidth::Oid8 { TOAST8 } else { TOAST };
    let pointer = out.pointer_of(width, value_id, relation).expect("it is not 0");
    let mut bytes = vec![0; pointer.datum_len()];
    pointer.encode(&mut bytes).expect("there is room");
    (tuples, bytes)
}

pub(crate) fn insert(new: &[u8]) -> Change<'_> {
    Change::Insert { relation: TABLE, new: Some(new), tid: None, flags: InsertFlags::empty() }
}

pub(crate) fn insert_chunk(new: &[u8], width: ValueIdWidth) -> Change<'_> {
    let relation = if width == ValueIdWidth::Oid8 { TOAST8 } else { TOAST };
    Change::Insert { relation, new: Some(new), tid: None, flags: InsertFlags::ON_TOAST_RELATION }
}

/// Hands records to a buffer, each at a later place in the log.
pub(crate) struct Feeder<'f, L: Layout, S, C, O> {
    pub(crate) buffer: &'f mut ReorderBuffer<L, S>,
    pub(crate) catalog: &'f C,
    pub(crate) output: &'f mut O,
    pub(crate) lsn: u64,
}

impl<L: Layout, S: SpillStore, C: Catalog, O: Output<Error = ReorderError>> Feeder<'_, L, S, C, O> {
    pub(crate) fn apply(&mut self, xid: u32, action: Action<'_>) -> Result<(), ReorderError> {
        self.lsn += 8;
        let record = Record { lsn: Lsn::new(self.lsn), xid: Xid::new(xid), action };
        self.buffer.apply(&record, self.catalog, self.output)
    }

    pub(crate) fn change(&mut self, xid: u32, change: Change<'_>) {
        self.apply(xid, Action::Change(change)).expect("a change that is taken");
    }

    pub(crate) fn commit(&mut self, xid: u32) {
        self.apply(xid, Action::Commit { subtransactions: &[] })
            .expect("a commit that goes through");
    }
}

/// Looks at each row that changed, and at nothing else.
pub(crate) struct EachRow<T> {
    pub(crate) seen: T,
    pub(crate) look: fn(&mut T, &mut RowChange<'_>) -> Result<(), ReorderError>,
}

impl<T> Output for EachRow<T> {
    type Error = ReorderError;

    fn begin(&mut self, _: &TransactionInfo) -> Result<(), ReorderError> {
        Ok(())
    }

    fn change(
        &mut self,
        _: &TransactionInfo,
        change: &mut RowChange<'_>,
    ) -> Result<(), ReorderError> {
        (self.look)(&mut self.seen, change)
    }

    fn truncate(&mut self, _: &TransactionInfo, _: &Truncate<'_>) -> Result<(), ReorderError> {
        Ok(())
    }

    fn message(
        &mut self,
        _: Option<&TransactionInfo>,
        _: &Message<'_>,
    ) -> Result<(), ReorderError> {
        Ok(())
    }

    fn commit(&mut self, _: &TransactionInfo) -> Result<(), ReorderError> {
        Ok(())
    }
}

/// What text comes of some records.
pub(crate) fn text_of<L: Layout, S: SpillStore, C: Catalog>(
    buffer: &mut ReorderBuffer<L, S>,
    catalog: &C,
    feed: impl FnOnce(&mut Feeder<'_, L, S, C, TextOutput<&mut dyn FnMut(&str)>>),
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut push = |line: &str| lines.push(line.to_owned());
    let mut output = TextOutput::new(TextOptions::default(), &mut push as &mut dyn FnMut(&str));
    feed(&mut Feeder { buffer, catalog, output: &mut output, lsn: 1000 });
    lines
}
