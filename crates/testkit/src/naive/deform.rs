//! A heap tuple taken apart by the rules, one attribute after the other.
//!
//! Source: `htup_details.h`, `tupmacs.h`, `varatt.h` (REL_18, little-endian server).
use core::ops::Range;

/// What deforming needs to know of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Bytes of a value, -1 for a varlena, -2 for a zero-terminated string.
    pub len: i16,
    /// What a value is aligned to: 1, 2, 4 or 8 bytes.
    pub align: usize,
}

/// Where each column's bytes lie in `tuple`, header included; `None` for nulls and for columns
/// that the tuple is too old to have.
///
/// # Panics
/// When `tuple` is not one of a table of these columns.
#[must_use]
pub fn deform(tuple: &[u8], columns: &[Column]) -> Vec<Option<Range<usize>>> {
    let stored = usize::from(u16_at(tuple, 18) & 0x07ff);
    let has_null = u16_at(tuple, 20) & 0x0001 != 0;
    let data_at = usize::from(tuple[22]);
    let mut offset = data_at;
    let mut ranges = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let is_null = has_null && index < stored && tuple[23 + index / 8] >> (index % 8) & 1 == 0;
        if is_null || index >= stored {
            ranges.push(None);
            continue;
        }
        let padded = column.len == -1 && tuple[offset] == 0;
        if column.len > 0 || padded {
            offset = (offset - data_at).next_multiple_of(column.align) + data_at;
        }
        let len = match column.len {
            -1 => varlena_len(&tuple[offset..]),
            -2 => tuple[offset..].iter().position(|byte| *byte == 0).expect("a zero byte") + 1,
            fixed => usize::try_from(fixed).expect("a length"),
        };
        ranges.push(Some(offset..offset + len));
        offset += len;
    }
    assert!(offset <= tuple.len(), "attributes end at {offset} of {}", tuple.len());
    ranges
}

/// The whole length of the varlena at the start of `bytes`.
fn varlena_len(bytes: &[u8]) -> usize {
    match bytes[0] {
        0x01 => match bytes[1] {
            18 => 18,
            4 | 20 => 22,
            tag => panic!("pointer tag {tag}"),
        },
        short if short & 1 == 1 => usize::from(short >> 1),
        _ => {
            let header = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            usize::try_from(header >> 2).expect("30 bits")
        }
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}
