//! Bytes as text and back.
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

/// Two lower-case digits a byte.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes any text");
    }
    text
}

/// The bytes that `digits` spell.
///
/// # Errors
/// When their number is odd or one of them is none.
pub fn decode(digits: &str) -> Result<Vec<u8>> {
    ensure!(digits.len().is_multiple_of(2), "an odd number of digits: {}", digits.len());
    let value = |digit: u8| char::from(digit).to_digit(16).context("not a hexadecimal digit");
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| Ok(u8::try_from(value(pair[0])? * 16 + value(pair[1])?)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<_> = (0..=255).collect();
        assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
    }

    #[test]
    fn half_a_byte_and_other_letters_are_errors() {
        assert!(decode("abc").is_err());
        assert!(decode("zz").is_err());
        assert!(decode("é").is_err());
    }
}
