//! Values to compress, the same in every run: what people keep in wide columns, written by small
//! grammars from a seed.
//!
//! Real text repeats itself in its own way, and a codec's speed depends on it. The grammars draw
//! words and shapes with the skew that real ones have; they do not repeat a fixed list, because a
//! codec would then find yesterday's sentence again in every window.
mod binary;
mod cyrillic;
mod markup;
mod pages;
mod prose;
mod records;
mod source;

use pgtoast_testkit::Rng;

/// A kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corpus {
    /// Noise in 64 letters, in lines.
    Base64,
    /// Rows of numbers, separated by commas.
    Csv,
    /// Russian sentences in UTF-8.
    Cyrillic,
    /// Vectors of small numbers in single precision.
    Floats,
    /// Pages that servers wrote, their tuples in other orders.
    HeapPage,
    /// A page of markup: head, navigation, a listing.
    Html,
    /// A service's log as JSON, one entry a line.
    LogJson,
    /// Pages as a server writes them, of made-up rows with short texts.
    MadePage,
    /// Bytes without any order.
    Noise,
    /// English sentences.
    Prose,
    /// `Postgres!` again and again: what a compressor does best.
    Repeat,
    /// An array of like objects, each with every key spelt out.
    RowJson,
    /// Rust functions.
    Source,
    /// Nested records with namespaces.
    Xml,
}

impl Corpus {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 14] = [
        Self::Prose,
        Self::Cyrillic,
        Self::LogJson,
        Self::RowJson,
        Self::Html,
        Self::Xml,
        Self::Source,
        Self::Csv,
        Self::HeapPage,
        Self::MadePage,
        Self::Floats,
        Self::Base64,
        Self::Noise,
        Self::Repeat,
    ];

    /// As it stands in the tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Csv => "numeric CSV",
            Self::Cyrillic => "UTF-8 Cyrillic",
            Self::Floats => "float vectors",
            Self::HeapPage => "heap page",
            Self::Html => "HTML",
            Self::LogJson => "log JSON",
            Self::MadePage => "made heap page",
            Self::Noise => "random",
            Self::Prose => "prose",
            Self::Repeat => "repeat",
            Self::RowJson => "row JSON",
            Self::Source => "Rust source",
            Self::Xml => "XML",
        }
    }

    /// Exactly `len` bytes: another value for every seed.
    #[must_use]
    pub fn value(self, seed: u64, len: usize) -> Vec<u8> {
        let mut rng = Rng::new(seed);
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            match self {
                Self::Base64 => binary::base64_line(&mut rng, &mut bytes),
                Self::Floats => binary::floats(&mut rng, &mut bytes),
                Self::HeapPage => pages::of_a_server(&mut rng, &mut bytes),
                Self::MadePage => pages::of_made_rows(&mut rng, &mut bytes),
                Self::Noise => binary::noise(&mut rng, &mut bytes),
                _ => bytes = self.text(&mut rng, len).into_bytes(),
            }
        }
        bytes.truncate(len);
        bytes
    }

    /// `len` bytes or more of those kinds that are text.
    fn text(self, rng: &mut Rng, len: usize) -> String {
        let mut text = String::with_capacity(len + 4096);
        self.open(rng, &mut text);
        while text.len() < len {
            match self {
                Self::Csv => records::csv_row(rng, &mut text),
                Self::Cyrillic => cyrillic::sentence(rng, &mut text),
                Self::Html => markup::html_entry(rng, &mut text),
                Self::LogJson => records::log_entry(rng, &mut text),
                Self::Prose => prose::sentence(rng, &mut text),
                Self::RowJson => records::json_row(rng, &mut text),
                Self::Source => source::function(rng, &mut text),
                Self::Xml => markup::xml_record(rng, &mut text),
                Self::Repeat
                | Self::Base64
                | Self::Floats
                | Self::HeapPage
                | Self::MadePage
                | Self::Noise => {
                    text.push_str("Postgres!");
                }
            }
        }
        text
    }

    /// At least `total` bytes in distinct values of `len` bytes each.
    ///
    /// One value decoded again and again would measure how well the processor remembers its
    /// branches. For the same reason values that could be equal start at different places.
    #[must_use]
    pub fn values(self, len: usize, total: usize) -> Vec<Vec<u8>> {
        let count = total.div_ceil(len.max(1)).max(1);
        (0..count as u64).map(|index| self.value(index + 1, len)).collect()
    }

    fn open(self, rng: &mut Rng, text: &mut String) {
        match self {
            Self::Html => markup::html_head(rng, text),
            Self::Xml => markup::xml_head(text),
            Self::RowJson => text.push('['),
            Self::Repeat => text.push_str(&format!("{:016x}", rng.next_u64())),
            _ => {}
        }
    }
}

/// Two lower-case hexadecimal digits a byte.
fn hex(rng: &mut Rng, bytes: usize) -> String {
    rng.bytes(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn values_have_the_length_asked_for_and_are_distinct() {
        for corpus in Corpus::ALL {
            for len in [300, 2000, 16_384] {
                let values = corpus.values(len, 1 << 17);
                assert!(values.len() * len >= 1 << 17);
                assert!(values.iter().all(|value| value.len() == len), "{}", corpus.name());
                let distinct: HashSet<_> = values.iter().collect();
                assert_eq!(distinct.len(), values.len(), "{} {len}", corpus.name());
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_value() {
        for corpus in Corpus::ALL {
            assert_eq!(corpus.value(7, 5000), corpus.value(7, 5000), "{}", corpus.name());
        }
    }
}
