//! A value handed out in pieces is the whole value, and fails where and as the whole does.
#![cfg(feature = "std")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
use pgtoast_pglz::{Compressor, PglzError, Strategy, decompress, decompress_pieces};

fn pieces(source: &[u8], raw_len: usize) -> (Vec<u8>, Result<(), PglzError>) {
    let mut value = Vec::new();
    let verdict = decompress_pieces(source, raw_len, |piece| {
        assert!(!piece.is_empty() && piece.len() <= 16 << 10);
        value.extend_from_slice(piece);
        Ok(())
    });
    (value, verdict)
}

/// Text, noise, runs, and matches from near and far, in turns.
fn value(len: usize, mut seed: u32) -> Vec<u8> {
    let mut value: Vec<u8> = Vec::new();
    let mut next = |bound: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % bound
    };
    while value.len() < len {
        let run = 1 + next(400);
        let back = 1 + next(4094.min(value.len() + 1));
        match next(3) {
            0 => value.extend((0..run / 8).map(|_| b"0123456789abcdef"[next(16)])),
            1 if back < value.len() => (0..run).for_each(|_| value.push(value[value.len() - back])),
            _ => value.extend(std::iter::repeat_n(b'x', run)),
        }
    }
    value.truncate(len);
    value
}

#[test]
fn pieces_add_up_to_the_value_at_every_length_around_the_buffers() {
    let mut compressor = Compressor::new();
    let lens = (0..40).chain(4080..4110).chain(12_000..12_010).chain(16_370..16_400);
    for len in lens.chain([28_000, 32_768, 40_000, 100_000, 1_000_000]) {
        if cfg!(miri) && len % 4001 > 100 {
            continue;
        }
        let value = value(len, 3 + len as u32);
        let Some(stream) = compressor.compress_to_vec(&value, &Strategy::ALWAYS) else { continue };
        let (joined, verdict) = pieces(&stream, len);
        assert_eq!(verdict, Ok(()), "{len} bytes");
        assert!(joined == value, "{len} bytes");
    }
}

#[test]
fn a_damaged_stream_fails_as_it_does_whole() {
    let value = value(if cfg!(miri) { 18_000 } else { 60_000 }, 9);
    let stream = Compressor::new().compress_to_vec(&value, &Strategy::ALWAYS).expect("it repeats");
    let mut bad = 0;
    for at in (0..stream.len()).step_by(if cfg!(miri) { 997 } else { 37 }) {
        for change in [0x01, 0x0f, 0xf0, 0xff] {
            let mut damaged = stream.clone();
            damaged[at] ^= change;
            let mut whole = vec![0; value.len()];
            let expected = decompress(&damaged, &mut whole);
            let (joined, verdict) = pieces(&damaged, value.len());
            assert_eq!(verdict, expected, "byte {at} ^ {change:#x}");
            match verdict {
                Ok(()) => assert!(joined == whole, "byte {at} ^ {change:#x}"),
                Err(_) => bad += 1,
            }
        }
        let (_, verdict) = pieces(&stream[..at], value.len());
        assert_eq!(verdict, decompress(&stream[..at], &mut vec![0; value.len()]), "cut at {at}");
    }
    assert!(bad > if cfg!(miri) { 0 } else { 100 }, "{bad} errors are too few to mean much");
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let value = value(50_000, 5);
    let stream = Compressor::new().compress_to_vec(&value, &Strategy::ALWAYS).expect("it repeats");
    assert_eq!(
        pieces(&stream, 50_001).1,
        Err(PglzError::Short { target_offset: 50_000, expected: 50_001 })
    );
    assert!(matches!(pieces(&stream, 49_000).1, Err(PglzError::Trailing { .. })));
    assert_eq!(pieces(&[], 0), (vec![], Ok(())));
}

#[test]
fn a_sink_that_fails_ends_it_at_once() {
    let stream =
        Compressor::new().compress_to_vec(&[7; 100_000], &Strategy::DEFAULT).expect("a run");
    let mut calls = 0;
    let verdict: Result<(), std::io::Error> = decompress_pieces(&stream, 100_000, |_| {
        calls += 1;
        Err(std::io::ErrorKind::StorageFull.into())
    });
    assert_eq!(verdict.map_err(|error| error.kind()), Err(std::io::ErrorKind::StorageFull));
    assert_eq!(calls, 1);
}
