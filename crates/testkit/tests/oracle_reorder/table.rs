//! A table of a server's, row by row as it is stored, and what each change of it puts into the log.
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use anyhow::{Context as _, Result};
use pgtoast_base::{BlockSize, Oid, Oid8};
use pgtoast_page::{AttributeDescriptor, HeapTuple, HeapTupleMut, Storage, TupleDescriptor, Value};
use pgtoast_reorder::{Column, InsertFlags, Relation, ReplicaIdentity};
use pgtoast_toast::{
    Chunk, ChunkSize, ChunkSource, Detoaster, ReadError, RowToaster, ToastRelation, Toaster,
    ValueIdWidth, ValueKey,
};
use pgtoast_varlena::{Kind as DatumKind, ToastPointer};

use crate::log::OwnedAction;
use crate::values::{Cell, Kind, TEXT};

/// A column as it was declared.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_dropped: bool,
    pub(crate) is_external: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<Declared>,
    pub(crate) identity: ReplicaIdentity,
    /// The columns of the key, or of the index that stands for it.
    pub(crate) key: Vec<usize>,
    pub(crate) oid: Oid,
    pub(crate) toast_oid: Oid,
    attributes: Vec<AttributeDescriptor<'static>>,
    pub(crate) rows: BTreeMap<i32, Vec<Option<Vec<u8>>>>,
    toast: Toast,
}

/// The TOAST relation: what is in it, and what was done since somebody looked.
#[derive(Clone, Debug, Default)]
struct Toast {
    next_id: u64,
    values: BTreeMap<u64, Vec<Vec<u8>>>,
    inserted: Vec<Vec<u8>>,
    deleted: usize,
}

impl Table {
    pub(crate) fn new(
        number: u32,
        schema: &str,
        name: &str,
        columns: Vec<Declared>,
        identity: ReplicaIdentity,
        key: Vec<usize>,
    ) -> Self {
        let attributes = columns
            .iter()
            .map(|column| {
                let mut attribute = column.kind.builtin.attribute;
                attribute.is_dropped = column.is_dropped;
                if column.is_external {
                    attribute.storage = Storage::External;
                }
                attribute
            })
            .collect();
        Self {
            schema: schema.to_owned(),
            name: name.to_owned(),
            columns,
            identity,
            key,
            oid: Oid::new(20_000 + 2 * number),
            toast_oid: Oid::new(20_001 + 2 * number),
            attributes,
            rows: BTreeMap::new(),
            toast: Toast { next_id: u64::from(number) * 1_000_000 + 1, ..Toast::default() },
        }
    }

    /// As SQL names it.
    pub(crate) fn sql_name(&self) -> String {
        format!("\"{}\".\"{}\"", self.schema, self.name)
    }

