//! The dense compressor keeps to the format, gives every value back, and never does worse than the
//! plain one.
#![cfg(feature = "alloc")]
use pgtoast_pglz::{
    Compressor, DenseCompressor, PglzError, Strategy, decompress, maximum_output_size, naive,
};

fn text(len: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let words =
        ["select", "from", "where", "order by", "id", "name", "created_at", "=", "and", ","];
    let mut text = Vec::new();
    while text.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
        text.push(b' ');
    }
    text.truncate(len);
    text
}

fn assert_reads_back(stream: &[u8], value: &[u8]) {
    for read in [decompress, naive::decompress] {
        let mut back = vec![0xaa; value.len()];
        assert_eq!(read(stream, &mut back), Ok(()));
        assert!(back == value, "{} bytes", value.len());
    }
}

#[test]
fn streams_give_their_values_back_and_are_no_larger_than_the_plain_ones() {
    let (mut dense, mut plain) = (DenseCompressor::new(), Compressor::new());
    let counter: Vec<u8> = (0..5000_u32).flat_map(|i| i.to_le_bytes()).collect();
    for value in [
        text(120),
        text(300),
        text(2000),
        text(70_000),
        text(200_000),
        vec![0; 100],
        vec![b'x'; 300_000],
        b"abc".repeat(1000),
        counter,
    ] {
        let stream = dense.compress_to_vec(&value).expect("it repeats");
        assert_reads_back(&stream, &value);
        let plain =
            plain.compress_to_vec(&value, &Strategy::ALWAYS).map_or(value.len(), |s| s.len());
        assert!(stream.len() <= plain, "{} bytes, plain {plain}", stream.len());
    }
}

#[test]
fn a_later_start_that_saves_an_item_is_taken() {
    // The plain compressor takes "abcd" and then has to spell out what is left of "bcdefgh".
    let value = b"abcdX bcdefgh Y abcdefgh Z abcdefgh";
    let dense = DenseCompressor::new().compress_to_vec(value).expect("it repeats");
    let plain = Compressor::new().compress_to_vec(value, &Strategy::ALWAYS).expect("it repeats");
    assert_reads_back(&dense, value);
    assert!(dense.len() < plain.len(), "{} and {}", dense.len(), plain.len());
}

/// No server writes this distance; every server reads it.
#[test]
fn a_match_is_found_4095_back_and_no_farther() {
    let block: Vec<u8> = (0..0x40).collect();
    let stream_len = |run: usize| {
        let value = [&block[..], &vec![b'z'; run], &block[..]].concat();
        let stream = DenseCompressor::new().compress_to_vec(&value).expect("it repeats");
        assert_reads_back(&stream, &value);
        stream.len()
    };
    assert!(stream_len(4095 - 64) + 50 < stream_len(4096 - 64));
}

#[test]
fn what_does_not_get_smaller_is_refused() {
    let mut dense = DenseCompressor::new();
    let noise: Vec<u8> = (0..4000_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
    for value in [b"".as_slice(), b"a", b"abcd", b"aaaa"] {
        assert_eq!(dense.compress_to_vec(value), None, "{value:?}");
    }
    assert_eq!(dense.compress_to_vec(b"aaaaa"), Some(vec![0x02, b'a', 0x01, 0x01]));
    if let Some(stream) = dense.compress_to_vec(&noise) {
        assert!(stream.len() < noise.len());
        assert_reads_back(&stream, &noise);
    }
}

#[test]
fn a_target_that_might_be_too_small_is_an_error() {
    let value = [b'x'; 100];
    let needed = maximum_output_size(value.len());
    let mut target = [0xc5; 120];
    let verdict = DenseCompressor::new().compress(&value, &mut target[..needed - 1]);
    assert_eq!(verdict, Err(PglzError::TargetTooSmall { needed, available: needed - 1 }));
    assert!(target.iter().all(|&byte| byte == 0xc5));
}
