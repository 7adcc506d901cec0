//! CRC-32C, a byte at a time: what is spilled is read once, from a disk.
//!
//! Source: the Castagnoli polynomial, reflected.

/// The sum over some bytes that follow others, whose sum is `before`; 0 before the first.
pub(crate) fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8);
    !bytes.iter().fold(!before, step)
}

static TABLE: [u32; 256] = table();

#[expect(clippy::cast_possible_truncation, reason = "below 256")]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_customary_check_value_comes_out_in_one_piece_or_two() {
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), 0xe306_9283);
    }
}
