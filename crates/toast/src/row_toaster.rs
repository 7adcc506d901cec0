//! A row on its way into a table: one call for all that TOAST does about it.
//!
//! ```text
//! new values ──┐                           ┌─ kept ──────────────────────────────┐
//! old values ──┴─ carried over, fetched ──▶│  compressed ────────────────────────┼─▶ tuple
//!                                  decided └─ moved out ─▶ pointer ──────────────┘
//!                                                └─▶ chunk, chunk, … ────────────┐
//!                 no longer pointed to ─────────────────────────▶ deleted ───────┴─▶ TOAST relation
//! ```
//! Whatever can be refused is refused before the relation is written to: the tuple is made first, then its
//! chunks go in, then the chunks that nothing points to any more go.
//!
//! Source: `heaptoast.c`, `heap_toast_insert_or_update` and `heap_toast_delete` (REL_18).
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use pgtoast_base::Oid;
use pgtoast_codec::{CompressionMethod, DatumCompressor};
use pgtoast_page::{HeapTupleMut, TupleDescriptor, TupleError, Value};
use pgtoast_varlena::{ToastPointer, Varlena, encode_long};

use crate::{
    AttributeUpdate, Chunk, ChunkSize, Decision, Detoaster, NewValue, OutOfLine, Step,
    ToastAttribute, ToastRelation, Toaster, Trigger, ValueIdWidth, WriteError,
};

/// Toasts the rows of one table, and keeps its buffers from row to row: once they have grown enough, only
/// fetching asks for memory.
pub struct RowToaster<'d> {
    toaster: Toaster,
    descriptor: TupleDescriptor<'d>,
    toast_rel_id: Oid,
    chunk_size: ChunkSize,
    methods: &'d [CompressionMethod],
    row: RowBuffers,
}

/// A row that was toasted.
#[derive(Debug)]
pub struct ToastedRow<'t> {
    /// Its tuple, which fits a page. Of its header, what concerns transactions is left, as by
    /// [`TupleDescriptor::form`].
    pub tuple: HeapTupleMut<'t>,
    /// What became of each of its attributes.
    pub attributes: &'t [ToastAttribute],
}

impl<'d> RowToaster<'d> {
    /// For a table with these rules and columns, whose TOAST relation is `toast_rel_id`; nothing looks at
    /// that if the rules say that there is none. Columns are compressed with pglz, and chunks have the size
    /// that a server gives them.
    #[must_use]
    pub fn new(toaster: Toaster, descriptor: TupleDescriptor<'d>, toast_rel_id: Oid) -> Self {
        let chunk_size = ChunkSize::of(toaster.block_size(), toaster.value_ids());
        Self {
            toaster,
            descriptor,
            toast_rel_id,
            chunk_size,
            methods: &[],
            row: RowBuffers::default(),
        }
    }

    /// With a compression method for each column; those beyond the end of `methods` have pglz.
    #[doc(alias = "attcompression")]
    #[must_use]
    pub fn with_methods(mut self, methods: &'d [CompressionMethod]) -> Self {
        self.methods = methods;
        self
    }

    /// With chunks of another size, as in clusters that were upgraded from other builds.
    #[must_use]
    pub fn with_chunk_size(mut self, chunk_size: ChunkSize) -> Self {
        self.chunk_size = chunk_size;
        self
    }

    /// With the buffers of another, which need not be of the same table.
    #[must_use]
    pub fn with_buffers(mut self, buffers: RowBuffers) -> Self {
        self.row = buffers;
        self
    }

    /// Its buffers, for another.
    #[must_use]
    pub fn into_buffers(self) -> RowBuffers {
        self.row
    }

    /// Makes the tuple of a new row, and writes what goes out of line to `relation`. Values may be
    /// pointers, to values that are then stored once more. There may be fewer values than columns; for
    /// dropped columns a server stores null.
    ///
    /// # Errors
    /// [`WriteError::Relation`] if the relation fails. Else a [`ToastError`](crate::ToastError):
    /// [`Tuple`](crate::ToastError::Tuple) for bytes that are no value of their column,
    /// [`RowTooBig`](crate::ToastError::RowTooBig), [`ValueId`](crate::ToastError::ValueId), and what can be
    /// wrong with a value that is fetched. Nothing has been written then, or
    /// [`take_back`](ToastRelation::take_back) was called for it.
    #[doc(alias = "heap_toast_insert_or_update")]
    pub fn insert<R: ToastRelation>(
        &mut self,
        new: &[Value<'_>],
        relation: &mut R,
    ) -> Result<ToastedRow<'_>, WriteError<R::Error>> {
        self.update(&[], new, relation)
    }

