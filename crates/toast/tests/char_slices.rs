//! A slice by characters of a compressed text. A server fetched a byte slice guessed from the count,
//! and where that ended inside a two-byte character a new strictness called the data invalid, for some
//! starts and counts only. A character cut off by a slice is no fault; one broken in the value is.
mod common;

use common::{Listed, compressed, cut, fault, pointer_to};
use pgtoast_codec::CompressionMethod;
use pgtoast_toast::{CharSlice, ChunkOrder, ChunkSize, Detoaster, ToastError, Value};
use pgtoast_varlena::Varlena;

/// 137 165 bytes with characters of two, three and four bytes at irregular places.
fn text() -> String {
    let mut text = String::new();
    let mut state = 1_u32;
    while text.len() < 137_165 {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let word = match (state >> 16) % 13 {
            0 | 1 => "é",
            2 => "ñ",
            3 => "\u{20ac}",
            4 => "\u{1f418}",
            5 | 6 => "the elephant ",
            7..=9 => "x",
            _ => "remembers ",
        };
        text.push_str(word);
    }
    while text.len() > 137_165 {
        text.pop();
    }
    while text.len() < 137_165 {
        text.push('.');
    }
    text
}

/// The text under both methods and as it is: what is stored, and a pointer to it.
fn stored(text: &str) -> Vec<(Vec<u8>, Varlena<'static>)> {
    let pglz = compressed(text.as_bytes(), CompressionMethod::Pglz);
    let lz4 = compressed(text.as_bytes(), CompressionMethod::Lz4);
    let pointer = |len, method| Varlena::External(pointer_to(text.len(), len, method));
    vec![
        (pglz.clone(), pointer(pglz.len(), CompressionMethod::Pglz)),
        (lz4.clone(), pointer(lz4.len(), CompressionMethod::Lz4)),
        (text.as_bytes().to_vec(), pointer(text.len(), CompressionMethod::Pglz)),
    ]
}

#[test]
fn every_start_and_count_gives_the_characters() {
    let text = text();
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    assert_eq!(text.len(), 137_165);
    assert!((1..68).any(|chunk| !text.is_char_boundary(chunk * 1996)), "no border in a character");
    for (stored, datum) in stored(&text) {
        let source = Listed::new(cut(&stored, ChunkSize::default()), ChunkOrder::Index);
        let mut detoaster = Detoaster::new(source, ChunkSize::default());
        let last = chars.len() - 3;
        for start in (0..5000).step_by(7).chain(1208..1216).chain(last..chars.len() + 2) {
            for count in 1..=5 {
                let from = chars.get(start).map_or(text.len(), |(at, _)| *at);
                let to = chars.get(start + count).map_or(text.len(), |(at, _)| *at);
                let part = detoaster.slice_chars(&datum, CharSlice::new(start, count)).unwrap();
                assert_eq!(part, text[from..to], "{start} {count}");
            }
        }
        let tail = CharSlice { start: last, count: None };
        assert_eq!(detoaster.slice_chars(&datum, tail).unwrap().chars().count(), 3);
        let sql = CharSlice::from_sql(1212, Some(1)).unwrap();
        assert_eq!(detoaster.slice_chars(&datum, sql).unwrap(), text[chars[1211].0..chars[1212].0]);
    }
}

#[test]
fn every_start_of_the_whole_value_gives_the_characters_too() {
    let text = text();
    let datum = Varlena::Long(text.as_bytes());
    let value = Value::of_plain(&datum).unwrap();
    let mut rest = text.chars();
    for start in 0..300 {
        let expected: String = rest.clone().take(4).collect();
        assert_eq!(value.chars(CharSlice::new(start, 4)), Ok(&expected[..]));
        rest.next();
    }
}

#[test]
fn a_broken_character_is_reported_by_whoever_needs_it_and_what_lies_behind_it() {
    let mut bytes = text().into_bytes();
    let at = (40_000..).find(|&at| bytes[at] == b'x').unwrap();
    bytes[at] = 0xff;
    let before = std::str::from_utf8(&bytes[..at]).unwrap().chars().count();
    let datum = Varlena::External(pointer_to(bytes.len(), bytes.len(), CompressionMethod::Pglz));
    let source = Listed::new(cut(&bytes, ChunkSize::default()), ChunkOrder::Index);
    let mut detoaster = Detoaster::new(source, ChunkSize::default());
    let broken = ToastError::Utf8 { offset: at };
    assert!(detoaster.slice_chars(&datum, CharSlice::new(before - 5, 5)).is_ok());
    assert_eq!(fault(detoaster.slice_chars(&datum, CharSlice::new(before - 5, 6))), broken);
    assert_eq!(fault(detoaster.slice_chars(&datum, CharSlice::new(before + 5, 1))), broken);
    assert_eq!(detoaster.detoast(&datum).unwrap().to_str(), Err(broken));
}

#[test]
fn a_value_that_ends_inside_a_character_is_broken_at_its_end() {
    let bytes = "abcé".as_bytes();
    let datum = Varlena::Short(&bytes[..4]);
    let source = Listed::new(vec![], ChunkOrder::Index);
    let mut detoaster = Detoaster::new(source, ChunkSize::default());
    assert_eq!(detoaster.slice_chars(&datum, CharSlice::new(1, 2)).unwrap(), "bc");
    let error = fault(detoaster.slice_chars(&datum, CharSlice::new(1, 3)));
    assert_eq!(error, ToastError::Utf8 { offset: 3 });
}
