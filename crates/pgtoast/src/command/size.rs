//! Numbers of bytes, read from the command line and printed for people.
use core::fmt;
use core::str::FromStr;

/// A number of bytes. It prints as people like it, `1.5 MB`, and is read with a unit as servers read theirs: a
/// kB is 1024 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ByteCount(pub(super) u64);

const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim().to_ascii_lowercase());
        let unit = unit.replace("ib", "b");
        let power = match unit.as_str() {
            "" => Some(0),
            "k" | "m" | "g" | "t" => {
                UNITS.iter().position(|one| one.to_ascii_lowercase() == format!("{unit}b"))
            }
            unit => UNITS.iter().position(|one| one.to_ascii_lowercase() == unit),
        };
        let bytes = power.and_then(|power| {
            let scale = 1024_u64.checked_pow(u32::try_from(power).ok()?)?;
            number.parse::<u64>().ok()?.checked_mul(scale)
        });
        bytes.map(Self).ok_or_else(|| "a number of bytes, or with a unit as in 64MB".to_owned())
    }
}

impl fmt::Display for ByteCount {
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is printed")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut scaled, mut unit) = (self.0 as f64, 0);
        while scaled >= 1023.95 && unit + 1 < UNITS.len() {
            scaled /= 1024.0;
            unit += 1;
        }
        let text = match unit {
            0 => format!("{} {}", self.0, UNITS[0]),
            unit => format!("{scaled:.1} {}", UNITS[unit]),
        };
        f.pad(&text)
    }
}

/// A count with thin groups of three digits: `1 234 567`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouped(pub(super) u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() * 4 / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(' ');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_servers() {
        for (text, bytes) in [
            ("0", 0),
            ("123", 123),
            ("1kB", 1024),
            ("64MB", 64 << 20),
            ("64 mib", 64 << 20),
            ("2g", 2 << 30),
            ("1TB", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        for text in ["", "MB", "-1", "1.5MB", "1XB", "99999999999999999999", "99999999TB"] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_print_with_one_digit_behind_the_point() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 kB"),
            (1536, "1.5 kB"),
            ((1 << 20) - 1, "1.0 MB"),
            (u64::MAX, "16777216.0 TB"),
        ] {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
        assert_eq!(Grouped(1_234_567).to_string(), "1 234 567");
        assert_eq!(Grouped(999).to_string(), "999");
    }
}
