//! Values like those that people store, made from a seed.
use crate::rng::Rng;

/// A kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corpus {
    /// Random bytes in base 64, in lines of 76: text that hardly compresses.
    Base64,
    /// Markup with many like tags and attributes.
    Html,
    /// Log entries as JSON, one a line: long like stretches, small differences.
    LogJson,
    /// Decimal numbers in lines.
    Numeric,
    /// English-like sentences from a small vocabulary.
    Prose,
    /// Any bytes at all; the only kind that is not text.
    Random,
    /// A short piece over and over, with a stray byte now and then.
    Repeats,
    /// Sentences with characters of one to four bytes.
    Utf8,
}

impl Corpus {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Base64,
        Self::Html,
        Self::LogJson,
        Self::Numeric,
        Self::Prose,
        Self::Random,
        Self::Repeats,
        Self::Utf8,
    ];

    /// Those that are valid UTF-8 without zero bytes, as a `text` column asks for.
    pub const TEXT: [Self; 7] = [
        Self::Base64,
        Self::Html,
        Self::LogJson,
        Self::Numeric,
        Self::Prose,
        Self::Repeats,
        Self::Utf8,
    ];

    /// Exactly `len` bytes of this kind.
    #[must_use]
    pub fn bytes(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        if self == Self::Random { rng.bytes(len) } else { self.text(rng, len).into_bytes() }
    }

    /// Exactly `len` bytes of text of this kind.
    ///
    /// # Panics
    /// For [`Corpus::Random`], which is not text.
    #[must_use]
    pub fn text(self, rng: &mut Rng, len: usize) -> String {
        assert!(self != Self::Random, "random bytes are not text");
        let mut text = String::with_capacity(len + 256);
        let unit = "abcdefghijklmnopqrstuvwxyz0123456789";
        let unit = &unit[..rng.between(1, unit.len())];
        while text.len() < len {
            match self {
                Self::Base64 => base64_line(rng, &mut text),
                Self::Html => html_row(rng, &mut text),
                Self::LogJson => log_entry(rng, &mut text),
                Self::Numeric => number(rng, &mut text),
                Self::Prose => sentence(rng, &WORDS, &mut text),
                Self::Repeats | Self::Random => repeat(rng, unit, &mut text),
                Self::Utf8 => sentence(rng, &WIDE_WORDS, &mut text),
            }
        }
        cut(&mut text, len);
        text
    }
}

/// Cuts to `len` bytes; where that would split a character, it is left out and dots fill up.
fn cut(text: &mut String, len: usize) {
    let mut end = len;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.extend(core::iter::repeat_n('.', len - end));
}

fn base64_line(rng: &mut Rng, text: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    text.extend((0..76).map(|_| char::from(rng.pick(DIGITS))));
    text.push('\n');
}

fn html_row(rng: &mut Rng, text: &mut String) {
    let class = rng.pick(&["row", "row odd", "row last", "header"]);
    let (id, word) = (rng.below(100_000), rng.pick(&WORDS));
    text.push_str(&format!("<tr class=\"{class}\"><td id=\"cell-{id}\">{word}</td></tr>\n"));
}

fn log_entry(rng: &mut Rng, text: &mut String) {
    let level = rng.pick(&["debug", "info", "warning", "error"]);
    let (second, request, micros) = (rng.below(86_400), rng.next_u64(), rng.below(1_000_000));
    let (path, status) = (rng.pick(&WORDS), rng.pick(&[200, 200, 200, 304, 404, 500]));
    text.push_str(&format!(
        "{{\"time\":{second},\"level\":\"{level}\",\"request\":\"{request:016x}\",\
         \"path\":\"/api/{path}\",\"status\":{status},\"micros\":{micros}}}\n"
    ));
}

fn number(rng: &mut Rng, text: &mut String) {
    let (whole, fraction) = (rng.below(10_000_000), rng.below(10_000));
    text.push_str(&format!("{whole}.{fraction:04}\n"));
}

fn repeat(rng: &mut Rng, unit: &str, text: &mut String) {
    for _ in 0..rng.between(1, 60) {
        text.push_str(unit);
    }
    if rng.chance(30) {
        text.push(char::from(b'A' + u8::try_from(rng.below(26)).expect("26 letters")));
    }
}

fn sentence(rng: &mut Rng, words: &[&str], text: &mut String) {
    for _ in 0..rng.between(4, 14) {
        text.push_str(rng.pick(words));
        text.push(' ');
    }
    text.pop();
    text.push_str(". ");
}

const WORDS: [&str; 32] = [
    "table",
    "of",
    "the",
    "a",
    "page",
    "and",
    "value",
    "stored",
    "row",
    "is",
    "in",
    "which",
    "chunk",
    "it",
    "server",
    "reads",
    "again",
    "long",
    "because",
    "index",
    "that",
    "was",
    "written",
    "by",
    "transaction",
    "at",
    "once",
    "when",
    "nobody",
    "looks",
    "every",
    "block",
];

const WIDE_WORDS: [&str; 16] = [
    "señor",
    "día",
    "naïve",
    "straße",
    "Œuvre",
    "привет",
    "мир",
    "таблица",
    "数据库",
    "页面",
    "値",
    "🦀",
    "🐘🐘",
    "e",
    "plain",
    "ñandú",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_exactly_the_length_asked_for() {
        for corpus in Corpus::ALL {
            for len in [0, 1, 2, 3, 5, 76, 77, 126, 127, 2000, 10_001] {
                let mut rng = Rng::new(len as u64);
                assert_eq!(corpus.bytes(&mut rng, len).len(), len, "{corpus:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_value() {
        for corpus in Corpus::ALL {
            let (once, again) = (&mut Rng::new(3), &mut Rng::new(3));
            assert_eq!(corpus.bytes(once, 5000), corpus.bytes(again, 5000), "{corpus:?}");
        }
    }

    #[test]
    fn text_holds_no_zero_byte() {
        for corpus in Corpus::TEXT {
            assert!(!corpus.text(&mut Rng::new(5), 5000).contains('\0'), "{corpus:?}");
        }
    }

    #[test]
    fn wide_text_mixes_characters_of_all_four_lengths() {
        let text = Corpus::Utf8.text(&mut Rng::new(9), 5000);
        for len in 1..=4 {
            assert!(text.chars().any(|c| c.len_utf8() == len), "{len}");
        }
    }
}
