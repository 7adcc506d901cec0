//! What is not text: bytes that do not repeat, and bytes that hardly do.
#![expect(clippy::cast_precision_loss, reason = "a sum of dice is small")]
use pgtoast_testkit::Rng;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

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
