//! Makes a tuple of values: the way back from [`deform`](crate::HeapTuple::deform).
//!
//! ```text
//! byte 0         23            hoff
//!      | header  | null bitmap | value 1 | zeros | value 2 | value 3 | …
//! ```
//! 1. Any null brings the bitmap, of one bit for each attribute.
//! 2. A value of fixed length, or with a 4-byte header, starts at the next multiple of its column's
//!    alignment, counted from `hoff`. C strings, short varlenas and pointers start right away.
//! 3. A plain varlena of up to 126 bytes gets a 1-byte header, and then starts right away too, unless
//!    its column's storage is plain. Compressed ones keep their header.
//! 4. Nothing follows the last value.
//!
//! Source: `heaptuple.c`, `heap_compute_data_size`, `heap_form_tuple` and `fill_val` (REL_18).
use pgtoast_base::{ItemPointer, ItemPointerData, maxalign};
use pgtoast_varlena::{Kind, LONG_HEADER_LEN, SHORT_HEADER_LEN, datum_len, short_header};
use zerocopy::{FromBytes, FromZeros};

use crate::{
    AttributeDescriptor, AttributeLen, Datum, HeapTupleMut, Infomask, Storage, TupleDescriptor,
    TupleError, TupleHeader, Value,
};

impl<'a> Value<'a> {
    /// A value to be stored: all its bytes, with varlena header or closing zero byte. A varlena may
    /// come in any form that can be on disk.
    #[must_use]
    pub const fn stored(bytes: &'a [u8]) -> Self {
        Self::Stored(Datum { bytes, offset: 0 })
    }

    /// All its bytes, with varlena header or closing zero byte, whether they are stored or its
    /// column's missing value; `None` for null.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Null | Self::Missing(None) => None,
            Self::Missing(Some(bytes)) => Some(bytes),
            Self::Stored(datum) => Some(datum.bytes),
        }
    }
}

