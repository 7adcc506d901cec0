//! What a table says about its columns: the part of `pg_attribute` that is needed to find the
//! attributes of a tuple.
use pgtoast_base::Alignment;

use crate::TupleError;

/// The columns of a table, in the order of their attribute numbers, dropped ones included.
#[doc(alias = "TupleDesc")]
#[derive(Clone, Copy, Debug)]
pub struct TupleDescriptor<'a> {
    attributes: &'a [AttributeDescriptor<'a>],
}

impl<'a> TupleDescriptor<'a> {
    /// The most columns a tuple can have.
    #[doc(alias = "MaxTupleAttributeNumber")]
    pub const MAX_ATTRIBUTES: usize = 1664;

    /// These columns.
    ///
    /// # Errors
    /// [`TupleError::ColumnCount`] for more than [`MAX_ATTRIBUTES`](Self::MAX_ATTRIBUTES).
    pub const fn new(attributes: &'a [AttributeDescriptor<'a>]) -> Result<Self, TupleError> {
        if attributes.len() > Self::MAX_ATTRIBUTES {
            return Err(TupleError::ColumnCount { count: attributes.len() });
        }
        Ok(Self { attributes })
    }

    /// The columns, attribute 1 first.
    #[must_use]
    pub const fn attributes(&self) -> &'a [AttributeDescriptor<'a>] {
        self.attributes
    }
}

/// A column of a table.
#[doc(alias = "FormData_pg_attribute")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeDescriptor<'a> {
    /// How its values say how long they are.
    #[doc(alias = "attlen")]
    pub len: AttributeLen,
    /// Whether the server passes its values by value; they are stored the same way either way.
    #[doc(alias = "attbyval")]
    pub by_value: bool,
    /// What its values are aligned to.
    #[doc(alias = "attalign")]
    pub alignment: Alignment,
    /// What may be done to make its values smaller.
    #[doc(alias = "attstorage")]
    pub storage: Storage,
    /// Whether the column was dropped: old tuples keep its values.
    #[doc(alias = "attisdropped")]
    pub is_dropped: bool,
    /// The value, as stored, of tuples older than the column; `None` for null.
    #[doc(alias = "attmissingval")]
    pub missing: Option<&'a [u8]>,
}

impl AttributeDescriptor<'_> {
    /// A column that was not dropped and has no value for older tuples, from four columns of
    /// `pg_attribute` as they are stored.
    ///
    /// # Errors
    /// [`TupleError::Column`] for a combination that no type has.
    pub const fn from_catalog(
        attlen: i16,
        attbyval: bool,
        attalign: u8,
        attstorage: u8,
    ) -> Result<Self, TupleError> {
        let len = AttributeLen::from_attlen(attlen);
        let alignment = Alignment::from_typalign(attalign);
        let storage = Storage::from_attstorage(attstorage);
        let width_fits = !attbyval || matches!(attlen, 1 | 2 | 4 | 8);
        match (len, alignment, storage) {
            (Some(len), Some(alignment), Some(storage)) if width_fits => Ok(Self {
                len,
                by_value: attbyval,
                alignment,
                storage,
                is_dropped: false,
                missing: None,
            }),
            _ => Err(TupleError::Column { attlen, attbyval, attalign, attstorage }),
        }
    }
}

/// How the values of a column say how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttributeLen {
    /// They are all of so many bytes, at least one.
    Fixed(u16),
    /// By a varlena header.
    Varlena,
    /// By a zero byte at their end.
    CString,
}

impl AttributeLen {
    /// From `attlen`: a length, -1 for a varlena, -2 for a C string.
    #[must_use]
    pub const fn from_attlen(attlen: i16) -> Option<Self> {
        match attlen {
            -1 => Some(Self::Varlena),
            -2 => Some(Self::CString),
            1.. => Some(Self::Fixed(attlen.cast_unsigned())),
            _ => None,
        }
    }

    /// As `attlen`.
    #[must_use]
    pub const fn attlen(self) -> i16 {
        match self {
            Self::Fixed(len) => len.cast_signed(),
            Self::Varlena => -1,
            Self::CString => -2,
        }
    }
}

/// What may be done to make a column's values smaller. It binds writers only: readers find any form
/// in any column, because values that were packed elsewhere are stored as they come.
#[doc(alias = "typstorage")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// `p`: nothing.
    #[doc(alias = "TYPSTORAGE_PLAIN")]
    Plain,
    /// `e`: stored out of line, never compressed.
    #[doc(alias = "TYPSTORAGE_EXTERNAL")]
    External,
    /// `x`: compressed, then stored out of line.
    #[doc(alias = "TYPSTORAGE_EXTENDED")]
    Extended,
    /// `m`: compressed, and stored out of line only where nothing else helps.
    #[doc(alias = "TYPSTORAGE_MAIN")]
    Main,
}

impl Storage {
    /// From the letter in the catalog.
    #[must_use]
    pub const fn from_attstorage(letter: u8) -> Option<Self> {
        match letter {
            b'p' => Some(Self::Plain),
            b'e' => Some(Self::External),
            b'x' => Some(Self::Extended),
            b'm' => Some(Self::Main),
            _ => None,
        }
    }

    /// The letter in the catalog.
    #[must_use]
    pub const fn attstorage(self) -> u8 {
        match self {
            Self::Plain => b'p',
            Self::External => b'e',
            Self::Extended => b'x',
            Self::Main => b'm',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lengths_and_letters_of_real_types_are_columns() {
        let column = |len, by_value, align, storage| {
            AttributeDescriptor::from_catalog(len, by_value, align, storage)
        };
        for (len, by_value, align, storage) in [
            (4, true, b'i', b'p'),
            (8, true, b'd', b'p'),
            (64, false, b'c', b'p'),
            (-1, false, b'd', b'x'),
            (-2, false, b'c', b'p'),
        ] {
            let it = column(len, by_value, align, storage).unwrap();
            assert_eq!(it.len.attlen(), len);
            assert_eq!((it.alignment.typalign(), it.storage.attstorage()), (align, storage));
        }
        for (len, by_value, align, storage) in [
            (0, false, b'c', b'p'),
            (-3, false, b'c', b'p'),
            (3, true, b'c', b'p'),
            (-1, true, b'i', b'x'),
            (4, true, b'x', b'p'),
            (4, true, b'i', b'q'),
        ] {
            let error = TupleError::Column {
                attlen: len,
                attbyval: by_value,
                attalign: align,
                attstorage: storage,
            };
            assert_eq!(column(len, by_value, align, storage), Err(error));
        }
    }
}
