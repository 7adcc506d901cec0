//! Datums that PostgreSQL 15 wrote to heap pages of an x86-64 server, and what it would not compress.
//!
//! A compressed datum is 4 bytes `total_len << 2 | 2`, 4 bytes value length, and the stream; all
//! little-endian, method bits 0 for pglz.
#![cfg(feature = "alloc")]
#![expect(clippy::cast_possible_truncation, reason = "small numbers of a test")]
use md5::{Digest, Md5};
use pgtoast_pglz::{
    CharSign, Compressor, Strategy, compress, decompress, decompress_prefix,
    maximum_compressed_size,
};

const ALPHABET: &[u8] = b"bcdefghijklmnopqrstuvwxyz";

fn run_then_alphabet(run: usize, rest: usize) -> Vec<u8> {
    [&vec![b'a'; run], &ALPHABET[..rest]].concat()
}

/// The bytes 0x00 to 0x3f, then a run of `z`, then the same bytes again.
fn far_apart(run: usize) -> Vec<u8> {
    let block: Vec<u8> = (0..0x40).collect();
    [&block[..], &vec![b'z'; run], &block[..]].concat()
}

/// The generator the vectors were made with: the same in any language.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        (state >> 16) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn noise_then_run(len: usize) -> Vec<u8> {
    [noise(len), vec![b'a'; 5000]].concat()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).expect("a hex digit") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The datum a server would store.
fn datum(value: &[u8]) -> Option<Vec<u8>> {
    let stream = compress(value, &Strategy::DEFAULT)?;
    let total_len = 8 + stream.len() as u32;
    let header = [(total_len << 2 | 2).to_le_bytes(), (value.len() as u32).to_le_bytes()];
    Some([&header.concat(), &stream[..]].concat())
}

/// The stream gives back its value: whole, and every prefix from just enough of the stream.
fn assert_reads_back(datum: &[u8], value: &[u8]) {
    let stream = &datum[8..];
    let mut whole = vec![0xaa; value.len()];
    assert_eq!(decompress(stream, &mut whole), Ok(()));
    assert_eq!(whole, value);
    for len in 0..=value.len() {
        let enough = maximum_compressed_size(len as u64, stream.len() as u64) as usize;
        let mut prefix = vec![0xaa; len];
        assert_eq!(decompress_prefix(&stream[..enough], &mut prefix), Ok(len), "prefix of {len}");
        assert_eq!(prefix, value[..len]);
    }
}

#[test]
fn the_generator_is_the_one_the_vectors_were_made_with() {
    assert_eq!(hex(&noise(16)), "c67e816b4bfbe2fb54f6bddf7c1ce187");
}

#[test]
fn streams_equal_the_servers() {
    let pangram = "The quick brown fox jumps over the lazy dog. ".repeat(2);
    let block: Vec<u8> = (0..0x40).collect();
    let zeros = |len| vec![0; len];
    for (what, value, expected) in [
        ("32 x a", run_then_alphabet(32, 0), "360000002000000002610f010d"),
        (
            "match of 17",
            run_then_alphabet(18, 14),
            "6e0000002000000002610e016263646566670068696a6b6c6d6e6f",
        ),
        (
            "match of 18: a third byte, zero",
            run_then_alphabet(19, 13),
            "6e0000002000000002610f01006263646566670068696a6b6c6d6e",
        ),
        (
            "match of 19",
            run_then_alphabet(20, 12),
            "6a0000002000000002610f01016263646566670068696a6b6c6d",
        ),
        ("match of 273", run_then_alphabet(274, 0), "360000001201000002610f01ff"),
        ("one byte too many", run_then_alphabet(275, 0), "3a0000001301000002610f01ff61"),
        ("3 bytes too many", run_then_alphabet(277, 0), "420000001501000002610f01ff616161"),
        ("4 too many: found", run_then_alphabet(278, 0), "3e0000001601000006610f01ff0101"),
        ("abc x 20", b"abc".repeat(20), "3e0000003c000000086162630f0327"),
        (
            "abcde x 10 and abc",
            [b"abcde".repeat(10), b"abc".to_vec()].concat(),
            "46000000350000002061626364650f051e",
        ),
        (
            "3 bytes at the end, in the bucket of the byte",
            [zeros(60), vec![1], zeros(3)].concat(),
            "42000000400000000a000f0129010005",
        ),
        ("64 x zero", zeros(64), "360000004000000002000f012d"),
        ("40 x 0x80", vec![0x80; 40], "360000002800000002800f0115"),
        (
            "a block twice",
            block.repeat(2),
            "52010000800000000000010203040506070008090a0b0c0d0e0f001011121314151617001819\
             1a1b1c1d1e1f0020212223242526270028292a2b2c2d2e2f0030313233343536370038393a3b\
             3c3d3e3f010f402e",
        ),
        (
            "a sentence twice",
            pangram.trim_end().as_bytes().to_vec(),
            "fa00000059000000005468652071756963006b2062726f776e2000666f78206a756d70007320\
             6f7665722074006865206c617a792020646f672e200f2d1a",
        ),
        (
            "little enough is saved",
            run_then_alphabet(17, 15),
            "760000002000000002610d016263646566670068696a6b6c6d6e6f0070",
        ),
    ] {
        let datum = datum(&value).unwrap_or_else(|| panic!("{what}: refused"));
        assert_eq!(hex(&datum), expected, "{what}");
        assert_reads_back(&datum, &value);
    }
}

