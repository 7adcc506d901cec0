//! Pointers: 18 bytes with a 32-bit id, 22 with a 64-bit one or a tuple id.
//! Source: `varatt.h` (REL_18) and bytes that PostgreSQL 15 stored.
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid, Oid8};
use pgtoast_varlena::{
    CompressionInfo, CompressionMethod, DirectPointer, Oid8Pointer, OidPointer, Tag, ToastPointer,
    Varlena, VarlenaError, datum_len,
};

/// 2001 bytes, stored as they are.
const PLAIN: [u8; 18] =
    [0x01, 0x12, 0xd5, 7, 0, 0, 0xd1, 7, 0, 0, 0xb2, 0x40, 0, 0, 0xb0, 0x40, 0, 0];

fn encoded(pointer: ToastPointer) -> Vec<u8> {
    let mut target = vec![0xee; pointer.datum_len()];
    assert_eq!(pointer.encode(&mut target), Ok(pointer.datum_len()));
    target
}

#[test]
fn a_pointer_of_a_server_says_how_long_how_stored_and_where() {
    let pointer = ToastPointer::parse(&PLAIN, 0).unwrap();
    assert_eq!(pointer.tag(), Tag::Oid);
    assert_eq!(pointer.raw_len(), 2005);
    assert_eq!(pointer.raw_payload_len(), Ok(2001));
    assert_eq!(pointer.stored_len(), 2001);
    assert_eq!(pointer.compression(), Ok(None));
    assert_eq!(pointer.value_id(), Some(Oid8::new(16_562)));
    assert_eq!(pointer.toast_rel_id(), Oid::new(16_560));
    assert_eq!(encoded(pointer), PLAIN);
    assert_eq!(Varlena::parse(&PLAIN, 0), Ok((Varlena::External(pointer), 18)));
}

/// A decoder took "is it compressed?" from the method bits. They are 0 for pglz, so it handed out
/// compressed bytes as the value. The same 62 400 bytes, stored three ways:
#[test]
fn compressed_means_stored_in_less_than_the_raw_length_whatever_the_method_bits_say() {
    for (ext_info, stored_len, compression) in [
        (42_652u32, 42_652, Some(CompressionMethod::Pglz)),
        (0x4000_9a83, 39_555, Some(CompressionMethod::Lz4)),
        (62_400, 62_400, None),
        (0x4000_0000 | 62_400, 62_400, None),
    ] {
        let info = CompressionInfo::from_word(ext_info);
        let pointer = ToastPointer::Oid(OidPointer::new(62_404, info, Oid::new(1), Oid::new(2)));
        assert_eq!(pointer.stored_len(), stored_len);
        assert_eq!(pointer.compression(), Ok(compression), "{ext_info:#x}");
    }
}

#[test]
fn method_bits_that_name_no_method_fail_closed_but_only_on_a_compressed_value() {
    let pointer = |word| {
        let info = CompressionInfo::from_word(word);
        ToastPointer::Oid(OidPointer::new(1004, info, Oid::new(1), Oid::new(2)))
    };
    for bits in [2u8, 3] {
        let word = u32::from(bits) << 30;
        assert_eq!(pointer(word | 999).compression(), Err(VarlenaError::UnknownMethod { bits }));
        assert_eq!(pointer(word | 1000).compression(), Ok(None));
    }
}

#[test]
fn a_raw_length_that_no_datum_has_is_an_error_not_an_allocation() {
    let payload_len = |raw_len| {
        let info = CompressionInfo::from_word(7);
        ToastPointer::Oid(OidPointer::new(raw_len, info, Oid::new(1), Oid::new(2)))
            .raw_payload_len()
    };
    assert_eq!(payload_len(4), Ok(0));
    assert_eq!(payload_len(0x3fff_ffff), Ok(1_073_741_819));
    for raw_len in [i32::MIN, -1, 0, 3, 0x4000_0000, i32::MAX] {
        assert_eq!(payload_len(raw_len), Err(VarlenaError::RawLength { raw_len }));
    }
}

