//! Arrays of one element, as `pg_attribute` keeps a column's missing value in.
//!
//! ```text
//! byte 0            4             8              12       16              12 + 8 × dimensions, or
//!      | dimensions | null bitmap | element type | length | lower bound | … `- where the bitmap ends
//! ```
//! Offsets here are those of the payload, behind the varlena's header of 4 bytes; the elements are
//! aligned as if the header were there.
//!
//! Source: `array.h` (REL_18).
use pgtoast_base::maxalign;
use pgtoast_page::AttributeLen;
use pgtoast_varlena::{LONG_HEADER_LEN, Varlena, datum_len};

use crate::Column;

/// The bytes of the only element of an array of the column's type; `None` if there is not one element,
/// or it is null.
pub(crate) fn single_element(payload: &[u8], column: &Column) -> Option<Vec<u8>> {
    let word = |at: usize| payload.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let (dimensions, null_bitmap) = (word(0)?, word(4)?);
    if dimensions != 1 || null_bitmap != 0 || word(12)? != 1 {
        return None;
    }
    let start = maxalign(LONG_HEADER_LEN + 12 + 8) - LONG_HEADER_LEN;
    let element = payload.get(start..)?;
    let len = match column.len {
        AttributeLen::Fixed(len) => usize::from(len),
        AttributeLen::Varlena => datum_len(element, 0).ok()?,
        AttributeLen::CString => element.iter().position(|byte| *byte == 0)? + 1,
    };
    element.get(..len).map(<[u8]>::to_vec)
}

/// The elements of a one-dimensional array of texts without nulls, as options are kept; fewer where it
/// is broken.
pub(crate) fn texts(payload: &[u8]) -> Vec<String> {
    let word = |at: usize| payload.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
    let mut found = Vec::new();
    if (word(0), word(4)) != (Some(1), Some(0)) {
        return found;
    }
    let count = word(12).unwrap_or_default();
    let mut at = maxalign(LONG_HEADER_LEN + 12 + 8) - LONG_HEADER_LEN;
    for _ in 0..count {
        // Elements start at multiples of 4, of which the header's 4 bytes are one.
        at = at.next_multiple_of(4);
        let Ok((varlena, len)) = Varlena::parse(payload, at) else { break };
        if let Varlena::Short(text) | Varlena::Long(text) = varlena {
            found.push(String::from_utf8_lossy(text).into_owned());
        }
        at += len;
    }
    found
}
