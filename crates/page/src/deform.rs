//! Finds the attributes of a tuple.
//!
//! Nothing in a tuple says where an attribute starts: it is where the one before ends, rounded up.
//! So the walk goes through all of them, and for each
//!
//! 1. beyond the tuple's own count, the value is the column's missing value or null;
//! 2. with its bit of the null bitmap clear, it is null and takes no room;
//! 3. otherwise it starts at the next multiple of its alignment. A varlena does so only if the byte
//!    at hand is zero, which no header that may lie unaligned starts with: such a byte is padding, or
//!    the first of a long header that is aligned already;
//! 4. its length comes from its column, its varlena header or its closing zero byte.
//!
//! Source: `heaptuple.c`, `heap_deform_tuple`; `tupmacs.h` (REL_18).
use pgtoast_varlena::{Varlena, VarlenaError, datum_len};

use crate::{AttributeDescriptor, AttributeLen, HeapTuple, TupleDescriptor, TupleError};

impl<'a> HeapTuple<'a> {
    /// Every attribute of the tuple's table, in order: exactly as many as `descriptor` has.
    ///
    /// A broken attribute yields an error and hides where later ones start: those that are stored
    /// then yield [`TupleError::AttributeUnreachable`], the others still their null or missing value.
    ///
    /// # Errors
    /// [`TupleError::DataPastEnd`], [`TupleError::BitmapPastData`],
    /// [`TupleError::AttributeCount`]; within the walk [`TupleError::AttributeStart`],
    /// [`TupleError::AttributeEnd`], [`TupleError::Unterminated`], [`TupleError::Varlena`] and
    /// [`TupleError::AttributeUnreachable`].
    #[doc(alias = "heap_deform_tuple")]
    pub fn deform(&self, descriptor: TupleDescriptor<'a>) -> Result<Deform<'a>, TupleError> {
        let walk = Walk::new(self, descriptor)?;
        Ok(Deform { walk, columns: descriptor.attributes().iter(), number: 0, broken: None })
    }

    /// Every attribute of the tuple's table into the front of `target`, and how many there are.
    /// Faster than [`deform`](Self::deform) for whoever has no use for a broken tuple.
    ///
    /// # Errors
    /// Those of [`deform`](Self::deform), and [`TupleError::Room`]. What `target` holds then is
    /// unspecified, though sound.
    pub fn deform_into(
        &self,
        descriptor: TupleDescriptor<'a>,
        target: &mut [Value<'a>],
    ) -> Result<usize, TupleError> {
        let mut walk = Walk::new(self, descriptor)?;
        let columns = descriptor.attributes();
        let room = target.len();
        let Some(target) = target.get_mut(..columns.len()) else {
            return Err(TupleError::Room { found: columns.len(), room });
        };
        let mut number = 0;
        for (column, value) in columns.iter().zip(target) {
            number += 1;
            // Each arm writes its value in place: a value that is passed on whole is copied by wide
            // loads from the narrow stores that just made it, and the processor waits for those.
            if number > walk.natts {
                *value = Value::Missing(column.missing);
            } else if walk.is_null(number) {
                *value = Value::Null;
            } else if let Some(datum) = walk.stored(column) {
                *value = Value::Stored(datum);
            } else {
                return Err(walk.fault(number, column));
            }
        }
        Ok(columns.len())
    }
}

/// An attribute of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its number, from 1.
    pub number: u16,
    /// Whether its column was dropped, so that SQL would not show it.
    pub is_dropped: bool,
    /// What it holds.
    pub value: Value<'a>,
}

/// What an attribute holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value<'a> {
    /// Null.
    #[default]
    Null,
    /// The tuple is older than the column, whose missing value this is; `None` for null.
    Missing(Option<&'a [u8]>),
    /// It is stored in the tuple.
    Stored(Datum<'a>),
}

/// An attribute as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datum<'a> {
    /// All its bytes, with varlena header or closing zero byte, without padding.
    pub bytes: &'a [u8],
    /// Where they start, in bytes from the start of the tuple.
    pub offset: usize,
}

impl<'a> Datum<'a> {
    /// The bytes of a value of fixed length, if it is of this length: for numbers, the little-endian
    /// bytes that `from_le_bytes` takes.
    #[must_use]
    pub const fn fixed<const N: usize>(&self) -> Option<[u8; N]> {
        match self.bytes.first_chunk() {
            Some(bytes) if self.bytes.len() == N => Some(*bytes),
            _ => None,
        }
    }

    /// A varlena's form and payload, or where its value is.
    ///
    /// # Errors
    /// Those of [`Varlena::parse`], offsets from the start of the datum.
    pub fn varlena(&self) -> Result<Varlena<'a>, VarlenaError> {
        Varlena::parse(self.bytes, 0).map(|(varlena, _)| varlena)
    }
}

/// An iterator over the attributes of a tuple; made by [`HeapTuple::deform`].
#[derive(Clone, Debug)]
pub struct Deform<'a> {
    walk: Walk<'a>,
    columns: core::slice::Iter<'a, AttributeDescriptor<'a>>,
    /// Of the attribute before the next one.
    number: u16,
    /// The first attribute that has no length.
    broken: Option<u16>,
}

