//! What rows hold: all of it follows from a key and a generation, so that whoever reads a row, or any
//! part of it, can tell whether it is right.

fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

/// How long the body of a row is, in bytes: kept in the row up to 1500, out of line from 2600 on;
/// `None` for a null.
pub(crate) fn body_len(key: i64, generation: i64) -> Option<usize> {
    let random = mix(key.cast_unsigned(), !generation.cast_unsigned());
    let within = (random >> 32) as usize;
    match random % 100 {
        0..5 => None,
        5..8 => Some(0),
        8..50 => Some(within % 300),
        50..65 => Some(300 + within % 1200),
        65..95 => Some(2600 + within % 6000),
        _ => Some(9000 + within % 40_000),
    }
}

/// Bytes of a body from `offset` on; they do not compress.
pub(crate) fn body_part(key: i64, generation: i64, offset: usize, target: &mut [u8]) {
    let seed = mix(key.cast_unsigned(), generation.cast_unsigned());
    for (i, byte) in target.iter_mut().enumerate() {
        let at = offset + i;
        *byte = mix(seed, at as u64 / 8).to_le_bytes()[at % 8];
    }
}

pub(crate) fn body(key: i64, generation: i64) -> Option<Vec<u8>> {
    let mut body = vec![0; body_len(key, generation)?];
    body_part(key, generation, 0, &mut body);
    Some(body)
}

/// A short text, or none.
pub(crate) fn note(key: i64, generation: i64) -> Option<String> {
    let random = mix(generation.cast_unsigned(), key.cast_unsigned());
    let repeat = (random >> 8) as usize % 12;
    (!random.is_multiple_of(7)).then(|| format!("{key}.{generation} ").repeat(repeat))
}