    /// As [`insert`](Self::insert), in place of a row whose values were `old`. A pointer that is the same
    /// in every byte is carried over, and its chunks are not touched; those of the others are deleted.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    #[doc(alias = "heap_toast_insert_or_update")]
    pub fn update<R: ToastRelation>(
        &mut self,
        old: &[Value<'_>],
        new: &[Value<'_>],
        relation: &mut R,
    ) -> Result<ToastedRow<'_>, WriteError<R::Error>> {
        self.row.clear();
        self.descriptor.tuple_len(new)?; // which looks at every value
        let has_external = self.take_in(old, new, relation)?;
        let trigger = if has_external { Trigger::External } else { Trigger::Length };
        let tuple_len = self.row.decide(&self.toaster, trigger, new)?;
        self.give_ids(new, relation)?;
        self.row.form(self.descriptor, tuple_len, new)?;
        self.row.write(self.toaster.value_ids(), self.chunk_size, new, relation)?;
        let RowBuffers { tuple, attributes, .. } = &mut self.row;
        Ok(ToastedRow { tuple: HeapTupleMut::new(&mut tuple[..tuple_len])?, attributes })
    }

    /// Deletes the values out of line of a row that goes for good.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    #[doc(alias = "heap_toast_delete")]
    pub fn delete<R: ToastRelation>(
        &mut self,
        old: &[Value<'_>],
        relation: &mut R,
    ) -> Result<(), WriteError<R::Error>> {
        self.row.clear();
        self.take_in(old, &[], relation)?;
        self.row.write(self.toaster.value_ids(), self.chunk_size, &[], relation)
    }

    /// Notes what every attribute is and which old values are to be deleted, and fetches what is elsewhere.
    /// Says whether a value of either row is out of line.
    fn take_in<R: ToastRelation>(
        &mut self,
        old: &[Value<'_>],
        new: &[Value<'_>],
        relation: &mut R,
    ) -> Result<bool, WriteError<R::Error>> {
        let columns = self.descriptor.attributes();
        if old.len() > columns.len() {
            let stored = u16::try_from(old.len()).unwrap_or(u16::MAX);
            return Err(TupleError::AttributeCount { stored, table: columns.len() }.into());
        }
        let mut has_external = false;
        for (index, column) in columns.iter().take(old.len().max(new.len())).enumerate() {
            let old = old.get(index).copied().unwrap_or_default();
            let given = new.get(index).copied().unwrap_or_default();
            let update = AttributeUpdate::new(column, &old, &given)?;
            has_external |= update.delete.is_some() || update.new != NewValue::AsItIs;
            self.row.deleted.extend(update.delete);
            if index < new.len() {
                let fetched = self.fetch(update.new, relation)?;
                let datum = fetched.map(|span| Value::stored(span.of(&self.row.fetched)));
                let method = self.methods.get(index).copied().unwrap_or(CompressionMethod::Pglz);
                let attribute = ToastAttribute::of(column, &datum.unwrap_or(given))?;
                self.row.attributes.push(attribute.with_method(method));
                self.row.places.push(Place { fetched, ..Place::default() });
            }
        }
        Ok(has_external)
    }

    /// A value from elsewhere, as the datum that the row would hold.
    fn fetch<R: ToastRelation>(
        &mut self,
        value: NewValue,
        relation: &mut R,
    ) -> Result<Option<Span>, WriteError<R::Error>> {
        let start = self.row.fetched.len();
        match value {
            NewValue::AsItIs | NewValue::CarriedOver => return Ok(None),
            NewValue::Fetch(pointer) => {
                let mut detoaster = Detoaster::new(relation, self.chunk_size_of(&pointer));
                detoaster.fetch_datum(&pointer, &mut self.row.fetched)?;
            }
            NewValue::FetchRaw(pointer) => {
                let mut detoaster = Detoaster::new(relation, self.chunk_size_of(&pointer));
                let raw = detoaster.detoast(&Varlena::External(pointer))?;
                encode_long(raw.as_bytes(), &mut self.row.fetched)?;
            }
        }
        Ok(Some(Span { start, end: self.row.fetched.len() }))
    }

    /// The chunks of a relation whose ids have another width are of another size.
    fn chunk_size_of(&self, pointer: &ToastPointer) -> ChunkSize {
        let width = match pointer {
            ToastPointer::Oid8(_) => ValueIdWidth::Oid8,
            _ => ValueIdWidth::Oid,
        };
        if width == self.toaster.value_ids() {
            self.chunk_size
        } else {
            ChunkSize::of(self.toaster.block_size(), width)
        }
    }

    /// Makes the pointers to what goes out of line.
    fn give_ids<R: ToastRelation>(
        &mut self,
        new: &[Value<'_>],
        relation: &mut R,
    ) -> Result<(), WriteError<R::Error>> {
        let (width, row) = (self.toaster.value_ids(), &mut self.row);
        for number in 0..row.moved.len() {
            let index = row.moved[number];
            let value = OutOfLine::new(row.datum(new, index))?;
            let value_id = relation.new_value_id().map_err(WriteError::Relation)?;
            let pointer = value.pointer_of(width, value_id, self.toast_rel_id)?;
            let start = row.made.len();
            row.made.resize(start + pointer.datum_len(), 0);
            pointer.encode(&mut row.made[start..])?;
            row.places[index].pointer = Some(Span { start, end: row.made.len() });
            row.inserted.push(pointer);
        }
        Ok(())
    }
}

impl fmt::Debug for RowToaster<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowToaster")
            .field("toaster", &self.toaster)
            .field("descriptor", &self.descriptor)
            .field("toast_rel_id", &self.toast_rel_id)
            .finish_non_exhaustive()
    }
}

/// The buffers in which a [`RowToaster`] makes a row, for those who make toasters more often than rows
/// of one table: what was allocated for one row serves the next, whatever table it is of.
#[derive(Default)]
pub struct RowBuffers {
    /// Made for the first value that is to be compressed: it is large.
    compressor: Option<Box<DatumCompressor>>,
    attributes: Vec<ToastAttribute>,
    /// Where the bytes of each attribute are, if they are not those that were given.
    places: Vec<Place>,
    /// Datums from elsewhere.
    fetched: Vec<u8>,
    /// Compressed datums, and pointers.
    made: Vec<u8>,
    /// The attributes that go out of line, in the order in which that was decided.
    moved: Vec<usize>,
    /// The pointers to those.
    inserted: Vec<ToastPointer>,
    /// What the old row had and the new one has not.
    deleted: Vec<ToastPointer>,
    /// Empty between rows.
    values: Vec<Value<'static>>,
    tuple: Vec<u8>,
    chunk: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    fetched: Option<Span>,
    compressed: Option<Span>,
    pointer: Option<Span>,
}

/// A part of a buffer.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    fn of(self, buffer: &[u8]) -> &[u8] {
        &buffer[self.start..self.end]
    }
}

impl fmt::Debug for RowBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowBuffers").finish_non_exhaustive()
    }
}

