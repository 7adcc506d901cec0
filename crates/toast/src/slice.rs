//! Which part of a value: by bytes as `bytea` has it, by characters as `text` has it.
//!
//! ```text
//! bytes         o........o + l            a prefix of limit = o + l bytes is decompressed
//! characters    s........s + n            at most 4 (s + n) bytes have to be looked at
//! ```
//! Source: `detoast.c`, `detoast_attr_slice`; `varlena.c`, `text_substring` (REL_18).
use core::ops::Range;
use core::str;

use crate::ToastError;

/// The most bytes of a character in UTF-8.
pub(crate) const MAX_CHAR_LEN: usize = 4;

/// Some bytes of a value. What lies behind its end is left out, and is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSlice {
    /// The first byte, from 0.
    pub offset: usize,
    /// How many; `None` for all that follow.
    pub len: Option<usize>,
}

impl ByteSlice {
    /// `len` bytes from `offset` on.
    #[must_use]
    pub const fn new(offset: usize, len: usize) -> Self {
        Self { offset, len: Some(len) }
    }

    /// As the server's slice call has it: a negative length means to the end, and so does one that
    /// takes the sum beyond 32 bits.
    ///
    /// # Errors
    /// [`ToastError::SliceNegative`] for a negative offset.
    #[doc(alias = "detoast_attr_slice")]
    pub fn from_server(offset: i32, len: i32) -> Result<Self, ToastError> {
        let Ok(start) = usize::try_from(offset) else {
            return Err(ToastError::SliceNegative { found: offset });
        };
        let len = if offset.checked_add(len).is_some() { usize::try_from(len).ok() } else { None };
        Ok(Self { offset: start, len })
    }

    /// The bytes of a value of `value_len` that it means.
    #[must_use]
    pub const fn of(self, value_len: usize) -> Range<usize> {
        let start = if self.offset < value_len { self.offset } else { value_len };
        match self.len {
            Some(len) if len < value_len - start => start..start + len,
            _ => start..value_len,
        }
    }
}

/// Some characters of a text. What lies behind its end is left out, and is no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharSlice {
    /// The first character, from 0.
    pub start: usize,
    /// How many; `None` for all that follow.
    pub count: Option<usize>,
}

impl CharSlice {
    /// `count` characters from `start` on, which counts from 0.
    #[must_use]
    pub const fn new(start: usize, count: usize) -> Self {
        Self { start, count: Some(count) }
    }

    /// As SQL's `substring(text, start, count)` has it: the first character is 1, and a start below
    /// that uses up the count.
    ///
    /// # Errors
    /// [`ToastError::SliceNegative`] for a negative count.
    #[doc(alias = "text_substring")]
    pub fn from_sql(start: i32, count: Option<i32>) -> Result<Self, ToastError> {
        let first = usize::try_from(start.max(1) - 1).unwrap_or_default();
        let Some(count) = count else { return Ok(Self { start: first, count: None }) };
        if count < 0 {
            return Err(ToastError::SliceNegative { found: count });
        }
        // A sum beyond 32 bits means to the end, which is as far as any text goes.
        let end = i64::from(start) + i64::from(count);
        let count = usize::try_from(end - i64::from(start.max(1))).unwrap_or_default();
        Ok(Self::new(first, count))
    }

    /// How many bytes from the start of a text certainly hold these characters; `None` for all.
    pub(crate) fn prefix_len(self) -> Option<usize> {
        self.start.checked_add(self.count?)?.checked_mul(MAX_CHAR_LEN)
    }
}

