//! A datum is compressed as the server compresses one, or left alone.
//! Source: `toast_internals.c`, `toast_compress_datum` (REL_18).
use pgtoast_codec::{
    CompressionMethod, DatumCompressor, compress, decompress_to_vec, saves_enough,
};
use pgtoast_varlena::{Varlena, encode_long, encode_short};

const METHODS: [CompressionMethod; 2] = [CompressionMethod::Pglz, CompressionMethod::Lz4];

#[test]
fn what_a_server_stored_for_repeats_is_what_comes_out() {
    let mut compressor = DatumCompressor::new();
    let mut target = Vec::new();
    let raw = [b'a'; 32];
    let len = compressor.compress(CompressionMethod::Pglz, &Varlena::Long(&raw), &mut target);
    // Read back from a heap page: length 13 and the flag, 32 raw bytes by pglz, the stream.
    assert_eq!(target, [0x36, 0, 0, 0, 0x20, 0, 0, 0, 0x02, 0x61, 0x0f, 0x01, 0x0d]);
    assert_eq!(len, Some(13));
}

#[test]
fn short_and_long_datums_of_one_value_compress_alike_and_come_back() {
    let mut compressor = DatumCompressor::new();
    for method in METHODS {
        for len in 0..=126 {
            let raw: Vec<u8> = (0..len).map(|at| b"pgtoast "[at % 8]).collect();
            let (mut short, mut long) = (Vec::new(), Vec::new());
            encode_short(&raw, &mut short).unwrap();
            encode_long(&raw, &mut long).unwrap();
            let mut targets = [vec![0xee], vec![0xee]];
            let lens: Vec<_> = [&short, &long]
                .into_iter()
                .zip(&mut targets)
                .map(|(datum, target)| {
                    let (varlena, _) = Varlena::parse(datum, 0).unwrap();
                    compressor.compress(method, &varlena, target)
                })
                .collect();
            assert_eq!(lens[0], lens[1], "{method}, {len} bytes");
            assert_eq!(targets[0], targets[1], "{method}, {len} bytes");
            let Some(kept) = lens[0] else {
                assert_eq!(targets[0], [0xee], "the target is as it was");
                continue;
            };
            assert!(kept + 2 < len);
            assert_eq!(targets[0].len(), 1 + kept);
            let (datum, _) = Varlena::parse(&targets[0], 1).unwrap();
            let Varlena::Compressed(compressed) = datum else { panic!("{datum:?}") };
            assert_eq!((compressed.info.len(), compressed.info.method()), (len, Ok(method)));
            assert_eq!(decompress_to_vec(method, compressed.stream, len), Ok(raw));
        }
    }
}

#[test]
fn a_stream_that_saves_too_little_is_not_kept() {
    // 32 bytes: pglz makes 21 bytes of seventeen equal ones and the alphabet, 22 of sixteen.
    let alphabet = b"bcdefghijklmnopqrstuvwxyz";
    for (repeats, kept) in [(17, Some(29)), (16, None)] {
        let raw = [&vec![b'a'; repeats][..], &alphabet[..32 - repeats]].concat();
        let mut target = Vec::new();
        let found = DatumCompressor::new().compress(
            CompressionMethod::Pglz,
            &Varlena::Long(&raw),
            &mut target,
        );
        assert_eq!((found, target.len()), (kept, kept.unwrap_or(0)), "{repeats}");
    }
}

#[test]
fn tables_kept_from_value_to_value_change_no_stream() {
    let mut compressor = DatumCompressor::new();
    let mut target = Vec::new();
    let mut kept = 0;
    for round in 0..40_usize {
        let raw: Vec<u8> = (0..round * 97).map(|at| b"abcabdab,;"[at * at / 7 % 10]).collect();
        target.clear();
        let found = compressor.compress(CompressionMethod::Pglz, &Varlena::Long(&raw), &mut target);
        let stream = compress(CompressionMethod::Pglz, &raw);
        let stream = stream.filter(|stream| saves_enough(raw.len(), stream.len()));
        assert_eq!(found.is_some(), stream.is_some(), "{round}");
        assert_eq!(target.get(8..).unwrap_or_default(), stream.unwrap_or_default(), "{round}");
        kept += usize::from(found.is_some());
    }
    assert!(kept > 30, "{kept}");
}

#[test]
fn what_is_compressed_or_elsewhere_stays_as_it_is() {
    let compressed = [0x36, 0, 0, 0, 0x20, 0, 0, 0, 0x02, 0x61, 0x0f, 0x01, 0x0d];
    let pointer = [1, 18, 0xd5, 7, 0, 0, 0xd1, 7, 0, 0, 0xb2, 0x40, 0, 0, 0xb0, 0x40, 0, 0];
    for datum in [&compressed[..], &pointer] {
        let (datum, _) = Varlena::parse(datum, 0).unwrap();
        let mut target = vec![7];
        for method in METHODS {
            assert_eq!(DatumCompressor::new().compress(method, &datum, &mut target), None);
        }
        assert_eq!(target, [7]);
    }
}

#[test]
fn a_target_that_has_grown_enough_is_not_moved() {
    let raw = b"Postgres! ".repeat(300);
    let mut compressor = DatumCompressor::new();
    let mut target = Vec::new();
    for method in METHODS {
        target.clear();
        compressor.compress(method, &Varlena::Long(&raw), &mut target).unwrap();
        let (at, capacity) = (target.as_ptr(), target.capacity());
        target.clear();
        compressor.compress(method, &Varlena::Long(&raw), &mut target).unwrap();
        assert_eq!((target.as_ptr(), target.capacity()), (at, capacity), "{method}");
    }
}
