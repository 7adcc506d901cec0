//! What goes into chunks, and what the pointer says of it, is what servers write; and it reads back.
//! Source: `toast_internals.c`, `toast_save_datum` (REL_18); pointers and chunks of a server of 15.
use pgtoast_base::{BlockSize, Oid, Oid8};
use pgtoast_codec::{CompressionMethod, DatumCompressor};
use pgtoast_toast::{
    ByteSlice, Chunk, ChunkIndex, ChunkSize, Detoaster, OutOfLine, ToastError, ValueIdWidth,
};
use pgtoast_varlena::{ToastPointer, Varlena, VarlenaError, encode_long, encode_short};

const REL: Oid = Oid::new(16_560);

fn read_back(stored: &OutOfLine<'_>, pointer: ToastPointer, size: ChunkSize) -> Vec<u8> {
    let value_id = pointer.value_id().expect("a sound value");
    let chunk = |(seq, data)| Chunk { value_id, seq, data, tid: None };
    let index: ChunkIndex<'_> = stored.chunks(size).map(chunk).collect();
    let mut detoaster = Detoaster::new(index, size);
    let datum = Varlena::External(pointer);
    let whole = detoaster.detoast(&datum).expect("a sound value").as_bytes().to_vec();
    // Slices that touch the border of the first chunk, whatever its size.
    for offset in [size.bytes() - 1, size.bytes(), size.bytes() + 1] {
        let slice =
            detoaster.slice_bytes(&datum, ByteSlice::new(offset, 10)).expect("a sound value");
        let end = whole.len().min(offset + 10);
        assert_eq!(slice.as_bytes(), &whole[offset.min(end)..end], "{offset} of {size:?}");
    }
    whole
}

#[test]
fn a_plain_value_of_2001_bytes_has_the_pointer_that_a_server_wrote() {
    let mut datum = Vec::new();
    encode_long(&[b'x'; 2001], &mut datum).unwrap();
    let stored = OutOfLine::new(&datum).unwrap();
    let pointer = stored.pointer(Oid::new(16_562), REL);
    let mut bytes = [0; 18];
    assert_eq!(pointer.encode(&mut bytes), Ok(18));
    let server = [1, 18, 0xd5, 7, 0, 0, 0xd1, 7, 0, 0, 0xb2, 0x40, 0, 0, 0xb0, 0x40, 0, 0];
    assert_eq!(bytes, server);
    let lens: Vec<_> =
        stored.chunks(ChunkSize::default()).map(|(seq, data)| (seq, data.len())).collect();
    assert_eq!(lens, [(0, 1996), (1, 5)]);
    assert_eq!(stored.chunks(ChunkSize::default()).len(), 2);
}

#[test]
fn lengths_are_those_of_each_form() {
    let (mut short, mut long, mut compressed) = (Vec::new(), Vec::new(), Vec::new());
    encode_short(&[b'a'; 100], &mut short).unwrap();
    encode_long(&[b'a'; 100], &mut long).unwrap();
    let mut compressor = DatumCompressor::new();
    compressor
        .compress(CompressionMethod::Lz4, &Varlena::Long(&[b'a'; 100]), &mut compressed)
        .unwrap();
    for datum in [&short, &long] {
        let pointer = OutOfLine::new(datum).unwrap().pointer(Oid::new(1), REL);
        assert_eq!((pointer.raw_len(), pointer.ext_info().word()), (104, 100));
        assert!(!pointer.is_compressed());
    }
    let stored = OutOfLine::new(&compressed).unwrap();
    assert_eq!(stored.stored(), &compressed[4..], "the info goes along");
    let pointer = stored.pointer_oid8(Oid8::new(1 << 40 | 7), REL);
    assert_eq!((pointer.raw_len(), pointer.stored_len()), (104, compressed.len() - 4));
    assert_eq!(pointer.compression(), Ok(Some(CompressionMethod::Lz4)));
    assert_eq!(pointer.value_id(), Some(Oid8::new(1 << 40 | 7)));
    assert_eq!(pointer.toast_rel_id(), REL);
}

/// Clusters that were upgraded from other builds hold chunks of another size than the tool at hand was
/// compiled with. Whole values could be read and slices could not. Here the size is a parameter throughout.
#[test]
fn values_read_back_in_every_chunk_size_whole_and_across_its_border() {
    let mut raw = b"It is not the size of the chunk; it is that nobody asked. ".repeat(400);
    raw.extend((0..3000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]));
    let mut plain = Vec::new();
    encode_long(&raw, &mut plain).unwrap();
    let mut sizes = vec![1994, 1996, 8138, 8140];
    for block_size in [BlockSize::KIB_4, BlockSize::KIB_8, BlockSize::KIB_16, BlockSize::KIB_32] {
        sizes.extend(
            [ValueIdWidth::Oid, ValueIdWidth::Oid8]
                .map(|width| ChunkSize::of(block_size, width).bytes()),
        );
    }
    let mut compressor = DatumCompressor::new();
    for bytes in sizes {
        let size = ChunkSize::new(bytes).unwrap();
        let mut datums = vec![plain.clone()];
        for method in [CompressionMethod::Pglz, CompressionMethod::Lz4] {
            let mut datum = Vec::new();
            compressor.compress(method, &Varlena::Long(&raw), &mut datum).unwrap();
            datums.push(datum);
        }
        for datum in &datums {
            let stored = OutOfLine::new(datum).unwrap();
            let last = stored.chunks(size).len() - 1;
            for (index, (seq, data)) in stored.chunks(size).enumerate() {
                assert_eq!(usize::try_from(seq), Ok(index));
                assert!(if index < last { data.len() == bytes } else { data.len() <= bytes });
            }
            assert!(read_back(&stored, stored.pointer(Oid::new(5), REL), size) == raw);
            assert!(read_back(&stored, stored.pointer_oid8(Oid8::new(1 << 33), REL), size) == raw);
        }
    }
}

#[test]
fn a_pointer_is_not_stored_again_and_half_a_datum_not_at_all() {
    let pointer = [1, 18, 0xd5, 7, 0, 0, 0xd1, 7, 0, 0, 0xb2, 0x40, 0, 0, 0xb0, 0x40, 0, 0];
    assert_eq!(OutOfLine::new(&pointer), Err(ToastError::StorePointer));
    let cut = [0x10, 0, 0];
    let error = VarlenaError::Truncated { offset: 0, needed: 4, available: 3 };
    assert_eq!(OutOfLine::new(&cut), Err(ToastError::Varlena(error)));
    let method_2 = [0x26, 0, 0, 0, 1, 0, 0, 0x80, 0];
    let error = VarlenaError::UnknownMethod { bits: 2 };
    assert_eq!(OutOfLine::new(&method_2), Err(ToastError::Varlena(error)));
}

#[test]
fn chunk_iterators_tell_how_many_are_left() {
    let mut datum = Vec::new();
    encode_long(&[b'x'; 10_000], &mut datum).unwrap();
    let mut left = OutOfLine::new(&datum).unwrap().chunks(ChunkSize::default());
    for count in (0..=6).rev() {
        assert_eq!((left.len(), left.size_hint()), (count, (count, Some(count))));
        left.next();
    }
    assert_eq!(left.next(), None);
}
