//! What can be wrong with a tuple.
use core::fmt;

use pgtoast_varlena::VarlenaError;

/// Why some bytes are not a tuple, why an attribute is not to be had, or why values make no tuple.
///
/// `attribute` is the 1-based attribute number, as in `pg_attribute.attnum`; offsets are bytes from
/// the start of the tuple. A tuple does not know its own place: whoever read it adds that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum TupleError {
    /// The tuple says it has `stored` attributes, and its table has `table`.
    AttributeCount { stored: u16, table: usize },
    /// The attribute starts at `offset` and takes `needed` bytes, and `available` are left.
    AttributeEnd { attribute: u16, offset: usize, needed: usize, available: usize },
    /// The attribute would start at `offset`, past the end of the tuple's `len` bytes.
    AttributeStart { attribute: u16, offset: usize, len: usize },
    /// Where the attribute starts is unknown, because `broken` before it has no length.
    AttributeUnreachable { attribute: u16, broken: u16 },
    /// The null bitmap ends at `bitmap_end`, and the attributes start at `hoff` already.
    BitmapPastData { bitmap_end: usize, hoff: u8 },
    /// No type has these properties.
    Column { attlen: i16, attbyval: bool, attalign: u8, attstorage: u8 },
    /// A table of `count` columns is wider than a tuple can be.
    ColumnCount { count: usize },
    /// `hoff` is `hoff`, past the end of the tuple's `len` bytes.
    DataPastEnd { hoff: u8, len: usize },
    /// `hoff` is `found`; the number of attributes and the null flag make it `expected`.
    DataStart { expected: usize, found: u8 },
    /// The value for the attribute has `found` bytes; its column, or its own header or closing zero
    /// byte, makes that `expected`.
    DatumLength { attribute: u16, expected: usize, found: usize },
    /// `found` bytes are no tuple: `needed` are the least.
    Length { needed: usize, found: usize },
    /// `found` attributes of the tuple's table do not fit the `room` that the caller made.
    Room { found: usize, room: usize },
    /// A tuple of `needed` bytes does not fit the `room` that the caller made.
    TargetRoom { needed: usize, room: usize },
    /// The C string that starts at `offset` has no zero byte at its end.
    Unterminated { attribute: u16, offset: usize },
    /// The attribute is no varlena; offsets in `error` are those of the tuple, too.
    Varlena { attribute: u16, error: VarlenaError },
}

impl fmt::Display for TupleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AttributeCount { stored, table } => {
                write!(f, "tuple has {stored} attributes, its table {table}")
            }
            Self::AttributeEnd { attribute, offset, needed, available } => write!(
                f,
                "attribute {attribute} at byte {offset}: {needed} bytes needed, {available} there"
            ),
            Self::AttributeStart { attribute, offset, len } => {
                write!(f, "attribute {attribute} starts at byte {offset} of {len}")
            }
            Self::AttributeUnreachable { attribute, broken } => {
                write!(f, "attribute {attribute} is behind the broken attribute {broken}")
            }
            Self::BitmapPastData { bitmap_end, hoff } => {
                write!(f, "null bitmap ends at byte {bitmap_end}, attributes start at {hoff}")
            }
            Self::Column { attlen, attbyval, attalign, attstorage } => write!(
                f,
                "no type has attlen {attlen}, attbyval {attbyval}, attalign {:?}, attstorage {:?}",
                char::from(attalign),
                char::from(attstorage)
            ),
            Self::ColumnCount { count } => write!(f, "no table has {count} columns"),
            Self::DataPastEnd { hoff, len } => {
                write!(f, "attributes start at byte {hoff} of {len}")
            }
            Self::DataStart { expected, found } => {
                write!(f, "attributes start at byte {found}, expected {expected}")
            }
            Self::DatumLength { attribute, expected, found } => {
                write!(f, "value for attribute {attribute} has {found} bytes, expected {expected}")
            }
            Self::Length { needed, found } => {
                write!(f, "{found} bytes are not a tuple, expected at least {needed}")
            }
            Self::Room { found, room } => {
                write!(f, "{found} attributes, and room for {room}")
            }
            Self::TargetRoom { needed, room } => {
                write!(f, "a tuple of {needed} bytes, and room for {room}")
            }
            Self::Unterminated { attribute, offset } => {
                write!(f, "attribute {attribute} at byte {offset}: no zero byte ends the string")
            }
            Self::Varlena { attribute, error } => write!(f, "attribute {attribute}: {error}"),
        }
    }
}

impl core::error::Error for TupleError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Varlena { error, .. } => Some(error),
            _ => None,
        }
    }
}