    /// What makes it on a server.
    pub(crate) fn create_sql(&self) -> String {
        let table = self.sql_name();
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| format!("\"{}\" {}", column.name, column.kind.sql))
            .collect();
        let mut sql = format!("CREATE TABLE {table} ({});", columns.join(", "));
        for column in &self.columns {
            if column.is_external {
                sql +=
                    &format!("ALTER TABLE {table} ALTER \"{}\" SET STORAGE EXTERNAL;", column.name);
            }
            if column.is_dropped {
                sql += &format!("ALTER TABLE {table} DROP \"{}\";", column.name);
            }
        }
        let key: Vec<_> =
            self.key.iter().map(|at| format!("\"{}\"", self.columns[*at].name)).collect();
        let key = key.join(", ");
        sql + &match self.identity {
            ReplicaIdentity::Default if self.key.is_empty() => String::new(),
            ReplicaIdentity::Default => format!("ALTER TABLE {table} ADD PRIMARY KEY ({key});"),
            ReplicaIdentity::Full => format!("ALTER TABLE {table} REPLICA IDENTITY FULL;"),
            ReplicaIdentity::Nothing => format!("ALTER TABLE {table} REPLICA IDENTITY NOTHING;"),
            ReplicaIdentity::Index => {
                let not_null: Vec<_> = self
                    .key
                    .iter()
                    .map(|at| format!("ALTER \"{}\" SET NOT NULL", self.columns[*at].name))
                    .collect();
                let index = format!("{}_identity", self.name);
                format!(
                    "ALTER TABLE {table} {};CREATE UNIQUE INDEX \"{index}\" ON {table} ({key});\
                     ALTER TABLE {table} REPLICA IDENTITY USING INDEX \"{index}\";",
                    not_null.join(", ")
                )
            }
        }
    }

    /// What a decoder has to know of it.
    pub(crate) fn relations(&self) -> Result<[Relation; 2]> {
        let columns = self.columns.iter().zip(&self.attributes).map(|(column, attribute)| {
            let Declared { name, kind, .. } = column;
            let mut made = match kind.domain {
                Some(domain) => Column::of_domain(name, Oid::new(19_000), domain, kind.builtin),
                None => Column::new(name, kind.builtin),
            };
            made.attribute = *attribute;
            made
        });
        let table = Relation::table(self.oid, &self.schema, &self.name, columns.collect())?;
        let toast = Relation::toast(self.toast_oid, ValueIdWidth::Oid);
        Ok([table.with_replica_identity(self.identity), toast])
    }

    /// Columns that SQL knows.
    pub(crate) fn visible(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns.len()).filter(|at| !self.columns[*at].is_dropped)
    }

    /// A new row; its records, but for what says whether it is the last of its command.
    pub(crate) fn insert(
        &mut self,
        id: i32,
        cells: &[Option<Cell>],
    ) -> Result<(Vec<OwnedAction>, Vec<u8>)> {
        let new: Vec<_> =
            cells.iter().map(|cell| cell.as_ref().map(|cell| cell.datum.clone())).collect();
        let (toast, tuple) = self.store(&[], &new)?;
        self.rows.insert(id, self.deform(&tuple)?);
        Ok((toast, tuple))
    }

    /// A row in which some columns are set anew.
    pub(crate) fn update(
        &mut self,
        id: i32,
        new_id: i32,
        set: &BTreeMap<usize, Option<Cell>>,
    ) -> Result<Vec<OwnedAction>> {
        let old = self.rows.get(&id).context("the row is there")?.clone();
        let mut new = old.clone();
        for (at, cell) in set {
            new[*at] = cell.as_ref().map(|cell| cell.datum.clone());
        }
        let changes_key = self.key.iter().any(|at| old[*at] != new[*at]);
        let old_tuple = match self.identity {
            ReplicaIdentity::Full => Some(self.flattened(&old)?),
            ReplicaIdentity::Nothing => None,
            _ if changes_key => Some(self.key_tuple(&old)?),
            _ => None,
        };
        let (mut actions, tuple) = self.store(&old, &new)?;
        self.rows.remove(&id);
        self.rows.insert(new_id, self.deform(&tuple)?);
        actions.push(OwnedAction::Update { relation: self.oid, old: old_tuple, new: tuple });
        Ok(actions)
    }

    pub(crate) fn delete(&mut self, id: i32) -> Result<Vec<OwnedAction>> {
        let old = self.rows.remove(&id).context("the row is there")?;
        let old_tuple = match self.identity {
            ReplicaIdentity::Full => Some(self.flattened(&old)?),
            ReplicaIdentity::Nothing => None,
            _ if self.key.is_empty() => None,
            _ => Some(self.key_tuple(&old)?),
        };
        let mut actions = vec![OwnedAction::Delete { relation: self.oid, old: old_tuple }];
        let Self { attributes, toast, toast_oid, .. } = self;
        let descriptor = TupleDescriptor::new(attributes)?;
        let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, *toast_oid);
        toaster.delete(&values(&old), toast)?;
        actions.extend(self.toast_actions());
        Ok(actions)
    }

    pub(crate) fn truncate(&mut self) {
        self.rows.clear();
        self.toast.values.clear();
    }

    fn store(
        &mut self,
        old: &[Option<Vec<u8>>],
        new: &[Option<Vec<u8>>],
    ) -> Result<(Vec<OwnedAction>, Vec<u8>)> {
        let Self { attributes, toast, toast_oid, .. } = self;
        let descriptor = TupleDescriptor::new(attributes)?;
        let mut toaster = RowToaster::new(Toaster::new(BlockSize::KIB_8), descriptor, *toast_oid);
        let row = toaster.update(&values(old), &values(new), toast)?;
        let tuple = row.tuple.bytes().to_vec();
        Ok((self.toast_actions(), tuple))
    }

    fn toast_actions(&mut self) -> Vec<OwnedAction> {
        let (relation, flags) = (self.toast_oid, InsertFlags::ON_TOAST_RELATION);
        let inserted = core::mem::take(&mut self.toast.inserted);
        let mut actions: Vec<_> =
            inserted.into_iter().map(|new| OwnedAction::Insert { relation, new, flags }).collect();
        let deleted = core::mem::take(&mut self.toast.deleted);
        actions.extend((0..deleted).map(|_| OwnedAction::Delete { relation, old: None }));
        actions
    }

    fn deform(&self, tuple: &[u8]) -> Result<Vec<Option<Vec<u8>>>> {
        let attributes = self.attributes.clone();
        let mut values = vec![Value::Null; attributes.len()];
        HeapTuple::parse(tuple)?.deform_into(TupleDescriptor::new(&attributes)?, &mut values)?;
        Ok(values.iter().map(|value| value.bytes().map(<[u8]>::to_vec)).collect())
    }

    fn form(&self, row: &[Option<Vec<u8>>]) -> Result<Vec<u8>> {
        let (descriptor, values) = (TupleDescriptor::new(&self.attributes)?, values(row));
        let mut tuple = vec![0; descriptor.tuple_len(&values)?];
        descriptor.form(&values, &mut tuple)?;
        Ok(tuple)
    }

    /// Each row's number, and how long its tuple is.
    pub(crate) fn lengths(&self) -> Result<Vec<(i32, i32)>> {
        let len = |row| anyhow::Ok(i32::try_from(self.form(row)?.len())?);
        self.rows.iter().map(|(id, row)| Ok((*id, len(row)?))).collect()
    }

    fn key_tuple(&self, row: &[Option<Vec<u8>>]) -> Result<Vec<u8>> {
        let only_key = |(at, value): (usize, &Option<Vec<u8>>)| {
            if self.key.contains(&at) { value.clone() } else { None }
        };
        self.form(&row.iter().enumerate().map(only_key).collect::<Vec<_>>())
    }

    /// The whole row with its values fetched, compressed ones as they are.
    fn flattened(&mut self, row: &[Option<Vec<u8>>]) -> Result<Vec<u8>> {
        let mut row = row.to_vec();
        for (value, column) in row.iter_mut().zip(&self.attributes) {
            let Some(bytes) = value else { continue };
            let is_varlena = column.len == pgtoast_page::AttributeLen::Varlena;
            if is_varlena && DatumKind::of(bytes[0]) == DatumKind::Pointer {
                let pointer = ToastPointer::parse(bytes, 0)?;
                let mut detoaster = Detoaster::new(&mut self.toast, ChunkSize::default());
                let mut datum = Vec::new();
                detoaster.fetch_datum(&pointer, &mut datum)?;
                *bytes = datum;
            }
        }
        self.form(&row)
    }
}

