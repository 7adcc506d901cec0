//! The start of a value is the start of the value, whatever the method.
use pgtoast_codec::{
    COMPRESSION_INFO_LEN, CodecError, CompressionMethod, compress, decompress, decompress_prefix,
    decompress_to_vec, lz4, maximum_raw_len, stored_prefix_len,
};

use crate::input::Input;

/// Five bytes of choices, then a value or, if the choices say so, a foreign stream.
pub fn codec_prefix(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.u8();
    let (raw_len, prefix_len) = (usize::from(input.u16()), usize::from(input.u16()));
    let rest = input.rest();
    let method = if choices & 1 == 0 { CompressionMethod::Pglz } else { CompressionMethod::Lz4 };
    if choices & 2 == 0 {
        ours(method, rest, prefix_len);
    } else {
        foreign(method, rest, raw_len, prefix_len);
    }
}

/// What was compressed comes back, whole and as each prefix of as much of the stream as is said to
/// be needed for it.
fn ours(method: CompressionMethod, raw: &[u8], prefix_len: usize) {
    let Some(stream) = compress(method, raw) else { return };
    assert!(stream.len() <= raw.len());
    assert!(raw.len() <= maximum_raw_len(method, stream.len()));
    assert_eq!(decompress_to_vec(method, &stream, raw.len()).as_deref(), Ok(raw));

    let prefix_len = prefix_len % (raw.len() + 1);
    let stored_len = stream.len() + COMPRESSION_INFO_LEN;
    let needed = stored_prefix_len(method, prefix_len, stored_len) - COMPRESSION_INFO_LEN;
    let mut prefix = vec![0xee; prefix_len];
    let found = decompress_prefix(method, &stream[..needed], raw.len(), &mut prefix);
    assert_eq!(found, Ok(prefix_len));
    assert_eq!(prefix, raw[..prefix_len]);
}

/// A stream from anywhere: the same answer over any old content, a prefix that agrees with the
/// whole, our lz4 decoder in agreement with the one for whole values.
fn foreign(method: CompressionMethod, stream: &[u8], raw_len: usize, prefix_len: usize) {
    let whole = twice(raw_len, |target| decompress(method, stream, target).map(|()| raw_len));
    let to_vec = decompress_to_vec(method, stream, raw_len);
    assert_eq!(whole, to_vec);
    if method == CompressionMethod::Lz4 && raw_len <= maximum_raw_len(method, stream.len()) {
        let ours = twice(raw_len, |target| lz4::decompress(stream, target).map(|()| raw_len));
        assert_eq!(whole, ours);
        let mut target = vec![0xee; raw_len];
        let theirs = lz4_flex::block::decompress_into(stream, &mut target);
        assert_eq!(whole.is_ok(), theirs.is_ok_and(|len| len == raw_len));
    }

    let prefix_len = prefix_len.min(raw_len);
    let prefix = twice(prefix_len, |target| decompress_prefix(method, stream, raw_len, target));
    match (whole, prefix) {
        (Ok(whole), Ok(prefix)) => {
            assert_eq!(prefix.len(), prefix_len);
            assert!(whole.starts_with(&prefix));
        }
        (Ok(_), Err(error)) => panic!("whole, but its first {prefix_len} bytes: {error}"),
        (Err(error), Ok(prefix)) if prefix_len == raw_len => {
            panic!("{} bytes, but whole: {error}", prefix.len())
        }
        (Err(_), _) => {}
    }
}

/// Runs `decode` over two different old contents and returns what it says it wrote.
fn twice(
    len: usize,
    decode: impl Fn(&mut [u8]) -> Result<usize, CodecError>,
) -> Result<Vec<u8>, CodecError> {
    let (mut once, mut twice) = (vec![0x00; len], vec![0xff; len]);
    let verdict = decode(&mut once);
    assert_eq!(verdict, decode(&mut twice));
    let written = verdict?;
    assert_eq!(once[..written], twice[..written], "old memory came out");
    once.truncate(written);
    Ok(once)
}