impl<'a> Iterator for Deform<'a> {
    type Item = Result<Attribute<'a>, TupleError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let column = self.columns.next()?;
        self.number += 1;
        let number = self.number;
        if let Some(broken) = self.broken
            && self.walk.is_stored(number)
        {
            return Some(Err(TupleError::AttributeUnreachable { attribute: number, broken }));
        }
        let value = self.walk.step(number, column);
        if value.is_err() {
            self.broken = Some(number);
        }
        let is_dropped = column.is_dropped;
        Some(value.map(|value| Attribute { number, is_dropped, value }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.columns.size_hint()
    }
}

impl ExactSizeIterator for Deform<'_> {}
impl core::iter::FusedIterator for Deform<'_> {}

/// Where the walk is.
#[derive(Clone, Debug)]
struct Walk<'a> {
    tuple: &'a [u8],
    /// Where the attributes start in `tuple`: a multiple of 8 if the tuple is sound, which alignment
    /// does not rely on.
    start: usize,
    /// The tuple from `start` on.
    data: &'a [u8],
    /// Where the next attribute starts in `data`, but for alignment.
    offset: usize,
    /// How many attributes the tuple has.
    natts: u16,
    /// The null bitmap; empty when there is none.
    bitmap: &'a [u8],
}

impl<'a> Walk<'a> {
    #[inline]
    fn new(tuple: &HeapTuple<'a>, descriptor: TupleDescriptor<'_>) -> Result<Self, TupleError> {
        let (start, bitmap) = tuple.split()?;
        let (stored, table) = (tuple.header().natts(), descriptor.attributes().len());
        if usize::from(stored) > table {
            return Err(TupleError::AttributeCount { stored, table });
        }
        let tuple = tuple.bytes();
        Ok(Self { tuple, start, data: &tuple[start..], offset: 0, natts: stored, bitmap })
    }

    /// Whether the tuple holds a value for attribute `number`.
    #[inline]
    fn is_stored(&self, number: u16) -> bool {
        number <= self.natts && !self.is_null(number)
    }

    /// Whether attribute `number`, which the tuple has, is null.
    #[inline]
    fn is_null(&self, number: u16) -> bool {
        let index = usize::from(number - 1);
        self.bitmap.get(index / 8).is_some_and(|bits| bits >> (index % 8) & 1 == 0)
    }

    /// Attribute `number`, whose column this is.
    #[inline]
    fn step(
        &mut self,
        number: u16,
        column: &AttributeDescriptor<'a>,
    ) -> Result<Value<'a>, TupleError> {
        if number > self.natts {
            return Ok(Value::Missing(column.missing));
        }
        if self.is_null(number) {
            return Ok(Value::Null);
        }
        match self.stored(column) {
            Some(datum) => Ok(Value::Stored(datum)),
            None => Err(self.fault(number, column)),
        }
    }

    /// The next stored attribute; `None` when the tuple lies about it, and then nothing has moved.
    #[inline(always)]
    fn stored(&mut self, column: &AttributeDescriptor<'_>) -> Option<Datum<'a>> {
        let offset = self.aligned(column);
        let len = match column.len {
            AttributeLen::Fixed(len) => usize::from(len),
            AttributeLen::Varlena => datum_len(self.data, offset).ok()?,
            AttributeLen::CString => {
                let rest = self.data.get(offset..)?;
                rest.iter().position(|byte| *byte == 0)? + 1
            }
        };
        let bytes = self.data.get(offset..)?.get(..len)?;
        self.offset = offset + len;
        Some(Datum { bytes, offset: self.start + offset })
    }

    /// Where the next stored attribute starts in `data`; it may be past the end.
    #[inline(always)]
    fn aligned(&self, column: &AttributeDescriptor<'_>) -> usize {
        let unpadded = column.len == AttributeLen::Varlena
            && self.data.get(self.offset).is_some_and(|first| *first != 0);
        if unpadded { self.offset } else { column.alignment.up(self.offset) }
    }

    /// What is wrong with the attribute that [`stored`](Self::stored) could not find.
    #[cold]
    fn fault(&self, attribute: u16, column: &AttributeDescriptor<'_>) -> TupleError {
        let offset = self.start + self.aligned(column);
        let len = self.tuple.len();
        let Some(available) = len.checked_sub(offset) else {
            return TupleError::AttributeStart { attribute, offset, len };
        };
        let end = |needed| TupleError::AttributeEnd { attribute, offset, needed, available };
        match column.len {
            AttributeLen::Fixed(len) => end(len.into()),
            AttributeLen::CString => TupleError::Unterminated { attribute, offset },
            AttributeLen::Varlena => match datum_len(self.tuple, offset) {
                Ok(len) => end(len),
                Err(VarlenaError::Truncated { needed, .. }) => end(needed),
                Err(error) => TupleError::Varlena { attribute, error },
            },
        }
    }
}