fn values(row: &[Option<Vec<u8>>]) -> Vec<Value<'_>> {
    row.iter().map(|value| value.as_deref().map_or(Value::Null, Value::stored)).collect()
}

impl ChunkSource for Toast {
    type Error = Infallible;

    fn visit(
        &mut self,
        key: ValueKey,
        _chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        for (seq, data) in (0..).zip(self.values.get(&key.value_id.get()).into_iter().flatten()) {
            let chunk = Chunk { value_id: key.value_id, seq, data, tid: None };
            if visit(&chunk).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl ToastRelation for Toast {
    fn new_value_id(&mut self) -> Result<Oid8, Infallible> {
        self.next_id += 1;
        Ok(Oid8::new(self.next_id))
    }

    fn insert_chunk(
        &mut self,
        chunk: &Chunk<'_>,
        tuple: HeapTupleMut<'_>,
    ) -> Result<(), Infallible> {
        self.values.entry(chunk.value_id.get()).or_default().push(chunk.data.to_vec());
        self.inserted.push(tuple.bytes().to_vec());
        Ok(())
    }

    fn delete_value(&mut self, pointer: &ToastPointer) -> Result<(), Infallible> {
        let id = pointer.value_id().map_or(0, Oid8::get);
        // An older version of the row may still be asked for; only the number of chunks is of use.
        self.deleted += self.values.get(&id).map_or(0, Vec::len);
        Ok(())
    }

    fn take_back(&mut self, _inserted: &[ToastPointer], _deleted: &[ToastPointer]) {}
}

/// A column of text, to begin a list of columns with.
pub(crate) fn declared(name: &str, kind: Kind) -> Declared {
    Declared { name: name.to_owned(), kind, is_dropped: false, is_external: false }
}

/// One that was dropped before anything was stored in it.
pub(crate) fn dropped(name: &str) -> Declared {
    Declared { is_dropped: true, ..declared(name, TEXT) }
}