impl TupleDescriptor<'_> {
    /// How many bytes these values take in a tuple, alignment and shortened headers included, and
    /// what stands before them not.
    ///
    /// # Errors
    /// Those of [`form`](Self::form), but for [`TupleError::TargetRoom`].
    #[doc(alias = "heap_compute_data_size")]
    pub fn data_len(self, values: &[Value<'_>]) -> Result<usize, TupleError> {
        self.count(values)?;
        let mut end = 0;
        for (index, (column, value)) in self.attributes().iter().zip(values).enumerate() {
            let Some(bytes) = value.bytes() else { continue };
            let shape = Shape::of(column, bytes).ok_or_else(|| fault(index, column, bytes))?;
            end = ((end + shape.round) & !shape.round) + shape.len(bytes);
        }
        Ok(end)
    }

    /// How long a tuple of these values is, in bytes.
    ///
    /// # Errors
    /// As [`data_len`](Self::data_len).
    pub fn tuple_len(self, values: &[Value<'_>]) -> Result<usize, TupleError> {
        Ok(hoff(values.len(), values.iter().any(is_null)) + self.data_len(values)?)
    }

    /// Makes a tuple of these values at the start of `target`, and returns it. There may be fewer
    /// values than columns: then the tuple has so many attributes.
    ///
    /// Of the header, everything about transactions is left zero, and the tuple has no place yet:
    /// [`TupleHeader::set_inserted`] and [`PageMut::insert_tuple`](crate::PageMut::insert_tuple) see
    /// to those. For dropped columns a server stores null.
    ///
    /// # Errors
    /// [`TupleError::AttributeCount`] for more values than columns, [`TupleError::DatumLength`],
    /// [`TupleError::Unterminated`] and [`TupleError::Varlena`] for bytes that are no value of their
    /// column, offsets from the start of the value; [`TupleError::TargetRoom`]. What `target` holds
    /// then is unspecified.
    #[doc(alias = "heap_form_tuple")]
    #[doc(alias = "heap_fill_tuple")]
    pub fn form<'t>(
        self,
        values: &[Value<'_>],
        target: &'t mut [u8],
    ) -> Result<HeapTupleMut<'t>, TupleError> {
        let natts = self.count(values)?;
        let (room, has_null) = (target.len(), values.iter().any(is_null));
        let hoff = hoff(values.len(), has_null);
        let Some((head, data)) = target.split_at_mut_checked(hoff) else {
            return Err(self.failure(values, room));
        };
        let bitmap = start_header(head, natts, has_null);
        let mut filled = Filled { data, end: 0 };
        let mut infomask = if has_null { Infomask::HAS_NULL } else { Infomask::empty() };
        for (index, (column, value)) in self.attributes().iter().zip(values).enumerate() {
            let Some(bytes) = value.bytes() else { continue };
            if has_null && let Some(bits) = bitmap.get_mut(index / 8) {
                *bits |= 1 << (index % 8);
            }
            match Shape::of(column, bytes) {
                Some(shape) if filled.push(shape, bytes) => infomask |= shape.infomask,
                _ => return Err(self.failure(values, room)),
            }
        }
        let end = hoff + filled.end;
        let mut tuple = HeapTupleMut::new(&mut target[..end])?;
        tuple.header_mut().set_infomask(infomask);
        Ok(tuple)
    }

    /// How many attributes the values make.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "at most 1664")]
    fn count(self, values: &[Value<'_>]) -> Result<u16, TupleError> {
        let table = self.attributes().len();
        if values.len() > table {
            let stored = u16::try_from(values.len()).unwrap_or(u16::MAX);
            return Err(TupleError::AttributeCount { stored, table });
        }
        Ok(values.len() as u16)
    }

    /// Why there is no tuple: a value is none of its column, or else there is no room.
    #[cold]
    fn failure(self, values: &[Value<'_>], room: usize) -> TupleError {
        match self.tuple_len(values) {
            Ok(needed) => TupleError::TargetRoom { needed, room },
            Err(error) => error,
        }
    }
}

#[inline]
fn is_null(value: &Value<'_>) -> bool {
    value.bytes().is_none()
}

/// Where the attributes start.
#[inline]
fn hoff(count: usize, has_null: bool) -> usize {
    maxalign(TupleHeader::LEN + if has_null { count.div_ceil(8) } else { 0 })
}

/// Fills what is before the attributes, and returns the bitmap, all null still, and its padding.
#[inline]
fn start_header(head: &mut [u8], natts: u16, has_null: bool) -> &mut [u8] {
    #[expect(clippy::cast_possible_truncation, reason = "at most 232, with 1664 attributes")]
    let hoff = head.len() as u8;
    let Ok((header, rest)) = TupleHeader::mut_from_prefix(head) else { return &mut [] };
    *header = TupleHeader::new_zeroed();
    header.ctid = ItemPointerData::new(ItemPointer::INVALID);
    header.infomask2.set(natts);
    header.hoff = hoff;
    if has_null {
        rest.fill(0);
    } else {
        // One byte of padding, most of the time: not worth a call.
        rest.iter_mut().take(1).for_each(|byte| *byte = 0);
    }
    rest
}

/// What becomes of a value in a tuple.
#[derive(Clone, Copy)]
struct Shape {
    /// One less than what it is aligned to.
    round: usize,
    /// The one-byte header that its four bytes make room for; 0, which is none, if it stays as it is.
    header: u8,
    /// What it adds to the tuple's flags.
    infomask: Infomask,
}

impl Shape {
    /// `None` for bytes that are no value of the column.
    #[inline(always)]
    fn of(column: &AttributeDescriptor<'_>, bytes: &[u8]) -> Option<Self> {
        let round = column.alignment.bytes() - 1;
        match column.len {
            AttributeLen::Fixed(len) if usize::from(len) == bytes.len() => {
                Some(Self { round, header: 0, infomask: Infomask::empty() })
            }
            AttributeLen::Varlena => Self::of_varlena(column.storage, round, bytes),
            AttributeLen::CString
                if bytes.iter().position(|byte| *byte == 0)? + 1 == bytes.len() =>
            {
                Some(Self { round: 0, header: 0, infomask: Infomask::HAS_VARWIDTH })
            }
            AttributeLen::Fixed(_) | AttributeLen::CString => None,
        }
    }

    #[inline(always)]
    fn of_varlena(storage: Storage, round: usize, bytes: &[u8]) -> Option<Self> {
        if datum_len(bytes, 0) != Ok(bytes.len()) {
            return None;
        }
        let infomask = Infomask::HAS_VARWIDTH;
        Some(match Kind::of(bytes[0]) {
            Kind::Short => Self { round: 0, header: 0, infomask },
            Kind::Pointer => {
                Self { round: 0, header: 0, infomask: infomask | Infomask::HAS_EXTERNAL }
            }
            Kind::Pad | Kind::Long if storage != Storage::Plain => {
                match short_header(bytes.len() - LONG_HEADER_LEN) {
                    Ok(header) => Self { round: 0, header, infomask },
                    Err(_) => Self { round, header: 0, infomask },
                }
            }
            Kind::Pad | Kind::Long | Kind::LongCompressed => Self { round, header: 0, infomask },
        })
    }

    /// How many bytes of the tuple these bytes take.
    #[inline(always)]
    fn len(self, bytes: &[u8]) -> usize {
        if self.header == 0 {
            bytes.len()
        } else {
            bytes.len() - LONG_HEADER_LEN + SHORT_HEADER_LEN
        }
    }
}

/// The attributes of a tuple in the making.
struct Filled<'a> {
    data: &'a mut [u8],
    /// Where the last one ends.
    end: usize,
}

impl Filled<'_> {
    /// Adds a value, if there is room.
    #[inline(always)]
    fn push(&mut self, shape: Shape, bytes: &[u8]) -> bool {
        let start = (self.end + shape.round) & !shape.round;
        let end = start + shape.len(bytes);
        let Some(taken) = self.data.get_mut(self.end..end) else { return false };
        let pad = start - self.end;
        if pad > 0 {
            // Up to seven zeros: not worth a call where the value, which comes later, takes the rest.
            match taken.first_chunk_mut::<8>() {
                Some(bytes) => *bytes = [0; 8],
                None => taken.fill(0),
            }
        }
        let target = &mut taken[pad..];
        if shape.header != 0 {
            target[0] = shape.header;
            target[SHORT_HEADER_LEN..].copy_from_slice(&bytes[LONG_HEADER_LEN..]);
        } else {
            match bytes.len() {
                8 => copy::<8>(target, bytes),
                4 => copy::<4>(target, bytes),
                1 => copy::<1>(target, bytes),
                2 => copy::<2>(target, bytes),
                _ => target.copy_from_slice(bytes),
            }
        }
        self.end = end;
        true
    }
}

/// A copy of a length that is known when this is compiled.
#[inline(always)]
fn copy<const N: usize>(target: &mut [u8], bytes: &[u8]) {
    if let (Some(target), Some(bytes)) = (target.first_chunk_mut::<N>(), bytes.first_chunk::<N>()) {
        *target = *bytes;
    }
}

/// Why the bytes are no value of the column.
#[cold]
#[expect(clippy::cast_possible_truncation, reason = "at most 1664 attributes")]
fn fault(index: usize, column: &AttributeDescriptor<'_>, bytes: &[u8]) -> TupleError {
    let (attribute, found) = (index as u16 + 1, bytes.len());
    let of_length = |expected| TupleError::DatumLength { attribute, expected, found };
    match column.len {
        AttributeLen::Fixed(len) => of_length(len.into()),
        AttributeLen::Varlena => match datum_len(bytes, 0) {
            Ok(len) => of_length(len),
            Err(error) => TupleError::Varlena { attribute, error },
        },
        AttributeLen::CString => match bytes.iter().position(|byte| *byte == 0) {
            Some(zero) => of_length(zero + 1),
            None => TupleError::Unterminated { attribute, offset: 0 },
        },
    }
}
