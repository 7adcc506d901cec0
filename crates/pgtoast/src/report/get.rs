//! One value: what it is, and its bytes piece by piece.
use serde::Serialize;

use crate::base::ItemPointer;
use crate::datadir::{Database, DatadirError, Relation, ToastChunks};
use crate::page::{AttributeLen, TupleDescriptor, Value};
use crate::toast::{
    ByteSlice, CharSlice, ChunkPlan, Detoaster, ReadError, ToastError, column_compression,
    column_size, column_toast_chunk_id, raw_len,
};
use crate::varlena::{ToastPointer, Varlena};

use super::row_text::TextKind;
use super::values::{Form, chunk_size_of, column_number};
use super::{Budget, RelationName};

/// What a value is.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ValueReport {
    /// The table.
    pub table: RelationName,
    /// The row: block and item, as SQL's `ctid` has them.
    pub tid: String,
    /// Whether the row version is one that a new session would not see; null if that cannot be found out.
    pub is_dead: Option<bool>,
    /// The column's name.
    pub column: String,
    /// The column's number, from 1.
    pub column_number: u16,
    /// The name of the column's type, if the catalog has it.
    pub type_name: Option<String>,
    /// Whether the value is null; then there are no bytes.
    pub is_null: bool,
    /// How the value is stored; null for nulls and for types of fixed length.
    pub form: Option<Form>,
    /// Its id in the TOAST relation, if it is there.
    pub value_id: Option<u64>,
    /// How many bytes the value has.
    pub raw_bytes: u64,
    /// How many it takes where it is stored.
    pub stored_bytes: u64,
    /// How it is compressed, if it is.
    pub method: Option<String>,
    /// How many chunks it has.
    pub chunks: Option<u32>,
}

/// A value that was found, and can be read.
#[derive(Debug)]
pub struct FoundValue<'d> {
    /// What it is.
    pub report: ValueReport,
    /// How its bytes become text; `None` if this crate does not know.
    pub text_kind: Option<TextKind>,
    /// Its bytes as the row has them; at most a page. `None` for null.
    datum: Option<Vec<u8>>,
    is_varlena: bool,
    database: &'d Database,
    relation: &'d Relation,
}

/// Why a value could not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum FindError {
    /// The table has no such column.
    Column,
    /// There is no row version at that place.
    NoTuple { tid: ItemPointer },
    /// The row cannot be read as far as the column.
    Tuple { tid: ItemPointer, error: crate::page::TupleError },
    /// The directory cannot be read there.
    Datadir(DatadirError),
    /// The value's header makes no sense.
    Toast(ToastError),
}

impl core::fmt::Display for FindError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Column => f.write_str("the table has no such column"),
            Self::NoTuple { tid } => write!(f, "there is no row version at {tid}"),
            Self::Tuple { tid, error } => write!(f, "row {tid}: {error}"),
            Self::Datadir(error) => error.fmt(f),
            Self::Toast(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FindError {}

impl From<DatadirError> for FindError {
    fn from(error: DatadirError) -> Self {
        Self::Datadir(error)
    }
}

/// What of a value is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Whole,
    /// Some bytes.
    Bytes(ByteSlice),
    /// Some characters of a text in UTF-8.
    Chars(CharSlice),
}

/// Why reading ended early: reading, or the taker of what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError<E> {
    /// The value cannot be read.
    Read(ReadError<DatadirError>),
    /// The taker has failed.
    Take(E),
}

impl<E> From<ReadError<DatadirError>> for StreamError<E> {
    fn from(error: ReadError<DatadirError>) -> Self {
        Self::Read(error)
    }
}

impl<'d> FoundValue<'d> {
    /// Looks at a row, dead or alive. `column` is a name or a number.
    ///
    /// # Errors
    /// [`FindError`]
    pub fn find(
        database: &'d Database,
        relation: &'d Relation,
        tid: ItemPointer,
        column: &str,
    ) -> Result<Self, FindError> {
        let table = database.table(relation)?;
        let number = column_number(&table, column).ok_or(FindError::Column)?;
        let described = table.columns().get(number).ok_or(FindError::Column)?;
        let attributes = table.columns().attributes();
        let descriptor =
            TupleDescriptor::new(&attributes).map_err(|error| FindError::Tuple { tid, error })?;
        let mut buffer = Vec::new();
        let row = table.fetch(tid, &mut buffer)?.ok_or(FindError::NoTuple { tid })?;
        let is_visible = table.transactions().reader().is_visible(row.tuple.header());
        let failed = |error| FindError::Tuple { tid: row.tid, error };
        let attribute = row.deform(descriptor).map_err(failed)?.nth(usize::from(number - 1));
        let attribute = attribute.ok_or(FindError::Column)?.map_err(failed)?;
        let datum = match attribute.value {
            Value::Null | Value::Missing(None) => None,
            Value::Missing(Some(bytes)) => Some(bytes),
            Value::Stored(datum) => Some(datum.bytes),
        };
        let is_varlena = described.len == AttributeLen::Varlena;
        let mut report = ValueReport {
            table: RelationName::of(database, relation),
            tid: row.tid.to_string(),
            is_dead: is_visible.ok().map(|is_visible| !is_visible),
            column: described.name.clone(),
            column_number: number,
            type_name: database.type_of(described.type_oid).map(|found| found.name.clone()),
            is_null: datum.is_none(),
            form: None,
            value_id: None,
            raw_bytes: datum.map_or(0, |datum| datum.len() as u64),
            stored_bytes: datum.map_or(0, |datum| datum.len() as u64),
            method: None,
            chunks: None,
        };
        if let Some(bytes) = datum.filter(|_| is_varlena) {
            report.describe(bytes, database, relation).map_err(FindError::Toast)?;
        }
        let text_kind = TextKind::of(database, described.type_oid);
        let datum = datum.map(<[u8]>::to_vec);
        Ok(Self { report, text_kind, datum, is_varlena, database, relation })
    }

