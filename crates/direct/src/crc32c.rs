//! CRC-32C, eight bytes at a time, over tables that are made when this is compiled.
//!
//! Source: the Castagnoli polynomial, reflected; the method is Kounavis and Berry's "slicing by 8", 2005.

/// A sum in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32c(u32);

impl Crc32c {
    pub(crate) const fn new() -> Self {
        Self(u32::MAX)
    }

    pub(crate) fn update(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let [a, b, c, d, e, f, g, h] = *word;
            let low = self.0 ^ u32::from_le_bytes([a, b, c, d]);
            let table = |slice: usize, byte: u32| TABLES[slice][(byte & 0xff) as usize];
            self.0 = table(7, low)
                ^ table(6, low >> 8)
                ^ table(5, low >> 16)
                ^ table(4, low >> 24)
                ^ table(3, e.into())
                ^ table(2, f.into())
                ^ table(1, g.into())
                ^ table(0, h.into());
        }
        for byte in rest {
            self.0 = step(self.0, *byte);
        }
        self
    }

    pub(crate) const fn finish(self) -> u32 {
        !self.0
    }
}

const fn step(sum: u32, byte: u8) -> u32 {
    TABLES[0][((sum ^ byte as u32) & 0xff) as usize] ^ (sum >> 8)
}

static TABLES: [[u32; 256]; 8] = tables();

#[expect(clippy::cast_possible_truncation, reason = "below 256")]
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut slice = 1;
    while slice < 8 {
        byte = 0;
        while byte < 256 {
            let before = tables[slice - 1][byte];
            tables[slice][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        slice += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sums_come_out() {
        // RFC 3720, appendix B.4, and the customary check value.
        for (bytes, sum) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(Crc32c::new().update(bytes).finish(), sum);
            let (front, back) = bytes.split_at(bytes.len() / 3);
            assert_eq!(Crc32c::new().update(front).update(back).finish(), sum);
        }
    }
}