#[test]
fn a_64_bit_id_keeps_all_its_bits_and_stores_the_low_half_first() {
    let info = CompressionInfo::new(2001, CompressionMethod::Lz4).unwrap();
    for low in [0u64, 1, 0xffff_ffff] {
        let id = Oid8::new(1 << 32 | low);
        let pointer = ToastPointer::Oid8(Oid8Pointer::new(5004, info, id, Oid::new(16_560)));
        let bytes = encoded(pointer);
        assert_eq!(bytes.len(), 22);
        assert_eq!(bytes[..2], [0x01, 4]);
        assert_eq!(bytes[10..18], id.get().to_le_bytes());
        assert_eq!(bytes[18..], [0xb0, 0x40, 0, 0]);
        let parsed = ToastPointer::parse(&bytes, 0).unwrap();
        assert_eq!((parsed, parsed.value_id()), (pointer, Some(id)));
        assert_ne!(parsed.value_id(), Some(Oid8::new(low)));
    }
}

#[test]
fn a_direct_pointer_holds_a_tuple_id_and_ends_in_zeros() {
    let root = ItemPointer::new(BlockNumber::new(0x0001_0002), OffsetNumber::new(3));
    let info = CompressionInfo::new(320_000, CompressionMethod::Pglz).unwrap();
    let pointer =
        ToastPointer::Direct(DirectPointer::new(320_004, info, Oid::new(0x0a0b_0c0d), root));
    let mut bytes = encoded(pointer);
    let drawn = [
        0x01, 20, 0x04, 0xe2, 0x04, 0, 0, 0xe2, 0x04, 0, 0x0d, 0x0c, 0x0b, 0x0a, 1, 0, 2, 0, 3, 0,
        0, 0,
    ];
    assert_eq!(bytes, drawn);
    let Ok(ToastPointer::Direct(parsed)) = ToastPointer::parse(&bytes, 0) else {
        panic!("a direct pointer")
    };
    assert_eq!(parsed.root(), root);
    assert_eq!(pointer.value_id(), None);

    bytes[21] = 9;
    let error = VarlenaError::PointerPadding { offset: 0, found: [0, 9] };
    assert_eq!(ToastPointer::parse(&bytes, 0), Err(error));
}

#[test]
fn of_the_256_tags_three_are_pointers_three_are_addresses_and_the_rest_unknown() {
    for tag in 0..=255u8 {
        let mut datum = vec![0xaa, 0x01, tag];
        datum.resize(40, 0);
        let (pointer, len) = (ToastPointer::parse(&datum, 1), datum_len(&datum, 1));
        match tag {
            18 => assert!(pointer.is_ok() && len == Ok(18)),
            4 | 20 => assert!(pointer.is_ok() && len == Ok(22)),
            1..=3 => {
                let error = VarlenaError::MemoryOnlyTag { offset: 2, tag };
                assert_eq!((pointer, len), (Err(error), Err(error)));
            }
            _ => {
                let error = VarlenaError::UnknownTag { offset: 2, tag };
                assert_eq!((pointer, len), (Err(error), Err(error)));
            }
        }
    }
}

#[test]
fn a_pointer_that_is_cut_or_none_at_all_is_an_error() {
    for cut in 0..PLAIN.len() {
        let error = ToastPointer::parse(&PLAIN[..cut], 0).unwrap_err();
        assert!(matches!(error, VarlenaError::Truncated { offset: 0, .. }), "{cut}: {error}");
    }
    let error = VarlenaError::NotPointer { offset: 1, found: 0x12 };
    assert_eq!(ToastPointer::parse(&PLAIN, 1), Err(error));
    assert!(ToastPointer::parse(&PLAIN, usize::MAX).is_err());
}

#[test]
fn encoding_into_too_little_space_writes_nothing() {
    let pointer = ToastPointer::parse(&PLAIN, 0).unwrap();
    let mut target = [0xee; 17];
    let error = VarlenaError::Truncated { offset: 0, needed: 18, available: 17 };
    assert_eq!(pointer.encode(&mut target), Err(error));
    assert_eq!(target, [0xee; 17]);
}
