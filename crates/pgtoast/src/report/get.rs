//! One value: what it is, and its bytes piece by piece.
use serde::Serialize;

use crate::base::{ItemPointer, Oid};
use crate::codec::{COMPRESSION_INFO_LEN, CodecError, CompressionMethod, maximum_raw_len};
use crate::datadir::{Database, DatadirError, Relation, ToastChunks};
use crate::page::{AttributeLen, TupleDescriptor, Value};
use crate::toast::{
    ByteSlice, CharSlice, ChunkPlan, Detoaster, ReadError, ToastError, column_compression,
    column_size, column_toast_chunk_id, raw_len,
};
use crate::varlena::{
    CompressionInfo, LONG_HEADER_LEN, Oid8Pointer, OidPointer, ToastPointer, Varlena,
};

use super::row_text::TextKind;
use super::stream_decoder::{DecodeError, StreamDecoder};
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
    /// A value of up to 8 MiB is known to be sound before its first piece is given. Of a larger one all chunks are
    /// looked for first; a later piece may still turn out to be broken, and the error then comes behind what is right.
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
        if let (Part::Whole, Varlena::External(pointer)) = (part, &datum) {
            let stored = match pointer.is_compressed() {
                true => stored_pointer(pointer).map_err(toasted)?,
                false => *pointer,
            };
            self.all_there(&mut detoaster, &stored)?;
        }
        match (part, &datum) {
            (Part::Chars(slice), _) => {
                let text = detoaster.slice_chars(&datum, slice)?;
                take(text.as_bytes()).map_err(StreamError::Take)
            }
            (Part::Bytes(slice), Varlena::External(pointer)) if !pointer.is_compressed() => {
                pieces(&mut detoaster, pointer, slice.of(total), take)
            }
            (Part::Bytes(slice), _) => {
                let value = detoaster.slice_bytes(&datum, slice)?;
                take(value.as_bytes()).map_err(StreamError::Take)
            }
            (Part::Whole, Varlena::External(pointer)) if total > HELD_BYTES => {
                match pointer.compression().map_err(|error| toasted(error.into()))? {
                    None => pieces(&mut detoaster, pointer, 0..total, take),
                    Some(method) => decompressed(&mut detoaster, pointer, method, take),
                }
            }
            (Part::Whole, _) => {
                let value = detoaster.detoast(&datum)?;
                value.as_bytes().chunks(PIECE_BYTES).try_for_each(take).map_err(StreamError::Take)
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
/// Values up to here are held whole, so that they are known to be sound before a byte of them is given.
const HELD_BYTES: usize = 8 << 20;

/// Gives `take` a part of a value that is not compressed, piece by piece.
fn pieces<E>(
    detoaster: &mut Detoaster<ToastChunks>,
    pointer: &ToastPointer,
    range: core::ops::Range<usize>,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), StreamError<E>> {
    let datum = Varlena::External(*pointer);
    let mut offset = range.start;
    while offset < range.end {
        let len = (range.end - offset).min(PIECE_BYTES);
        let piece = detoaster.slice_bytes(&datum, ByteSlice::new(offset, len))?;
        take(piece.as_bytes()).map_err(StreamError::Take)?;
        offset += len;
    }
    Ok(())
}

/// Decompresses a value of which not even the stream is held.
fn decompressed<E>(
    detoaster: &mut Detoaster<ToastChunks>,
    pointer: &ToastPointer,
    method: CompressionMethod,
    take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), StreamError<E>> {
    let toasted = |error: ToastError| StreamError::Read(ReadError::Toast(error));
    let raw_len = pointer.raw_payload_len().map_err(|error| toasted(error.into()))?;
    let value_id = pointer.value_id().ok_or(toasted(ToastError::Direct))?;
    let stored_len = pointer.stored_len();
    let limit = maximum_raw_len(method, stored_len.saturating_sub(COMPRESSION_INFO_LEN));
    if raw_len > limit {
        let stream_len = stored_len;
        return Err(toasted(CodecError::Expansion { stream_len, raw_len, limit }.into()));
    }
    let stored = stored_pointer(pointer).map_err(toasted)?;
    let expected = CompressionInfo::new(raw_len, method);
    let expected = expected.map_err(|error| toasted(error.into()))?.word();
    let start = 0..COMPRESSION_INFO_LEN.min(stored_len);
    let mut found = Vec::new();
    pieces(detoaster, &stored, start, &mut |piece| {
        found.extend_from_slice(piece);
        Ok::<(), E>(())
    })?;
    let found = found.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    if found != expected {
        return Err(toasted(ToastError::CompressionInfo { value_id, found, expected }));
    }
    let mut decoder = StreamDecoder::new(method, raw_len);
    let failed = |error| match error {
        DecodeError::Codec(error) => toasted(error.into()),
        DecodeError::Take(error) => StreamError::Take(error),
    };
    // A failure of the decoder has to come through the reader of the pieces.
    let pushed = pieces(detoaster, &stored, COMPRESSION_INFO_LEN..stored_len, &mut |piece| {
        decoder.push(piece, take)
    });
    match pushed {
        Ok(()) => decoder.finish(take).map_err(failed),
        Err(StreamError::Read(error)) => Err(StreamError::Read(error)),
        Err(StreamError::Take(error)) => Err(failed(error)),
    }
}

/// The pointer of a value that is what is stored of another: its compressed bytes as they are.
fn stored_pointer(pointer: &ToastPointer) -> Result<ToastPointer, ToastError> {
    let stored_len = u32::try_from(pointer.stored_len()).unwrap_or(u32::MAX);
    let info = CompressionInfo::from_word(stored_len);
    let header = u32::try_from(LONG_HEADER_LEN).unwrap_or_default();
    let raw_len = i32::try_from(stored_len.saturating_add(header)).unwrap_or(i32::MAX);
    let (value_id, relation) = (pointer.value_id(), pointer.toast_rel_id());
    let value_id = value_id.ok_or(ToastError::Direct)?;
    match pointer {
        ToastPointer::Oid(_) => {
            let id = Oid::new(u32::try_from(value_id.get()).unwrap_or(u32::MAX));
            Ok(ToastPointer::Oid(OidPointer::new(raw_len, info, id, relation)))
        }
        ToastPointer::Oid8(_) => {
            Ok(ToastPointer::Oid8(Oid8Pointer::new(raw_len, info, value_id, relation)))
        }
        ToastPointer::Direct(_) => Err(ToastError::Direct),
    }
}

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