#[test]
fn a_match_is_found_4094_back_and_not_at_4095() {
    for (run, len, digest) in [
        (4030, 132, "4985e71f76f8b14ebcb8ec3aa23423fc"),
        (4031, 200, "867d3ce7e0021812d6c93ba53ecf3036"),
        (4032, 200, "c117c51f7b8a40d9e04783a759a99e39"),
    ] {
        let value = far_apart(run);
        let datum = datum(&value).expect("compressed");
        assert_eq!(datum.len(), len, "distance {}", run + 64);
        assert_eq!(hex(&Md5::digest(&datum)), digest, "distance {}", run + 64);
        assert_reads_back(&datum, &value);
    }
    assert_eq!(hex(&Md5::digest(far_apart(4030))), "3971c0b6ce6f3053ac0fdabebae0e7ac");
    let near = datum(&far_apart(4030)).expect("compressed");
    assert!(near.ends_with(&unhex("0f01bd01fffe2e")));
}

/// "Give up after a kilobyte without a match" means 1024 bytes of output: 910 literals and their 114
/// control bytes. So the first match may start at value byte 909, and not one later.
#[test]
fn the_first_match_must_start_by_value_byte_909() {
    let value = noise_then_run(908);
    let datum = datum(&value).expect("the run's second byte is byte 909");
    assert_eq!(datum.len(), 1090);
    assert_eq!(hex(&Md5::digest(&datum)), "0b97b724e067fe057880fff010459730");
    assert_reads_back(&datum, &value);

    assert_eq!(compress(&noise_then_run(909), &Strategy::DEFAULT), None);
    assert_eq!(compress(&noise_then_run(1024), &Strategy::DEFAULT), None);
    let later = compress(&noise_then_run(909), &Strategy::ALWAYS).expect("never gives up");
    assert_eq!(later.len(), 1084);
}

#[test]
fn values_under_32_bytes_and_savings_under_a_quarter_are_refused() {
    assert_eq!(compress(&run_then_alphabet(31, 0), &Strategy::DEFAULT), None);
    let stream_len = |run, rest| {
        compress(&run_then_alphabet(run, rest), &Strategy::DEFAULT).map(|stream| stream.len())
    };
    // The server keeps neither of the next two: with its 8 bytes of header they save too little. That
    // rule is the toaster's and not the codec's.
    assert_eq!(stream_len(16, 16), Some(22));
    assert_eq!(stream_len(15, 17), Some(23));
    // 24 is three quarters of 32, and the stream must stay below.
    assert_eq!(stream_len(14, 18), None);
}

/// Case from the field: a kilobyte of base64 before ten kilobytes that repeat is stored as it is,
/// where lz4 makes a seventh of it. The server decides so, and so must we.
#[test]
fn an_incompressible_first_kilobyte_ends_the_try_however_well_the_rest_repeats() {
    const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut letters: Vec<u8> =
        noise(1366).iter().map(|byte| BASE64[usize::from(byte % 64)]).collect();
    letters.extend_from_slice(b"==");
    let mut value = letters.chunks(76).collect::<Vec<_>>().join(&b'\n');
    value.extend_from_slice(&b"Postgres! ".repeat(1000));
    assert_eq!(value.len(), 11_385);
    assert_eq!(compress(&value, &Strategy::DEFAULT), None);
    let patient = Strategy { first_success_by: u32::MAX, ..Strategy::DEFAULT };
    assert!(compress(&value, &patient).is_some_and(|stream| stream.len() < 1800));
}

/// Bytes above 127 hash differently where C's `char` has no sign, and the search stops elsewhere.
#[test]
fn the_sign_of_char_shows_in_the_stream_and_not_in_the_value() {
    let value = unhex(
        "6020602020a0202060a020a0602020a060602060202020602020a0a020a020a020a020602060a020a0a06060a0\
         a06020a0a02060a0a0a02060a0a0a020a06020",
    );
    for (sign, expected) in [
        (
            CharSign::Signed,
            "006020602020a02020d060a020a0010a600211021514a020030260021da0606048a0a060011660a00505a0006020",
        ),
        (
            CharSign::Unsigned,
            "006020602020a02020d060a020a0010a600211021514a020030260021da06060c8a0a060011660a005050032",
        ),
    ] {
        let mut compressor = Compressor::with_char_sign(sign);
        let stream = compressor.compress_to_vec(&value, &Strategy::DEFAULT).expect("compressed");
        assert_eq!(hex(&stream), expected, "{sign:?}");
        let mut whole = vec![0; value.len()];
        assert_eq!(decompress(&stream, &mut whole), Ok(()));
        assert_eq!(whole, value);
    }
    let signed = Compressor::new().compress_to_vec(&value, &Strategy::DEFAULT);
    assert_eq!(signed.map(|stream| stream.len() + 8), Some(0xda >> 2), "the server's own length");
}
