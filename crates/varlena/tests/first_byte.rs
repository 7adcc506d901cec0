//! The first byte of a datum decides its form; the length that follows from it always includes the
//! header. Source: `varatt.h` (REL_18), the little-endian bit layouts.
use pgtoast_varlena::{Kind, Varlena, VarlenaError, datum_len};

#[test]
fn the_first_byte_alone_decides_the_kind() {
    for first in 0..=255u8 {
        let kind = match (first, first & 3) {
            (0x00, _) => Kind::Pad,
            (0x01, _) => Kind::Pointer, // length zero is never stored, so it is free to mean this
            (_, 1 | 3) => Kind::Short,
            (_, 2) => Kind::LongCompressed,
            _ => Kind::Long,
        };
        assert_eq!(Kind::of(first), kind, "first byte {first:#04x}");
    }
}

/// What PostgreSQL 15 stored for each of these values.
#[test]
fn values_of_a_server_come_back_from_each_form() {
    let a126 = [b'a'; 126];
    let a127 = [b'a'; 127];
    let short = |payload: &[u8], header: u8| [&[header], payload].concat();
    for (stored, payload) in [
        (short(b"", 0x03), &b""[..]),
        (short(b"x", 0x05), b"x"),
        (short(b"abc", 0x09), b"abc"),
        (short(&a126, 0xff), &a126),
    ] {
        assert_eq!(Varlena::parse(&stored, 0), Ok((Varlena::Short(payload), payload.len() + 1)));
    }
    for (stored, payload) in [
        ([&[0x0c, 0x02, 0, 0], &a127[..]].concat(), &a127[..]),
        (b"\x14\0\0\0x".to_vec(), b"x"), // a column with PLAIN storage keeps the long header
    ] {
        assert_eq!(Varlena::parse(&stored, 0), Ok((Varlena::Long(payload), payload.len() + 4)));
    }
    // 32 times `a`, compressed by pglz.
    let stored = [0x36, 0, 0, 0, 0x20, 0, 0, 0, 0x02, 0x61, 0x0f, 0x01, 0x0d];
    let Ok((Varlena::Compressed(compressed), 13)) = Varlena::parse(&stored, 0) else {
        panic!("a compressed datum")
    };
    assert_eq!((compressed.info.len(), compressed.info.method_bits()), (32, 0));
    assert_eq!(compressed.stream, [0x02, 0x61, 0x0f, 0x01, 0x0d]);
}

#[test]
fn a_long_header_may_begin_with_a_zero_byte() {
    let mut stored = vec![0x00, 0x01, 0, 0]; // length 64
    stored.resize(64, b'z');
    assert_eq!(Varlena::parse(&stored, 0), Ok((Varlena::Long(&stored[4..]), 64)));
}

/// One flipped header made servers ask for 2^64 - 3 bytes, or crash; a length of 1 is the worst,
/// since taking the header off it goes below zero.
#[test]
fn a_length_shorter_than_its_header_or_past_the_end_is_an_error_that_says_where() {
    let at = |header: [u8; 4]| {
        let mut tuple = vec![0xaa; 3];
        tuple.extend(header);
        tuple.extend([b'p'; 600]);
        datum_len(&tuple, 3)
    };
    for len in 0..4u8 {
        let error = VarlenaError::HeaderLength { offset: 3, len: len.into(), header: 4 };
        assert_eq!(at([len << 2, 0, 0, 0]), Err(error));
    }
    for len in 0..8u8 {
        let error = VarlenaError::HeaderLength { offset: 3, len: len.into(), header: 8 };
        assert_eq!(at([len << 2 | 2, 0, 0, 0]), Err(error));
    }
    assert_eq!(at([0x70, 0x09, 0, 0]), Ok(604));
    let truncated = |needed| Err(VarlenaError::Truncated { offset: 3, needed, available: 604 });
    assert_eq!(at([0x74, 0x09, 0, 0]), truncated(605));
    assert_eq!(at([0xfc, 0xff, 0xff, 0xff]), truncated(0x3fff_ffff));
}

#[test]
fn a_datum_cut_anywhere_is_an_error() {
    let a126 = [&[0xff][..], &[b'a'; 126]].concat();
    let long = [&[0x0c, 0x02, 0, 0][..], &[b'a'; 127]].concat();
    let compressed = [0x36, 0, 0, 0, 0x20, 0, 0, 0, 0x02, 0x61, 0x0f, 0x01, 0x0d].to_vec();
    for datum in [a126, long, compressed] {
        assert_eq!(datum_len(&datum, 0), Ok(datum.len()));
        for cut in 0..datum.len() {
            let error = datum_len(&datum[..cut], 0).unwrap_err();
            assert!(
                matches!(error, VarlenaError::Truncated { offset: 0, available, .. } if available == cut),
                "cut at {cut}: {error}"
            );
        }
    }
    let beyond = VarlenaError::Truncated { offset: 9, needed: 1, available: 0 };
    assert_eq!(datum_len(&[3; 4], 9), Err(beyond));
    assert!(datum_len(&[3; 4], usize::MAX).is_err());
}