impl RowBuffers {
    fn clear(&mut self) {
        self.attributes.clear();
        self.places.clear();
        self.fetched.clear();
        self.made.clear();
        self.moved.clear();
        self.inserted.clear();
        self.deleted.clear();
    }

    fn decide<E>(
        &mut self,
        toaster: &Toaster,
        trigger: Trigger,
        new: &[Value<'_>],
    ) -> Result<usize, WriteError<E>> {
        let Self { compressor, attributes, places, fetched, made, moved, .. } = self;
        let compress = |index: usize, method| {
            let place = &mut places[index];
            let bytes = match place.fetched {
                Some(span) => span.of(fetched),
                None => new[index].bytes()?,
            };
            let (datum, _) = Varlena::parse(bytes, 0).ok()?;
            let start = made.len();
            let compressor = compressor.get_or_insert_default();
            let len = compressor.compress(method, &datum, made)?;
            place.compressed = Some(Span { start, end: made.len() });
            Some(len)
        };
        let note_moves = |step| {
            if let Step::MovedOut { attribute, .. } = step {
                moved.push(attribute);
            }
        };
        Ok(toaster.decide(attributes, trigger, compress, note_moves).fits()?)
    }

    /// An attribute as it was decided to be, before it goes out of line if it does.
    fn datum<'r>(&'r self, new: &[Value<'r>], index: usize) -> &'r [u8] {
        let place = self.places[index];
        let is_compressed = matches!(
            self.attributes[index].decision(),
            Decision::Compress { .. } | Decision::CompressAndMoveOut { .. }
        );
        match (place.compressed.filter(|_| is_compressed), place.fetched) {
            (Some(span), _) => span.of(&self.made),
            (None, Some(span)) => span.of(&self.fetched),
            (None, None) => new[index].bytes().unwrap_or_default(),
        }
    }

    fn form(
        &mut self,
        descriptor: TupleDescriptor<'_>,
        tuple_len: usize,
        new: &[Value<'_>],
    ) -> Result<(), TupleError> {
        let mut tuple = core::mem::take(&mut self.tuple);
        if tuple.len() < tuple_len {
            tuple.resize(tuple_len, 0);
        }
        let mut values = emptied(core::mem::take(&mut self.values));
        values.extend(new.iter().enumerate().map(|(index, value)| {
            match (value, self.places[index].pointer) {
                (Value::Null | Value::Missing(None), _) => Value::Null,
                (_, Some(span)) => Value::stored(span.of(&self.made)),
                (_, None) => Value::stored(self.datum(new, index)),
            }
        }));
        let formed = descriptor.form(&values, &mut tuple[..tuple_len]).map(|_| ());
        self.values = emptied(values);
        self.tuple = tuple;
        formed
    }

    /// The chunks of what goes out of line into the relation, then those of `deleted` out of it.
    fn write<R: ToastRelation>(
        &mut self,
        width: ValueIdWidth,
        chunk_size: ChunkSize,
        new: &[Value<'_>],
        relation: &mut R,
    ) -> Result<(), WriteError<R::Error>> {
        let mut tuple = core::mem::take(&mut self.chunk);
        let mut begun = Begun { relation, inserted: &[], deleted: &[], is_done: false };
        for (number, (pointer, index)) in self.inserted.iter().zip(&self.moved).enumerate() {
            begun.inserted = &self.inserted[..=number];
            let value_id = pointer.value_id().unwrap_or_default();
            for (seq, data) in OutOfLine::new(self.datum(new, *index))?.chunks(chunk_size) {
                let chunk = Chunk { value_id, seq, data, tid: None };
                if tuple.len() < chunk.tuple_len(width) {
                    tuple.resize(chunk.tuple_len(width), 0);
                }
                let formed = chunk.form(width, &mut tuple)?;
                begun.relation.insert_chunk(&chunk, formed).map_err(WriteError::Relation)?;
            }
        }
        for (number, pointer) in self.deleted.iter().enumerate() {
            begun.deleted = &self.deleted[..=number];
            begun.relation.delete_value(pointer).map_err(WriteError::Relation)?;
        }
        begun.is_done = true;
        drop(begun);
        self.chunk = tuple;
        Ok(())
    }
}

/// What the relation was told of a row so far. It is told to take that back unless all goes well.
struct Begun<'r, R: ToastRelation> {
    relation: &'r mut R,
    inserted: &'r [ToastPointer],
    deleted: &'r [ToastPointer],
    is_done: bool,
}

impl<R: ToastRelation> Drop for Begun<'_, R> {
    fn drop(&mut self) {
        let is_untouched = self.inserted.is_empty() && self.deleted.is_empty();
        if !self.is_done && !is_untouched {
            self.relation.take_back(self.inserted, self.deleted);
        }
    }
}

/// The memory of a vector of references, for references to something else.
fn emptied<'a>(mut values: Vec<Value<'_>>) -> Vec<Value<'a>> {
    values.clear();
    values.into_iter().map(|_| Value::Null).collect()
}
