//! Decimal numbers.
//!
//! ```text
//! long     | sign 2 bits, dscale 14 | weight i16 | digit | digit | ...     u16 each, to base 10 000
//! short    | 10, sign, dscale 6, weight 7 signed | digit | digit | ...
//! special  | 11 00 NaN, 11 01 infinity, 11 11 -infinity, 12 zeros |
//! ```
//! The first digit counts 10 000^weight. `dscale` is how many decimal places are shown.
//!
//! Source: `numeric.c`, `NumericShort` and `NumericLong` (REL_18).
use alloc::format;
use alloc::string::String;

pub(super) fn append(bytes: &[u8], text: &mut String) -> Result<(), usize> {
    let Some((header, rest)) = bytes.split_first_chunk() else { return Err(bytes.len()) };
    let header = u16::from_le_bytes(*header);
    let (is_negative, dscale, weight, digits) = match header & 0xc000 {
        0xc000 => {
            text.push_str(match header & 0xf000 {
                0xd000 => "Infinity",
                0xf000 => "-Infinity",
                _ => "NaN",
            });
            return Ok(());
        }
        0x8000 => {
            let low = i32::from(header & 0x3f);
            let weight = if header & 0x40 == 0 { low } else { low - 64 };
            (header & 0x2000 != 0, header >> 7 & 0x3f, weight, rest)
        }
        sign => {
            let Some((weight, digits)) = rest.split_first_chunk() else { return Err(bytes.len()) };
            (sign == 0x4000, header & 0x3fff, i16::from_le_bytes(*weight).into(), digits)
        }
    };
    let (digits, []) = digits.as_chunks() else { return Err(bytes.len()) };
    let at = bytes.len() - 2 * digits.len();
    let digit = |place: i32| -> Result<u16, usize> {
        let index = usize::try_from(place).ok().filter(|index| *index < digits.len());
        let Some(index) = index else { return Ok(0) };
        let digit = u16::from_le_bytes(digits[index]);
        if digit < 10_000 { Ok(digit) } else { Err(at + 2 * index) }
    };
    if is_negative {
        text.push('-');
    }
    if weight < 0 {
        text.push('0');
    }
    for place in 0..=weight {
        let digit = digit(place)?;
        text.push_str(&if place == 0 { format!("{digit}") } else { format!("{digit:04}") });
    }
    let dscale = usize::from(dscale);
    if dscale > 0 {
        text.push('.');
        let end = text.len() + dscale;
        let mut place = weight + 1;
        while text.len() < end {
            text.push_str(&format!("{:04}", digit(place)?));
            place += 1;
        }
        text.truncate(end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_a_server_prints_them() {
        let short = |dscale: u16, weight: i16, digits: &[u16]| {
            let header = 0x8000 | dscale << 7 | (weight & 0x7f).cast_unsigned();
            let all = [header].into_iter().chain(digits.iter().copied());
            all.flat_map(u16::to_le_bytes).collect::<alloc::vec::Vec<_>>()
        };
        for (bytes, expected) in [
            (short(0, 0, &[]), "0"),
            (short(2, 0, &[]), "0.00"),
            (short(0, 1, &[1, 5]), "10005"),
            (short(0, 2, &[1]), "100000000"),
            (short(3, 0, &[12, 3450]), "12.345"),
            (short(6, -2, &[1200]), "0.000012"),
            (short(8, -2, &[1200]), "0.00001200"),
            (alloc::vec![0, 0xc0], "NaN"),
            (alloc::vec![0, 0xf0], "-Infinity"),
        ] {
            let mut text = String::new();
            append(&bytes, &mut text).expect(expected);
            assert_eq!(text, expected);
        }
        assert_eq!(append(&[0], &mut String::new()), Err(1));
        assert_eq!(append(&short(0, 0, &[10_000]), &mut String::new()), Err(2));
    }
}
