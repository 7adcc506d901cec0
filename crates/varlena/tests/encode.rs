//! Written headers: what a server stored for the same payload, and the limits.
use pgtoast_varlena::{
    CompressionMethod, MAX_PAYLOAD_LEN, Varlena, VarlenaError, compressed_header,
    encode_compressed, encode_long, encode_short, long_header, short_header,
};

#[test]
fn headers_equal_those_a_server_wrote() {
    assert_eq!(short_header(0), Ok(0x03));
    assert_eq!(short_header(3), Ok(0x09));
    assert_eq!(short_header(126), Ok(0xff));
    assert_eq!(long_header(127), Ok([0x0c, 0x02, 0, 0]));
    assert_eq!(long_header(1996), Ok([0x40, 0x1f, 0, 0]));
    // 32 times `a` became 5 bytes of pglz; 24 times `a` became 10 bytes of lz4.
    let pglz = compressed_header(32, CompressionMethod::Pglz, 5);
    assert_eq!(pglz, Ok([0x36, 0, 0, 0, 0x20, 0, 0, 0]));
    let lz4 = compressed_header(24, CompressionMethod::Lz4, 10);
    assert_eq!(lz4, Ok([0x4a, 0, 0, 0, 0x18, 0, 0, 0x40]));
}

#[test]
fn what_is_encoded_parses_back() {
    let mut bytes = vec![0xaa; 4];
    encode_short(b"short", &mut bytes).unwrap();
    encode_long(b"long", &mut bytes).unwrap();
    encode_compressed(99, CompressionMethod::Lz4, b"stream", &mut bytes).unwrap();
    let (short, len) = Varlena::parse(&bytes, 4).unwrap();
    assert_eq!((short, len), (Varlena::Short(b"short"), 6));
    let (long, len) = Varlena::parse(&bytes, 10).unwrap();
    assert_eq!((long, len), (Varlena::Long(b"long"), 8));
    let (Varlena::Compressed(compressed), 14) = Varlena::parse(&bytes, 18).unwrap() else {
        panic!("a compressed datum")
    };
    assert_eq!((compressed.info.len(), compressed.stream), (99, &b"stream"[..]));
    assert_eq!(compressed.info.method(), Ok(CompressionMethod::Lz4));
}

#[test]
fn a_length_that_its_header_cannot_hold_is_refused_and_nothing_is_written() {
    let mut target = vec![7];
    let error = VarlenaError::TooLong { len: 127, limit: 126 };
    assert_eq!(encode_short(&[0; 127], &mut target), Err(error));
    assert_eq!(target, [7]);

    assert_eq!(MAX_PAYLOAD_LEN, 1_073_741_819);
    assert!(long_header(MAX_PAYLOAD_LEN).is_ok());
    let error = VarlenaError::TooLong { len: MAX_PAYLOAD_LEN + 1, limit: MAX_PAYLOAD_LEN };
    assert_eq!(long_header(MAX_PAYLOAD_LEN + 1), Err(error));
    assert!(long_header(usize::MAX).is_err());
    assert!(compressed_header(1 << 30, CompressionMethod::Pglz, 5).is_err());
    assert!(compressed_header(5, CompressionMethod::Pglz, (1 << 30) - 8).is_err());
    assert!(compressed_header((1 << 30) - 1, CompressionMethod::Pglz, (1 << 30) - 9).is_ok());
}