/// Where the characters of `slice` lie in `bytes`, which are a text (`is_whole`) or the start of one
/// that is long enough. It comes with as much of the text as had to be valid for that, or more.
///
/// A character that is cut off where a mere start of a text ends is not looked at. Whatever else is
/// no character is an error if it is in the slice or before it.
pub(crate) fn char_range(
    bytes: &[u8],
    is_whole: bool,
    slice: CharSlice,
) -> Result<(&str, Range<usize>), ToastError> {
    let (text, fault) = match str::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let offset = error.valid_up_to();
            let is_cut_off = error.error_len().is_none() && !is_whole;
            let text = str::from_utf8(&bytes[..offset]).unwrap_or_default();
            (text, (!is_cut_off).then_some(ToastError::Utf8 { offset }))
        }
    };
    // Behind the last character is where one more would start.
    let starts =
        |from: &str, count| from.char_indices().map(|(at, _)| at).chain([from.len()]).nth(count);
    let start = starts(text, slice.start);
    let end = match (start, slice.count) {
        (Some(start), Some(count)) => starts(&text[start..], count).map(|at| start + at),
        _ => None,
    };
    match (start, end, fault) {
        (Some(start), Some(end), _) => Ok((text, start..end)),
        (_, _, Some(fault)) => Err(fault),
        (start, _, None) => Ok((text, start.unwrap_or(text.len())..text.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_slices_follow_the_server() {
        let of = |offset, len| ByteSlice::from_server(offset, len).map(|slice| slice.of(10));
        assert_eq!(of(0, 10), Ok(0..10));
        assert_eq!(of(3, 4), Ok(3..7));
        assert_eq!(of(3, 0), Ok(3..3));
        assert_eq!(of(3, -1), Ok(3..10), "a negative length is to the end");
        assert_eq!(of(3, i32::MIN), Ok(3..10));
        assert_eq!(of(3, i32::MAX), Ok(3..10), "an overflow is to the end");
        assert_eq!(of(9, 5), Ok(9..10));
        assert_eq!(of(10, 5), Ok(10..10), "behind the end is nothing");
        assert_eq!(of(i32::MAX, i32::MAX), Ok(10..10));
        assert_eq!(of(-1, 5), Err(ToastError::SliceNegative { found: -1 }));
        assert_eq!(ByteSlice::new(usize::MAX, usize::MAX).of(10), 10..10);
        assert_eq!(ByteSlice::new(5, usize::MAX).of(10), 5..10);
    }

    #[test]
    fn char_slices_follow_sql() {
        let sql = |start, count| CharSlice::from_sql(start, count);
        assert_eq!(sql(1, Some(3)), Ok(CharSlice::new(0, 3)));
        assert_eq!(sql(0, Some(3)), Ok(CharSlice::new(0, 2)), "0 uses up one");
        assert_eq!(sql(-5, Some(3)), Ok(CharSlice::new(0, 0)));
        assert_eq!(sql(-5, None), Ok(CharSlice { start: 0, count: None }));
        assert_eq!(sql(3, None), Ok(CharSlice { start: 2, count: None }));
        assert_eq!(sql(i32::MAX, Some(i32::MAX)).unwrap().start, i32::MAX as usize - 1);
        assert_eq!(sql(i32::MIN, Some(i32::MAX)), Ok(CharSlice::new(0, 0)));
        assert_eq!(sql(1, Some(-1)), Err(ToastError::SliceNegative { found: -1 }));
    }

    fn chars(bytes: &[u8], is_whole: bool, start: usize, count: usize) -> Result<&str, ToastError> {
        char_range(bytes, is_whole, CharSlice::new(start, count)).map(|(text, range)| &text[range])
    }

    #[test]
    fn a_character_cut_off_by_the_slice_is_left_and_one_broken_in_the_value_is_an_error() {
        let text = "aé\u{20ac}z".as_bytes(); // at 0, 1, 3, 6
        assert_eq!(chars(text, true, 1, 2).unwrap(), "é\u{20ac}");
        assert_eq!(chars(text, true, 2, 9).unwrap(), "\u{20ac}z");
        assert_eq!(chars(text, true, 4, 1).unwrap(), "");
        // The start of a longer text, cut inside its second and third character.
        assert_eq!(chars(&text[..2], false, 0, 1).unwrap(), "a");
        assert_eq!(chars(&text[..5], false, 0, 2).unwrap(), "aé");
        // The same bytes as a whole text are broken, for whoever looks that far.
        assert_eq!(chars(&text[..2], true, 0, 2).unwrap_err(), ToastError::Utf8 { offset: 1 });
        assert_eq!(chars(&text[..2], true, 0, 1).unwrap(), "a");
        let broken = b"ab\xffcd";
        assert_eq!(chars(broken, false, 0, 1).unwrap(), "a");
        assert_eq!(chars(broken, false, 0, 3).unwrap_err(), ToastError::Utf8 { offset: 2 });
        assert_eq!(chars(broken, false, 3, 1).unwrap_err(), ToastError::Utf8 { offset: 2 });
    }
}