    /// Gives `take` the value's bytes, piece by piece; nothing if it is null.
    ///
    /// Of a value out of line all chunks are looked for before the first piece is given. A piece may still
    /// turn out to be broken; then what was given before is right and the error says so.
    ///
    /// # Errors
    /// [`StreamError`]
    pub fn stream<E>(
        &self,
        part: Part,
        budget: &Budget<'_>,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), StreamError<E>> {
        let Some(bytes) = &self.datum else { return Ok(()) };
        if !self.is_varlena {
            let slice = match part {
                Part::Bytes(slice) => slice.of(bytes.len()),
                Part::Whole | Part::Chars(_) => 0..bytes.len(),
            };
            return take(&bytes[slice]).map_err(StreamError::Take);
        }
        let toasted = |error: ToastError| StreamError::Read(ReadError::Toast(error));
        let (datum, _) = Varlena::parse(bytes, 0).map_err(|error| toasted(error.into()))?;
        let memory = budget.memory_bytes;
        let detoaster = self.database.detoaster(self.relation, memory);
        let mut detoaster =
            detoaster.map_err(|error| StreamError::Read(ReadError::Source(error)))?;
        let total = raw_len(&datum).map_err(|error| toasted(error.into()))?;
        match (part, &datum) {
            (Part::Chars(slice), _) => {
                let text = detoaster.slice_chars(&datum, slice)?;
                take(text.as_bytes()).map_err(StreamError::Take)
            }
            (part, Varlena::External(pointer)) if !pointer.is_compressed() => {
                let range = match part {
                    Part::Bytes(slice) => slice.of(total),
                    _ => 0..total,
                };
                if range == (0..total) {
                    self.all_there(&mut detoaster, pointer)?;
                }
                let mut offset = range.start;
                while offset < range.end {
                    let len = (range.end - offset).min(PIECE_BYTES);
                    let piece = detoaster.slice_bytes(&datum, ByteSlice::new(offset, len))?;
                    take(piece.as_bytes()).map_err(StreamError::Take)?;
                    offset += len;
                }
                Ok(())
            }
            (Part::Bytes(slice), _) => {
                let value = detoaster.slice_bytes(&datum, slice)?;
                take(value.as_bytes()).map_err(StreamError::Take)
            }
            (Part::Whole, _) => {
                let value = detoaster.detoast(&datum)?;
                take(value.as_bytes()).map_err(StreamError::Take)
            }
        }
    }

    /// Whether every chunk is there once, and none too many; what is in them shows when they are read.
    fn all_there(
        &self,
        detoaster: &mut Detoaster<ToastChunks>,
        pointer: &ToastPointer,
    ) -> Result<(), ReadError<DatadirError>> {
        let toast = self.database.toast_of(self.relation);
        let plan = ChunkPlan::new(pointer, chunk_size_of(self.database, toast))?;
        let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
        let chunk_count = plan.chunk_count();
        let raw_len = pointer.raw_payload_len().map_err(ToastError::from)?;
        if pointer.stored_len() != raw_len {
            let stored_len = pointer.stored_len();
            return Err(ToastError::PointerLengths { value_id, raw_len, stored_len }.into());
        }
        let mut expected = 0;
        for (found, tid) in detoaster.source().places(value_id) {
            if u32::try_from(found) != Ok(expected) {
                let is_gap = i64::from(found) > i64::from(expected);
                return Err(if is_gap && expected < chunk_count {
                    ToastError::MissingChunk { value_id, chunk: expected, chunk_count }.into()
                } else {
                    ToastError::ChunkNumber { value_id, found, expected, tid: Some(tid) }.into()
                });
            }
            if expected >= chunk_count {
                let tid = Some(tid);
                return Err(ToastError::ChunkNumber { value_id, found, expected, tid }.into());
            }
            expected += 1;
        }
        if expected < chunk_count {
            return Err(ToastError::MissingChunk { value_id, chunk: expected, chunk_count }.into());
        }
        Ok(())
    }
}

/// How much of a value is held at once: many chunks, so that one read fetches several blocks.
const PIECE_BYTES: usize = 1 << 20;

impl ValueReport {
    fn describe(
        &mut self,
        bytes: &[u8],
        database: &Database,
        relation: &Relation,
    ) -> Result<(), ToastError> {
        let (datum, _) = Varlena::parse(bytes, 0)?;
        self.form = Some(Form::of(&datum));
        self.value_id = column_toast_chunk_id(&datum).map(|id| id.get());
        self.raw_bytes = raw_len(&datum)? as u64;
        self.stored_bytes = column_size(&datum) as u64;
        self.method = column_compression(&datum)?.map(|method| method.name().to_owned());
        if let Varlena::External(pointer) = &datum {
            let chunk_size = chunk_size_of(database, database.toast_of(relation));
            self.chunks = ChunkPlan::new(pointer, chunk_size).ok().map(|plan| plan.chunk_count());
        }
        Ok(())
    }
}
