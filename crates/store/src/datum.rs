//! What is put into a column.

/// A value on its way into a column, before it is anything of a row.
///
/// ```
/// use pgtoast_store::Datum;
///
/// let row: [Datum<'_>; 4] = [7_i64.into(), "tidy".into(), b"\x01\x02"[..].into(), None::<i32>.into()];
/// assert_eq!(row[3], Datum::Null);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Datum<'a> {
    /// Nothing.
    #[default]
    Null,
    /// For a `bool`.
    Bool(bool),
    /// For a `bytea`, the bytes of a `jsonb`, or a value of a type that the store does not know.
    Bytes(&'a [u8]),
    /// For a `float4`.
    Float4(f32),
    /// For a `float8`.
    Float8(f64),
    /// For an `int2`.
    Int2(i16),
    /// For an `int4`.
    Int4(i32),
    /// For an `int8`.
    Int8(i64),
    /// For a `text`, a `varchar` or a `json`.
    Text(&'a str),
    /// For a `timestamptz`: microseconds since the beginning of the year 2000, UTC.
    Timestamptz(i64),
    /// For a `uuid`.
    Uuid([u8; 16]),
}

impl Datum<'_> {
    /// What it is called in messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Bytes(_) => "bytes",
            Self::Float4(_) => "a float4",
            Self::Float8(_) => "a float8",
            Self::Int2(_) => "an int2",
            Self::Int4(_) => "an int4",
            Self::Int8(_) => "an int8",
            Self::Text(_) => "a text",
            Self::Timestamptz(_) => "a timestamptz",
            Self::Uuid(_) => "a uuid",
        }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {$(
        impl<'a> From<$source> for Datum<'a> {
            fn from(value: $source) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

from! {
    bool => Bool,
    &'a [u8] => Bytes,
    f32 => Float4,
    f64 => Float8,
    i16 => Int2,
    i32 => Int4,
    i64 => Int8,
    &'a str => Text,
    [u8; 16] => Uuid,
}

impl<'a> From<&'a String> for Datum<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Datum<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl<'a, T: Into<Datum<'a>>> From<Option<T>> for Datum<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
