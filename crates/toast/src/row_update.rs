//! What an update does about the values out of line of the row that it replaces.
//!
//! ```text
//! old value    new value                           old chunks   new value
//! pointer      the same pointer, every byte        stay         keeps the pointer
//! pointer      another pointer                     go           is fetched, then decided on
//! pointer      null, or a value that is here       go           is decided on
//! not out      a pointer                           -            is fetched, then decided on
//! not out      null, or a value that is here       -            is decided on
//! ```
//! What is fetched stays compressed, unless its column is plain. An insert is an update of nulls. The new
//! chunks are written first, then the old ones deleted, then the row takes its place.
//!
//! Source: `toast_helper.c`, `toast_tuple_init` and `toast_tuple_cleanup` (REL_18).
use pgtoast_page::{AttributeDescriptor, AttributeLen, Storage, Value};
use pgtoast_varlena::{Kind, ToastPointer};

use crate::ToastError;

/// What becomes of one attribute, old and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeUpdate {
    /// Where the new value comes from.
    pub new: NewValue,
    /// The value whose chunks are to be deleted.
    pub delete: Option<ToastPointer>,
}

/// Where a new row's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewValue {
    /// It is what it is: null, or a value that is here.
    AsItIs,
    /// The old row's pointer, byte for byte: its chunks are not touched, and the toaster leaves it alone.
    CarriedOver,
    /// A pointer to some other value, to be fetched first; it stays compressed if it is.
    Fetch(ToastPointer),
    /// A pointer to some other value, to be fetched and decompressed first, because the column is plain.
    FetchRaw(ToastPointer),
}

impl AttributeUpdate {
    /// What an update of one column does.
    ///
    /// # Errors
    /// [`ToastError::Varlena`] for a pointer that is none.
    pub fn new(
        column: &AttributeDescriptor<'_>,
        old: &Value<'_>,
        new: &Value<'_>,
    ) -> Result<Self, ToastError> {
        if column.len != AttributeLen::Varlena {
            return Ok(Self { new: NewValue::AsItIs, delete: None });
        }
        let (old, new) = (pointer_bytes(old), pointer_bytes(new));
        // The slices are as long as their tags make them, so pointers of two lengths differ.
        if let (Some(old), Some(new)) = (old, new)
            && old == new
        {
            ToastPointer::parse(old, 0)?;
            return Ok(Self { new: NewValue::CarriedOver, delete: None });
        }
        let delete = old.map(|bytes| ToastPointer::parse(bytes, 0)).transpose()?;
        let new = match new.map(|bytes| ToastPointer::parse(bytes, 0)).transpose()? {
            None => NewValue::AsItIs,
            Some(pointer) if column.storage == Storage::Plain => NewValue::FetchRaw(pointer),
            Some(pointer) => NewValue::Fetch(pointer),
        };
        Ok(Self { new, delete })
    }
}

/// The bytes of a value that is out of line.
fn pointer_bytes<'a>(value: &Value<'a>) -> Option<&'a [u8]> {
    value
        .bytes()
        .filter(|bytes| bytes.first().is_some_and(|first| Kind::of(*first) == Kind::Pointer))
}
