//! One datum, wherever in a slice it starts.
use crate::{
    COMPRESSED_HEADER_LEN, CompressionInfo, Kind, LONG_HEADER_LEN, SHORT_HEADER_LEN, Tag,
    ToastPointer, VarlenaError,
};

/// A datum as it is stored, borrowed from the bytes around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varlena<'a> {
    /// The payload behind a 1-byte header: 0..=126 bytes.
    Short(&'a [u8]),
    /// The payload behind a 4-byte header.
    Long(&'a [u8]),
    /// A compressed payload, still inline.
    Compressed(Compressed<'a>),
    /// The value is elsewhere.
    External(ToastPointer),
}

/// An inline compressed datum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed<'a> {
    /// The raw payload's length, no header in it, and the method. Nothing has checked either.
    #[doc(alias = "va_tcinfo")]
    pub info: CompressionInfo,
    /// What the method made of the payload.
    pub stream: &'a [u8],
}

impl<'a> Varlena<'a> {
    /// The datum that starts at `offset`, and how many bytes it takes.
    ///
    /// A zero byte there is taken as the first of a 4-byte header: skipping padding to the column's
    /// alignment is the caller's business, who knows it.
    ///
    /// # Errors
    /// Every variant of [`VarlenaError`] that carries an `offset`.
    #[inline]
    pub fn parse(bytes: &'a [u8], offset: usize) -> Result<(Self, usize), VarlenaError> {
        let len = datum_len(bytes, offset)?;
        let datum = &bytes[offset..offset + len];
        let varlena = match Kind::of(datum[0]) {
            Kind::Pointer => Self::External(ToastPointer::parse(bytes, offset)?),
            Kind::Short => Self::Short(&datum[SHORT_HEADER_LEN..]),
            Kind::Pad | Kind::Long => Self::Long(&datum[LONG_HEADER_LEN..]),
            Kind::LongCompressed => {
                let word = [datum[4], datum[5], datum[6], datum[7]];
                Self::Compressed(Compressed {
                    info: CompressionInfo::from_word(u32::from_le_bytes(word)),
                    stream: &datum[COMPRESSED_HEADER_LEN..],
                })
            }
        };
        Ok((varlena, len))
    }
}

/// How many bytes the datum at `offset` takes, header included; all of them are in `bytes`.
///
/// Cheaper than [`Varlena::parse`] for whoever only walks past it.
///
/// # Errors
/// As [`Varlena::parse`], but for what a pointer's payload says.
#[doc(alias = "VARSIZE_ANY")]
#[inline]
pub fn datum_len(bytes: &[u8], offset: usize) -> Result<usize, VarlenaError> {
    let rest = bytes.get(offset..).unwrap_or_default();
    let truncated = |needed| VarlenaError::Truncated { offset, needed, available: rest.len() };
    let Some(&first) = rest.first() else { return Err(truncated(1)) };
    let len = match Kind::of(first) {
        Kind::Short => usize::from(first >> 1),
        Kind::Pointer => {
            let &tag = rest.get(1).ok_or(truncated(2))?;
            let at = offset + 1;
            Tag::from_byte(tag)
                .ok_or(VarlenaError::UnknownTag { offset: at, tag })?
                .datum_len()
                .ok_or(VarlenaError::MemoryOnlyTag { offset: at, tag })?
        }
        kind => {
            let header =
                if kind == Kind::LongCompressed { COMPRESSED_HEADER_LEN } else { LONG_HEADER_LEN };
            let word = *rest.first_chunk().ok_or(truncated(header))?;
            let len = (u32::from_le_bytes(word) >> 2) as usize;
            if len < header {
                return Err(VarlenaError::HeaderLength { offset, len, header });
            }
            len
        }
    };
    if len > rest.len() { Err(truncated(len)) } else { Ok(len) }
}
