//! Values that repeat for thousands of bytes: match after match of the greatest length, each going on
//! where the one before ended. The readers take them together; where streams are cut, lengths are wrong
//! or one of the matches is another, they must still say what the naive reader says.
#![cfg(feature = "alloc")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
use pgtoast_pglz::{Compressor, PglzError, Strategy, decompress, decompress_prefix, naive, safe};

/// Under Miri fewer cases must do.
const STEP: usize = if cfg!(miri) { 997 } else { 1 };

/// Lengths of a case.
const MOST: usize = if cfg!(miri) { 2 } else { 5 };

/// All readers agree, whole and prefix; what the whole gives.
fn read(source: &[u8], raw_len: usize) -> Result<Vec<u8>, PglzError> {
    let targets = || [vec![0xaa; raw_len], vec![0x55; raw_len], vec![0xcc; raw_len]];
    let [mut fast, mut slow, mut plain] = targets();
    let verdict = naive::decompress(source, &mut plain);
    assert_eq!(decompress(source, &mut fast), verdict, "{source:02x?}, {raw_len}");
    assert_eq!(safe::decompress(source, &mut slow), verdict, "{source:02x?}, {raw_len}");
    if verdict.is_ok() {
        assert!(fast == plain && slow == plain, "{source:02x?}, {raw_len}");
    }
    let [mut fast, mut slow, mut other] = targets();
    let len = naive::decompress_prefix(source, &mut other);
    assert_eq!(decompress_prefix(source, &mut fast), len, "{source:02x?}, {raw_len}");
    assert_eq!(safe::decompress_prefix(source, &mut slow), len, "{source:02x?}, {raw_len}");
    if let Ok(len) = len {
        assert!(fast[..len] == other[..len] && slow[..len] == other[..len], "{source:02x?}");
    }
    verdict.map(|()| plain)
}

/// A value whose bytes repeat with this period, and its stream.
fn repeated(period: usize, len: usize) -> (Vec<u8>, Vec<u8>) {
    let value: Vec<u8> = (0..len).map(|i| (i % period * 37 % 251) as u8).collect();
    let stream = Compressor::new().compress_to_vec(&value, &Strategy::DEFAULT);
    (value, stream.expect("it repeats"))
}

#[test]
fn every_period_comes_back_whole() {
    for period in (1..40).chain([255, 272, 273, 274, 300, 600]).step_by(STEP.min(15)) {
        for len in [1000, 2459, 2460, 2461, 5000].into_iter().take(MOST) {
            let (value, stream) = repeated(period, len);
            assert_eq!(read(&stream, len), Ok(value), "period {period}");
        }
    }
}

#[test]
fn cut_anywhere_it_is_an_early_end_or_a_cut_tag() {
    for period in [1, 9, 16, 40] {
        let (value, stream) = repeated(period, 6000);
        for cut in (0..stream.len()).step_by(STEP.min(41)) {
            let error = read(&stream[..cut], value.len()).expect_err("not all is there");
            assert!(matches!(error, PglzError::Short { .. } | PglzError::Truncated { .. }));
        }
    }
}

/// A whole value ends before the next control byte, though a match before it was of the greatest length.
#[test]
fn nothing_is_read_behind_a_value_that_is_complete() {
    for period in [1, 9, 16, 40] {
        let (value, mut stream) = repeated(period, period + 16 * 273);
        let source_offset = stream.len();
        for behind in [0x00, 0x01, 0xff] {
            stream.push(behind);
            let source_len = stream.len();
            let trailing = PglzError::Trailing { source_offset, source_len };
            assert_eq!(read(&stream, value.len()), Err(trailing), "period {period}");
        }
    }
}

#[test]
fn a_target_of_any_length_ends_inside_some_match() {
    for period in [1, 9, 17] {
        let (_, stream) = repeated(period, 5000);
        for len in (0..5100).step_by(STEP) {
            let _ = read(&stream, len);
        }
    }
}

#[test]
fn another_match_among_them_is_taken_for_itself() {
    let (value, stream) = repeated(9, 5000);
    for at in (0..stream.len()).step_by(STEP.min(23)) {
        for change in [0x01, 0x02, 0x10, 0x80, 0xff].into_iter().step_by(STEP.min(3)) {
            let mut other = stream.clone();
            other[at] ^= change;
            for len in
                [2500, value.len(), value.len() - 1, value.len() + 300].into_iter().take(MOST)
            {
                let _ = read(&other, len);
            }
        }
    }
}
