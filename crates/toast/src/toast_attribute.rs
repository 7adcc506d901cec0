//! An attribute of a row, as far as the decision where to keep it is concerned: its form, its length, and
//! what its column allows.
//!
//! ```text
//! form         its length counts                       starts at a multiple of
//! null         nothing, and a bit in the bitmap
//! fixed        its bytes                               the column's alignment
//! C string     its bytes, the zero among them          1
//! short        1 + payload, payload up to 126          1
//! long         4 + payload                             the column's alignment
//! compressed   8 + stream                              the column's alignment
//! pointer      18 or 22                                1
//! ```
use pgtoast_base::Alignment;
use pgtoast_page::{AttributeDescriptor, AttributeLen, Storage, Value};
use pgtoast_varlena::{
    CompressionMethod, Kind, LONG_HEADER_LEN, MAX_SHORT_PAYLOAD_LEN, SHORT_HEADER_LEN, datum_len,
};

use crate::ToastError;

/// The form that a value has in a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttributeForm {
    /// No value.
    Null,
    /// Of its column's fixed length.
    Fixed,
    /// Ended by a zero byte.
    CString,
    /// Behind a 1-byte header.
    Short,
    /// Behind a 4-byte header.
    Long,
    /// Compressed in the tuple, 8 header bytes in front.
    Compressed,
    /// Out of line; what is here is the pointer.
    Pointer,
}

/// What is to be done with an attribute. Lengths are in bytes and those of datums, headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It stays as it is.
    #[default]
    Keep,
    /// The compressed datum of `datum_len` takes its place.
    #[expect(missing_docs, reason = "the line above names it")]
    Compress { datum_len: usize },
    /// It goes out of line as it is, `datum_len` long; a pointer takes its place.
    #[expect(missing_docs, reason = "the line above names it")]
    MoveOut { datum_len: usize },
    /// The compressed datum of `datum_len` goes out of line, and a pointer takes its place.
    #[expect(missing_docs, reason = "the line above names it")]
    CompressAndMoveOut { datum_len: usize },
}

/// What a [`Toaster`](crate::Toaster) knows of an attribute, and after it has decided, what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToastAttribute {
    form: AttributeForm,
    storage: Storage,
    alignment: Alignment,
    method: CompressionMethod,
    len: usize,
    decision: Decision,
    /// Compression was tried in vain, or is not allowed and that was noticed.
    incompressible: bool,
}

impl ToastAttribute {
    /// A null.
    #[must_use]
    pub const fn null() -> Self {
        Self::new(AttributeForm::Null, 0, Storage::Plain, Alignment::Char)
    }

    /// A value of fixed length.
    #[must_use]
    pub const fn fixed(len: usize, alignment: Alignment) -> Self {
        Self::new(AttributeForm::Fixed, len, Storage::Plain, alignment)
    }

    /// A varlena that is neither compressed nor out of line, with so many bytes of payload. It has a
    /// short header if that is enough and the column is not plain, as in a tuple.
    #[must_use]
    pub const fn varlena(payload_len: usize, storage: Storage, alignment: Alignment) -> Self {
        let is_short = payload_len <= MAX_SHORT_PAYLOAD_LEN && !matches!(storage, Storage::Plain);
        let (form, header_len) = if is_short {
            (AttributeForm::Short, SHORT_HEADER_LEN)
        } else {
            (AttributeForm::Long, LONG_HEADER_LEN)
        };
        Self::new(form, payload_len.saturating_add(header_len), storage, alignment)
    }

    /// A varlena that arrives compressed, `datum_len` bytes with its headers.
    #[must_use]
    pub const fn compressed(datum_len: usize, storage: Storage, alignment: Alignment) -> Self {
        Self::new(AttributeForm::Compressed, datum_len, storage, alignment)
    }

    /// A pointer that is carried over from the old row, `datum_len` bytes: 18, or 22 with a 64-bit id.
    #[must_use]
    pub const fn pointer(datum_len: usize, storage: Storage) -> Self {
        Self::new(AttributeForm::Pointer, datum_len, storage, Alignment::Char)
    }

