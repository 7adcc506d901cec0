//! A heap tuple put together by the rules, one attribute after the other.
//!
//! Source: `heaptuple.c`, `htup_details.h`, `varatt.h` (REL_18, little-endian server).
use super::deform::Column;

/// The bytes of a tuple from its number of attributes on, byte 18: what does not depend on who inserts
/// it where. `plain` says of each column whether its storage forbids short headers.
///
/// # Panics
/// When a value is none of its column.
#[must_use]
pub fn form(columns: &[Column], plain: &[bool], values: &[Option<&[u8]>]) -> Vec<u8> {
    let has_null = values.iter().any(Option::is_none);
    let mut infomask: u16 = has_null.into();
    let mut bitmap = vec![0; if has_null { values.len().div_ceil(8) } else { 0 }];
    let mut data = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let Some(value) = value else { continue };
        if has_null {
            bitmap[index / 8] |= 1 << (index % 8);
        }
        let column = columns[index];
        let mut value = value.to_vec();
        if column.len < 0 {
            infomask |= 0x0002;
        }
        let mut aligned = column.len > 0;
        if column.len == -1 {
            let is_long = value[0] & 3 == 0;
            if is_long && !plain[index] && value.len() - 4 <= 126 {
                let header = u8::try_from((value.len() - 3) << 1 | 1).expect("seven bits");
                value.splice(..4, [header]);
            }
            if value[0] == 1 {
                infomask |= 0x0004;
            }
            aligned = value[0] & 1 == 0;
        }
        if aligned {
            data.resize(data.len().next_multiple_of(column.align), 0);
        }
        data.extend(value);
    }
    let hoff = (23 + bitmap.len()).next_multiple_of(8);
    let natts = u16::try_from(values.len()).expect("eleven bits");
    let mut tuple = [natts.to_le_bytes(), infomask.to_le_bytes()].concat();
    tuple.push(u8::try_from(hoff).expect("at most 232"));
    tuple.extend(bitmap);
    tuple.resize(hoff - 18, 0);
    tuple.extend(data);
    tuple
}
