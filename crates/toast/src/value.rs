//! A value itself, with nothing of how it was stored.
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::str;

use pgtoast_varlena::Varlena;

use crate::slice::char_range;
use crate::{ByteSlice, CharSlice, ToastError};

/// The raw payload of a datum: decompressed, fetched, no header.
///
/// Only reading makes one, so whatever works on values cannot be given a datum that is still a
/// pointer, and cannot take the pointer's 18 bytes for the value's length:
///
/// ```compile_fail
/// # use pgtoast_toast::Value;
/// # use pgtoast_varlena::Varlena;
/// fn characters(value: &Value<'_>) -> usize {
///     value.to_str().map_or(0, |text| text.chars().count())
/// }
/// fn of_a_column(stored: &Varlena<'_>) -> usize {
///     characters(stored) // a `Varlena` is no `Value`
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value<'a>(Cow<'a, [u8]>);

impl<'a> Value<'a> {
    /// The value of a datum that holds it as it is, `None` if there is more to do.
    #[must_use]
    pub const fn of_plain(varlena: &Varlena<'a>) -> Option<Self> {
        match varlena {
            Varlena::Short(payload) | Varlena::Long(payload) => Some(Self(Cow::Borrowed(payload))),
            Varlena::Compressed(_) | Varlena::External(_) => None,
        }
    }

    pub(crate) const fn borrowed(payload: &'a [u8]) -> Self {
        Self(Cow::Borrowed(payload))
    }

    pub(crate) const fn owned(payload: Vec<u8>) -> Self {
        Self(Cow::Owned(payload))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// In bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As text.
    ///
    /// # Errors
    /// [`ToastError::Utf8`] with the first byte that is none.
    pub fn to_str(&self) -> Result<&str, ToastError> {
        str::from_utf8(&self.0).map_err(|error| ToastError::Utf8 { offset: error.valid_up_to() })
    }

    /// The bytes of a slice.
    #[must_use]
    pub fn bytes(&self, slice: ByteSlice) -> &[u8] {
        &self.0[slice.of(self.0.len())]
    }

    /// The characters of a slice.
    ///
    /// # Errors
    /// [`ToastError::Utf8`] if what is in the slice or before it is not UTF-8.
    pub fn chars(&self, slice: CharSlice) -> Result<&str, ToastError> {
        let (text, range) = char_range(&self.0, true, slice)?;
        Ok(&text[range])
    }

    /// Its bytes, copied only if they were borrowed.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_owned()
    }

    /// The same bytes borrowed or owned.
    #[must_use]
    pub fn into_bytes(self) -> Cow<'a, [u8]> {
        self.0
    }
}

impl AsRef<[u8]> for Value<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