    /// The value of a column. A long datum that a tuple shortens counts as short.
    ///
    /// # Errors
    /// [`ToastError::Varlena`] for bytes that are no varlena, offsets from their start.
    pub fn of(column: &AttributeDescriptor<'_>, value: &Value<'_>) -> Result<Self, ToastError> {
        let Some(bytes) = value.bytes() else { return Ok(Self::null()) };
        let new = |form, len| Self::new(form, len, column.storage, column.alignment);
        Ok(match column.len {
            AttributeLen::Fixed(len) => new(AttributeForm::Fixed, len.into()),
            AttributeLen::CString => new(AttributeForm::CString, bytes.len()),
            AttributeLen::Varlena => {
                let len = datum_len(bytes, 0)?;
                match Kind::of(bytes[0]) {
                    Kind::Short => new(AttributeForm::Short, len),
                    Kind::Pointer => new(AttributeForm::Pointer, len),
                    Kind::LongCompressed => new(AttributeForm::Compressed, len),
                    Kind::Pad | Kind::Long => {
                        Self::varlena(len - LONG_HEADER_LEN, column.storage, column.alignment)
                    }
                }
            }
        })
    }

    /// With another method than pglz to compress it.
    #[must_use]
    pub const fn with_method(mut self, method: CompressionMethod) -> Self {
        self.method = method;
        self
    }

    /// Its form now.
    #[must_use]
    pub const fn form(&self) -> AttributeForm {
        self.form
    }

    /// What its column allows.
    #[must_use]
    pub const fn storage(&self) -> Storage {
        self.storage
    }

    /// What it is compressed with, if it comes to that.
    #[must_use]
    pub const fn method(&self) -> CompressionMethod {
        self.method
    }

    /// The bytes it takes in the tuple now, header included and padding not.
    #[must_use]
    pub const fn datum_len(&self) -> usize {
        self.len
    }

    /// What is to be done with it.
    #[must_use]
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    const fn new(form: AttributeForm, len: usize, storage: Storage, alignment: Alignment) -> Self {
        Self {
            form,
            storage,
            alignment,
            method: CompressionMethod::Pglz,
            len,
            decision: Decision::Keep,
            incompressible: false,
        }
    }

    /// Where it ends in a tuple whose attributes before it end at `end`.
    #[inline]
    pub(crate) const fn end_after(&self, end: usize) -> usize {
        let start = match self.form {
            AttributeForm::Fixed | AttributeForm::Long | AttributeForm::Compressed => {
                let round = self.alignment.bytes() - 1;
                end.saturating_add(round) & !round
            }
            _ => end,
        };
        start.saturating_add(self.len)
    }

    /// A value that is here and whose column is not plain: one that could go elsewhere.
    pub(crate) const fn is_movable(&self) -> bool {
        matches!(self.form, AttributeForm::Short | AttributeForm::Long | AttributeForm::Compressed)
            && !matches!(self.storage, Storage::Plain)
    }

    /// One that is worth an attempt to compress it, or to find out that its column does not allow it.
    pub(crate) const fn is_untried(&self) -> bool {
        self.is_movable() && !self.incompressible && !matches!(self.form, AttributeForm::Compressed)
    }

    pub(crate) const fn refuse_compression(&mut self) {
        self.incompressible = true;
    }

    pub(crate) const fn set_compressed(&mut self, datum_len: usize) {
        self.form = AttributeForm::Compressed;
        self.len = datum_len;
        self.decision = Decision::Compress { datum_len };
    }

    pub(crate) const fn set_moved_out(&mut self, pointer_len: usize) {
        self.decision = match self.decision {
            Decision::Compress { datum_len } => Decision::CompressAndMoveOut { datum_len },
            _ => Decision::MoveOut { datum_len: self.len },
        };
        self.form = AttributeForm::Pointer;
        self.len = pointer_len;
    }
}
