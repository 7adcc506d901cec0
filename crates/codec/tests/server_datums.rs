//! Datums that a PostgreSQL 15 server stored inline, each read back from its heap page with
//! `pageinspect`, and a value of 62 400 bytes under both methods.
use pgtoast_codec::{
    CompressionMethod, compress, decompress, decompress_prefix, decompress_to_vec, saves_enough,
};
use pgtoast_varlena::Varlena;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
        .collect()
}

/// Stored datums, and the values SQL gives for them.
fn datums() -> Vec<(&'static str, Vec<u8>)> {
    let pangram = "The quick brown fox jumps over the lazy dog.";
    let mut squares: Vec<u8> = (1..=300_u32).map(|i| 33 + (i * i * 7 % 90) as u8).collect();
    squares.extend("xyz".repeat(100).bytes());
    let alphabet = "bcdefghijklmnopqrstuvwxyz";
    vec![
        // lz4
        ("4a000000180000401e610100506161616161", vec![b'a'; 24]),
        ("560000003c0000403f616263030021506263616263", b"abc".repeat(20)),
        (
            "5e000000350000405f6162636465050018506465616263",
            [&b"abcde".repeat(10)[..], b"abc"].concat(),
        ),
        (
            "0201000059000040ff1e54686520717569636b2062726f776e20666f78206a756d7073206f76657220746865\
             206c617a7920646f672e202d00145020646f672e",
            format!("{pangram} {pangram}").into_bytes(),
        ),
        ("5a000000e80300401f7a0100ffffffd2507a7a7a7a7a", vec![b'z'; 1000]),
        (
            "d601000058020040ff4b283d603776696a793c6746332e374e734c33282b3c5b2e69585560794621645b6073\
             3a694c3d3c4964336a554e556a3364493c3d4c693a73605b64214679605558692e5b3c2b28334c734e372e33\
             46673c796a697637603d28215a00bf3f78797a0300ff1250797a78797a",
            squares,
        ),
        ("52000000c80000402fc3a90200ae50a9c3a9c3a9", "é".repeat(100).into_bytes()),
        // pglz
        ("360000002000000002610f010d", vec![b'a'; 32]),
        ("360000001201000002610f01ff", vec![b'a'; 274]),
        ("3a0000001301000002610f01ff61", vec![b'a'; 275]),
        ("3e0000001601000006610f01ff0101", vec![b'a'; 278]),
        ("3e0000003c000000086162630f0327", b"abc".repeat(20)),
        ("360000004000000002000f012d", vec![0; 64]),
        (
            "760000002000000002610d016263646566670068696a6b6c6d6e6f0070",
            [&[b'a'; 17][..], &alphabet.as_bytes()[..15]].concat(),
        ),
        (
            "fa00000059000000005468652071756963006b2062726f776e2000666f78206a756d700073206f7665722074\
             006865206c617a792020646f672e200f2d1a",
            format!("{pangram} {pangram}").into_bytes(),
        ),
    ]
}

#[test]
fn every_stored_datum_gives_the_value_and_each_of_its_prefixes() {
    for (hex, raw) in datums() {
        let datum = bytes(hex);
        let (Varlena::Compressed(value), len) = Varlena::parse(&datum, 0).unwrap() else {
            panic!("{hex}: not compressed")
        };
        assert_eq!((len, value.info.len()), (datum.len(), raw.len()));
        let method = value.info.method().unwrap();
        assert_eq!(decompress_to_vec(method, value.stream, raw.len()), Ok(raw.clone()), "{hex}");
        for len in 0..raw.len() + 3 {
            let mut target = vec![0xee; len];
            let count = decompress_prefix(method, value.stream, raw.len(), &mut target).unwrap();
            assert_eq!(count, len.min(raw.len()));
            assert_eq!(target[..count], raw[..count], "{hex}");
        }
    }
}

#[test]
fn what_the_server_stored_compressed_we_compress_too_and_pglz_to_the_same_bytes() {
    for (hex, raw) in datums() {
        let datum = bytes(hex);
        let method =
            if datum[7] >> 6 == 0 { CompressionMethod::Pglz } else { CompressionMethod::Lz4 };
        let stream = compress(method, &raw).unwrap();
        assert!(saves_enough(raw.len(), stream.len()), "{hex}");
        match method {
            CompressionMethod::Pglz => assert_eq!(stream, datum[8..], "{hex}"),
            CompressionMethod::Lz4 => {
                assert_eq!(decompress_to_vec(method, &stream, raw.len()), Ok(raw), "{hex}");
            }
        }
    }
}

#[test]
fn one_value_of_62_400_bytes_is_the_same_under_both_methods() {
    // The hex md5 of each number from 1 to 1200, each with 20 times `z` behind it.
    let pglz = include_bytes!("data/md5_1200.pglz");
    let lz4 = include_bytes!("data/md5_1200.lz4");
    // Compression info: 62 400 and the method, as it stands in front of the stream.
    assert_eq!((&pglz[..4], pglz.len()), (&[0xc0, 0xf3, 0, 0][..], 42_652));
    assert_eq!((&lz4[..4], lz4.len()), (&[0xc0, 0xf3, 0, 0x40][..], 39_555));
    let mut by_pglz = vec![0; 62_400];
    decompress(CompressionMethod::Pglz, &pglz[4..], &mut by_pglz).unwrap();
    let mut by_lz4 = vec![0xff; 62_400];
    decompress(CompressionMethod::Lz4, &lz4[4..], &mut by_lz4).unwrap();
    assert!(by_pglz == by_lz4, "the two methods disagree");
    assert!(by_lz4.starts_with(b"c4ca4238a0b923820dcc509a6f75849bzzzzzzzzzzzzzzzzzzzzc81e728d"));
    assert!(by_lz4.chunks(52).all(|line| line[32..] == [b'z'; 20]));
    assert_eq!(compress(CompressionMethod::Pglz, &by_pglz).as_deref(), Some(&pglz[4..]));
    // The codes of one method are no stream of the other.
    assert!(decompress(CompressionMethod::Pglz, &lz4[4..], &mut by_pglz).is_err());
    assert!(decompress(CompressionMethod::Lz4, &pglz[4..], &mut by_lz4).is_err());
}
