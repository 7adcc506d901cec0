//! What is not text: bytes that do not repeat, bytes that hardly do, and a page of a table.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers drawn to fit their fields"
)]
use pgtoast_base::BlockSize;
use pgtoast_testkit::Rng;

use super::prose;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAGE: usize = BlockSize::KIB_8.bytes();
const PAGE_HEADER: usize = 24;
const LINE_POINTER: usize = 4;

/// A line of 76 letters, as mail and dumps break it.
pub(super) fn base64_line(rng: &mut Rng, bytes: &mut Vec<u8>) {
    bytes.extend(rng.bytes(76).iter().map(|&byte| BASE64[usize::from(byte) % 64]));
    bytes.push(b'\n');
}

/// A kilobyte without any order.
pub(super) fn noise(rng: &mut Rng, bytes: &mut Vec<u8>) {
    bytes.extend(rng.bytes(1024));
}

/// Sixteen numbers around zero in single precision, as embeddings have them.
pub(super) fn floats(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..16 {
        // Four dice make a bell.
        let sum: usize = (0..4).map(|_| rng.below(10_000)).sum();
        let number = (sum as f32 - 20_000.0) / 400_000.0;
        bytes.extend(number.to_le_bytes());
    }
}

/// A heap page as a server lays it out: header, line pointers, a gap, and tuples from the end down,
/// each with its 24-byte header, an id, a time, a price and a short text.
pub(super) fn heap_page(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let mut page = vec![0; PAGE];
    let block = rng.below(1 << 16) as u16;
    let xid = rng.between(700, 90_000) as u32;
    let first_id = rng.below(1 << 24) as u32;
    let (mut lower, mut upper) = (PAGE_HEADER, PAGE);
    for item in 1_u16.. {
        let mut text = String::new();
        for _ in 0..rng.between(2, 9) {
            text.push_str(prose::word(rng));
            text.push(' ');
        }
        text.truncate(120);
        let mut tuple = Vec::with_capacity(128);
        tuple.extend((xid + u32::from(item) / 16).to_le_bytes());
        tuple.extend([0; 8]);
        for part in [0, block, item] {
            tuple.extend(part.to_le_bytes());
        }
        // Four attributes; variable width; xmin committed, xmax invalid; no nulls.
        tuple.extend([4, 0, 0x02, 0x09, 24, 0]);
        tuple.extend((first_id + u32::from(item)).to_le_bytes());
        tuple.extend((rng.between(100, 99_999) as u32).to_le_bytes());
        tuple.extend((750_000_000_000_000 + rng.below(1 << 36) as u64).to_le_bytes());
        tuple.push((text.len() + 1) as u8 * 2 + 1);
        tuple.extend(text.as_bytes());
        let stored = tuple.len().next_multiple_of(8);
        if lower + LINE_POINTER + stored > upper {
            break;
        }
        upper -= stored;
        page[upper..upper + tuple.len()].copy_from_slice(&tuple);
        let pointer = upper as u32 | 1 << 15 | (tuple.len() as u32) << 17;
        page[lower..lower + LINE_POINTER].copy_from_slice(&pointer.to_le_bytes());
        lower += LINE_POINTER;
    }
    let header = [0, rng.below(1 << 30) as u32, rng.below(1 << 16) as u32];
    for (at, word) in header.into_iter().enumerate() {
        page[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
    }
    for (at, half) in [(12, lower), (14, upper), (16, PAGE), (18, PAGE | 4)] {
        page[at..at + 2].copy_from_slice(&(half as u16).to_le_bytes());
    }
    bytes.extend(page);
}
