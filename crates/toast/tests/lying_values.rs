//! Pointers and streams that lie: each an error, and none makes us take memory for what is not there.
mod common;

use common::{Listed, VALUE_ID, compressed, cut, fault, noise, pointer_to};
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid, Oid8};
use pgtoast_codec::{CodecError, CompressionMethod};
use pgtoast_toast::{ByteSlice, ChunkOrder, ChunkSize, Detoaster, ToastError};
use pgtoast_varlena::{
    CompressionInfo, DirectPointer, OidPointer, ToastPointer, Varlena, VarlenaError,
};

const ID: Oid8 = Oid8::new(VALUE_ID as u64);

fn detoaster(stored: &[u8]) -> Detoaster<Listed<'_>> {
    let source = Listed::new(cut(stored, ChunkSize::default()), ChunkOrder::Any);
    Detoaster::new(source, ChunkSize::default())
}

#[test]
fn the_word_in_front_of_the_stream_must_agree_with_the_pointer() {
    let raw = b"PostgreSQL ".repeat(1000);
    for (method, other) in [
        (CompressionMethod::Pglz, CompressionMethod::Lz4),
        (CompressionMethod::Lz4, CompressionMethod::Pglz),
    ] {
        let stored = compressed(&raw, method);
        let right = Varlena::External(pointer_to(raw.len(), stored.len(), method));
        assert!(detoaster(&stored).detoast(&right).unwrap().as_bytes() == raw);
        let found = u32::from_le_bytes([stored[0], stored[1], stored[2], stored[3]]);
        for (raw_len, method) in [(raw.len(), other), (raw.len() + 1, method), (9000, method)] {
            let datum = Varlena::External(pointer_to(raw_len, stored.len(), method));
            let expected = CompressionInfo::new(raw_len, method).unwrap().word();
            let error = ToastError::CompressionInfo { value_id: ID, found, expected };
            assert_eq!(fault(detoaster(&stored).detoast(&datum)), error);
            let slice = ByteSlice::new(100, 10);
            assert_eq!(fault(detoaster(&stored).slice_bytes(&datum, slice)), error);
            let mut target = vec![0; raw_len];
            assert_eq!(fault(detoaster(&stored).detoast_into(&datum, &mut target)), error);
        }
    }
}

#[test]
fn a_broken_stream_is_the_codecs_error_and_a_short_one_no_short_slice() {
    let info = CompressionInfo::new(1024, CompressionMethod::Pglz).unwrap().word().to_le_bytes();
    for stream in [&[0x01, 0xff][..], &[0x01, 0x0f, 0x01], &[0x01, 0x03, 0x00]] {
        let stored = [&info[..], stream].concat();
        let datum = Varlena::External(pointer_to(1024, stored.len(), CompressionMethod::Pglz));
        for slice in [ByteSlice::new(0, 100), ByteSlice::new(0, 2000)] {
            let error = fault(detoaster(&stored).slice_bytes(&datum, slice));
            assert!(matches!(error, ToastError::Codec(_)), "{error}");
        }
    }
    // The stream ends in peace after 3 bytes: the server would return those as if they were 100.
    let stored = [&info[..], &[0x00, b'a', b'b', b'c']].concat();
    let datum = Varlena::External(pointer_to(1024, stored.len(), CompressionMethod::Pglz));
    let error = fault(detoaster(&stored).slice_bytes(&datum, ByteSlice::new(0, 100)));
    assert_eq!(error, ToastError::PrefixShort { found: 3, expected: 100 });
    assert_eq!(
        detoaster(&stored).slice_bytes(&datum, ByteSlice::new(1, 2)).unwrap().as_bytes(),
        b"bc"
    );
}

#[test]
fn a_pointer_of_impossible_lengths_or_to_a_direct_value_is_refused() {
    let stored = noise(100);
    for raw_len in [i32::MIN, -1, 0, 3, 1 << 30, i32::MAX] {
        let stored_len = CompressionInfo::new(100, CompressionMethod::Pglz).unwrap();
        let pointer = OidPointer::new(raw_len, stored_len, Oid::new(VALUE_ID), Oid::new(1));
        let datum = Varlena::External(ToastPointer::Oid(pointer));
        let error = ToastError::Varlena(VarlenaError::RawLength { raw_len });
        assert_eq!(fault(detoaster(&stored).detoast(&datum)), error);
        assert_eq!(fault(detoaster(&stored).slice_bytes(&datum, ByteSlice::new(0, 1))), error);
        assert_eq!(fault(detoaster(&stored).detoast_into(&datum, &mut [0; 100])), error);
    }
    // Too little for the word in front of the stream.
    let datum = Varlena::External(pointer_to(50, 3, CompressionMethod::Pglz));
    let error = ToastError::PointerLengths { value_id: ID, raw_len: 50, stored_len: 3 };
    assert_eq!(fault(detoaster(&stored[..3]).detoast(&datum)), error);
    // Method bits that name no method, on a value that is compressed.
    let stored_len = CompressionInfo::from_word(2 << 30 | 100);
    let pointer = OidPointer::new(1004, stored_len, Oid::new(VALUE_ID), Oid::new(1));
    let datum = Varlena::External(ToastPointer::Oid(pointer));
    let error = ToastError::Varlena(VarlenaError::UnknownMethod { bits: 2 });
    assert_eq!(fault(detoaster(&stored).detoast(&datum)), error);

    let root = ItemPointer::new(BlockNumber::new(1), OffsetNumber::FIRST);
    let stored_len = CompressionInfo::new(100, CompressionMethod::Pglz).unwrap();
    let pointer = DirectPointer::new(104, stored_len, Oid::new(1), root);
    let datum = Varlena::External(ToastPointer::Direct(pointer));
    assert_eq!(fault(detoaster(&stored).detoast(&datum)), ToastError::Direct);
}

#[test]
fn an_inline_datum_with_a_lying_length_costs_no_memory() {
    // 12 bytes of stream that claim to be a gigabyte.
    for (method, limit) in [(0, 1092), (1, 3060)] {
        let mut datum = vec![20 << 2 | 2, 0, 0, 0, 0xff, 0xff, 0xff, 0x3f | method << 6];
        datum.extend([1; 12]);
        let (datum, _) = Varlena::parse(&datum, 0).unwrap();
        let error = CodecError::Expansion { stream_len: 12, raw_len: 0x3fff_ffff, limit };
        assert_eq!(fault(detoaster(&[]).detoast(&datum)), ToastError::Codec(error));
        assert!(detoaster(&[]).slice_bytes(&datum, ByteSlice::new(1 << 29, 1)).is_err());
    }
}
