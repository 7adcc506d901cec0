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
use zerocopy::FromBytes;

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

    /// The bytes that a tuple takes them from; a value that an older tuple lacks is stored in a new
    /// one.
    #[inline]
    fn source(&self) -> Option<&'a [u8]> {
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
            if let Some(bytes) = value.source() {
                let place = Place::of(column, bytes).ok_or_else(|| fault(index, column, bytes))?;
                end = place.start(end) + place.len;
            }
        }
        Ok(end)
    }

    /// How long a tuple of these values is, in bytes.
    ///
    /// # Errors
    /// As [`data_len`](Self::data_len).
    pub fn tuple_len(self, values: &[Value<'_>]) -> Result<usize, TupleError> {
        Ok(hoff(values) + self.data_len(values)?)
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
        let (room, hoff) = (target.len(), hoff(values));
        #[expect(clippy::cast_possible_truncation, reason = "at most 232, with 1664 attributes")]
        let hoff_u8 = hoff as u8;
        let mut infomask = Infomask::empty();
        let Some((head, data)) = target.split_at_mut_checked(hoff) else {
            return Err(self.target_room(values, room));
        };
        head.fill(0);
        let mut bitmap: &mut [u8] = &mut [];
        if values.iter().any(is_null) {
            infomask |= Infomask::HAS_NULL;
            bitmap = &mut head[TupleHeader::LEN..];
        }
        let mut end = 0;
        for (index, (column, value)) in self.attributes().iter().zip(values).enumerate() {
            let Some(bytes) = value.source() else { continue };
            if let Some(bits) = bitmap.get_mut(index / 8) {
                *bits |= 1 << (index % 8);
            }
            let Some(place) = Place::of(column, bytes) else {
                return Err(fault(index, column, bytes));
            };
            let start = place.start(end);
            let Some(taken) = data.get_mut(end..start + place.len) else {
                return Err(self.target_room(values, room));
            };
            place.fill(taken, start - end, bytes);
            infomask |= place.infomask;
            end = start + place.len;
        }
        if let Ok((header, _)) = TupleHeader::mut_from_prefix(head) {
            header.ctid = ItemPointerData::new(ItemPointer::INVALID);
            header.infomask2.set(natts);
            header.set_infomask(infomask);
            header.hoff = hoff_u8;
        }
        HeapTupleMut::new(&mut target[..hoff + end])
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

    /// That the tuple does not fit, unless something is wrong with a value as well.
    #[cold]
    fn target_room(self, values: &[Value<'_>], room: usize) -> TupleError {
        match self.tuple_len(values) {
            Ok(needed) => TupleError::TargetRoom { needed, room },
            Err(error) => error,
        }
    }
}

#[inline]
fn is_null(value: &Value<'_>) -> bool {
    value.source().is_none()
}

/// Where the attributes start.
#[inline]
fn hoff(values: &[Value<'_>]) -> usize {
    let bitmap = if values.iter().any(is_null) { values.len().div_ceil(8) } else { 0 };
    maxalign(TupleHeader::LEN + bitmap)
}

/// What a value becomes in a tuple.
#[derive(Clone, Copy)]
struct Place {
    /// One less than what it is aligned to.
    round: usize,
    /// Its length there.
    len: usize,
    /// What it adds to the tuple's flags.
    infomask: Infomask,
    /// Its 1-byte header, if its four bytes are to be replaced by that.
    short: Option<u8>,
}

impl Place {
    /// `None` for bytes that are no value of the column.
    #[inline(always)]
    fn of(column: &AttributeDescriptor<'_>, bytes: &[u8]) -> Option<Self> {
        let (round, len) = (column.alignment.bytes() - 1, bytes.len());
        match column.len {
            AttributeLen::Fixed(fixed) => {
                let place = Self { round, len, infomask: Infomask::empty(), short: None };
                (len == usize::from(fixed)).then_some(place)
            }
            AttributeLen::Varlena => Self::of_varlena(column, bytes),
            AttributeLen::CString => {
                let place = Self { round: 0, len, infomask: Infomask::HAS_VARWIDTH, short: None };
                let zero = bytes.iter().position(|byte| *byte == 0)?;
                (zero + 1 == len).then_some(place)
            }
        }
    }

    #[inline(always)]
    fn of_varlena(column: &AttributeDescriptor<'_>, bytes: &[u8]) -> Option<Self> {
        let len = datum_len(bytes, 0).ok().filter(|len| *len == bytes.len())?;
        let round = column.alignment.bytes() - 1;
        let infomask = Infomask::HAS_VARWIDTH;
        let as_it_is = Self { round: 0, len, infomask, short: None };
        Some(match Kind::of(bytes[0]) {
            Kind::Short => as_it_is,
            Kind::Pointer => Self { infomask: infomask | Infomask::HAS_EXTERNAL, ..as_it_is },
            Kind::Pad | Kind::Long if column.storage != Storage::Plain => {
                let payload_len = len - LONG_HEADER_LEN;
                match short_header(payload_len) {
                    Ok(header) => Self {
                        len: SHORT_HEADER_LEN + payload_len,
                        short: Some(header),
                        ..as_it_is
                    },
                    Err(_) => Self { round, ..as_it_is },
                }
            }
            Kind::Pad | Kind::Long | Kind::LongCompressed => Self { round, ..as_it_is },
        })
    }

    /// Where it starts when the value before ends at `end`, both in bytes from the first attribute.
    #[inline(always)]
    fn start(&self, end: usize) -> usize {
        (end + self.round) & !self.round
    }

    /// Writes `pad` zeros, then the value: as much as `target` holds.
    #[inline(always)]
    fn fill(&self, target: &mut [u8], pad: usize, bytes: &[u8]) {
        let (zeros, target) = target.split_at_mut(pad);
        // Most values need none, and most are numbers: neither is worth a call.
        if pad > 0 {
            zeros.fill(0);
        }
        match (self.short, bytes.len()) {
            (Some(header), _) => {
                target[0] = header;
                target[SHORT_HEADER_LEN..].copy_from_slice(&bytes[LONG_HEADER_LEN..]);
            }
            (None, 4) => copy::<4>(target, bytes),
            (None, 8) => copy::<8>(target, bytes),
            (None, _) => target.copy_from_slice(bytes),
        }
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
