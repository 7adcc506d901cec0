//! Arrays.
//!
//! ```text
//! byte 0         4             8            12          12 + 4n         12 + 8n
//!      | dims n  | data offset | element id | sizes ... | first index ... | null bitmap, if offset > 0 | elements
//! ```
//! The data offset counts the array's own header of 4 bytes, which is not among the bytes here. Elements start
//! at multiples of their alignment, counted the same way.
//!
//! Source: `array.h`, `arrayfuncs.c` (REL_18).
use alloc::format;
use alloc::string::String;

use pgtoast_page::AttributeLen;
use pgtoast_varlena::Varlena;

use super::append as append_value;
use crate::BuiltinType;

/// The header of 4 bytes that is not here.
const HEADER: usize = 4;
const MOST_DIMENSIONS: usize = 6;

pub(super) fn append(element: BuiltinType, bytes: &[u8], text: &mut String) -> Result<(), usize> {
    let word = |at: usize| -> Result<i32, usize> {
        let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
        word.map(|word| i32::from_le_bytes(*word)).ok_or(bytes.len())
    };
    let length = |at: usize| usize::try_from(word(at)?).map_err(|_| at);
    let (dimensions, data_offset) = (length(0)?, length(4)?);
    if word(8)?.cast_unsigned() != element.id.get() {
        return Err(8);
    }
    if dimensions > MOST_DIMENSIONS {
        return Err(0);
    }
    if dimensions == 0 {
        text.push_str("{}");
        return Ok(());
    }
    let mut sizes = [1; MOST_DIMENSIONS];
    let mut is_plain = true;
    let mut count = 1_usize;
    for (dimension, size) in sizes.iter_mut().enumerate().take(dimensions) {
        *size = length(12 + 4 * dimension)?;
        count = count.checked_mul(*size).ok_or(12_usize)?;
        is_plain &= word(12 + 4 * (dimensions + dimension))? == 1;
    }
    let sizes = &sizes[..dimensions];
    if !is_plain {
        for (dimension, size) in sizes.iter().enumerate() {
            let first = i64::from(word(12 + 4 * (dimensions + dimension))?);
            let last = first + i64::try_from(*size).unwrap_or(i64::MAX) - 1;
            text.push_str(&format!("[{first}:{last}]"));
        }
        text.push('=');
    }
    let bitmap_at = 12 + 8 * dimensions;
    let (bitmap, data) = match data_offset {
        0 => (None, (bitmap_at + HEADER).next_multiple_of(8)),
        data => (bytes.get(bitmap_at..bitmap_at + count.div_ceil(8)), data),
    };
    if data_offset > 0 && bitmap.is_none() {
        return Err(4);
    }
    let mut walk = Walk { element, bytes, at: data };
    for index in 0..count {
        open(index, sizes, text);
        let is_null = bitmap.is_some_and(|bits| bits[index / 8] >> (index % 8) & 1 == 0);
        if is_null {
            text.push_str("NULL");
        } else {
            walk.next(text)?;
        }
        close(index, sizes, text);
    }
    Ok(())
}

/// The elements that are not null.
struct Walk<'a> {
    element: BuiltinType,
    bytes: &'a [u8],
    /// Where the next one may start, the header counted.
    at: usize,
}

impl Walk<'_> {
    fn next(&mut self, text: &mut String) -> Result<(), usize> {
        let attribute = &self.element.attribute;
        let start = attribute.alignment.up(self.at);
        let end = self.bytes.len();
        let offset = start.checked_sub(HEADER).ok_or(4_usize)?;
        let rest = self.bytes.get(offset..).ok_or(end)?;
        let (value, len) = match attribute.len {
            AttributeLen::Fixed(len) => (rest.get(..len.into()).ok_or(end)?, usize::from(len)),
            _ => match Varlena::parse(rest, 0) {
                Ok((Varlena::Long(value) | Varlena::Short(value), len)) => (value, len),
                _ => return Err(offset),
            },
        };
        self.at = start + len;
        let mut one = String::new();
        append_value(self.element.id, value, &mut one).map_err(|at| offset + at)?;
        quote(&one, text);
        Ok(())
    }
}

/// A comma or the braces before an element.
fn open(index: usize, sizes: &[usize], text: &mut String) {
    if index > 0 {
        text.push(',');
    }
    let mut below = sizes.iter().product();
    for size in sizes {
        if index.is_multiple_of(below) {
            text.push('{');
        }
        below /= size.max(&1);
    }
}

/// The braces behind an element.
fn close(index: usize, sizes: &[usize], text: &mut String) {
    let mut below: usize = sizes.iter().product();
    for size in sizes {
        if (index + 1).is_multiple_of(below) {
            text.push('}');
        }
        below /= size.max(&1);
    }
}

fn quote(element: &str, text: &mut String) {
    let special = |one: char| {
        matches!(one, '"' | '\\' | '{' | '}' | ',') || one.is_ascii_whitespace() || one == '\x0b'
    };
    let needs_quotes =
        element.is_empty() || element.eq_ignore_ascii_case("null") || element.contains(special);
    if !needs_quotes {
        text.push_str(element);
        return;
    }
    text.push('"');
    for one in element.chars() {
        if matches!(one, '"' | '\\') {
            text.push('\\');
        }
        text.push(one);
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_and_commas_follow_the_sizes() {
        let mut text = String::new();
        for index in 0..6 {
            open(index, &[3, 2], &mut text);
            text.push_str(&format!("{index}"));
            close(index, &[3, 2], &mut text);
        }
        assert_eq!(text, "{{0,1},{2,3},{4,5}}");
    }
}
