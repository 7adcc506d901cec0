//! A relation's chunk size is what its server was compiled with, and an upgraded cluster may hold
//! relations of a slightly different one. Full reads could adapt from the first chunk; slice reads
//! computed the chunk from a constant and landed in the wrong one.
mod common;

use common::{Listed, compressed, cut, fault, noise, pointer_to};
use pgtoast_base::BlockSize;
use pgtoast_codec::CompressionMethod;
use pgtoast_toast::{
    ByteSlice, ChunkOrder, ChunkSize, Detoaster, ToastError, ValueIdWidth, infer_chunk_size,
};
use pgtoast_varlena::Varlena;

/// Of 4, 8, 16 and 32 KiB blocks under both widths, and two that were seen in upgraded clusters.
fn sizes() -> impl Iterator<Item = ChunkSize> {
    [972, 968, 1996, 1992, 4044, 4040, 8140, 8136, 1994, 8138]
        .into_iter()
        .map(|bytes| ChunkSize::new(bytes).expect("a size"))
}

#[test]
fn these_are_the_sizes_of_servers() {
    use ValueIdWidth::{Oid, Oid8};
    let blocks = [BlockSize::KIB_4, BlockSize::KIB_8, BlockSize::KIB_16, BlockSize::KIB_32];
    let of = blocks.into_iter().flat_map(|b| [ChunkSize::of(b, Oid), ChunkSize::of(b, Oid8)]);
    assert!(of.eq(sizes().take(8)));
    assert_eq!(ChunkSize::default().bytes(), 1996);
    assert_eq!((ChunkSize::new(0), ChunkSize::new(65_536)), (None, None));
}

#[test]
fn slices_around_every_chunk_border_are_that_part_of_the_value() {
    for size in sizes() {
        let raw = noise(3 * size.bytes() + 7);
        let pointer = pointer_to(raw.len(), raw.len(), CompressionMethod::Pglz);
        let mut source = Listed::new(cut(&raw, size), ChunkOrder::Index);
        assert_eq!(infer_chunk_size(&mut source, &pointer), Ok(Some(size)));
        let mut detoaster = Detoaster::new(source, size);
        let datum = Varlena::External(pointer);
        assert!(detoaster.detoast(&datum).unwrap().as_bytes() == raw);
        for border in [0, 1, 2, 3].map(|chunk| chunk * size.bytes()) {
            for offset in [border.saturating_sub(1), border, border + 1] {
                for len in [1, 2, size.bytes() - 1, size.bytes(), size.bytes() + 1, raw.len()] {
                    let slice = ByteSlice::new(offset, len);
                    let part = detoaster.slice_bytes(&datum, slice).unwrap();
                    assert!(part.as_bytes() == &raw[slice.of(raw.len())], "{offset} {len}");
                }
            }
        }
    }
}

#[test]
fn the_size_of_a_compressed_value_is_inferred_from_its_stored_bytes() {
    let raw = b"a value that repeats itself ".repeat(4000);
    let size = ChunkSize::new(100).unwrap();
    for method in [CompressionMethod::Pglz, CompressionMethod::Lz4] {
        let stored = compressed(&raw, method);
        let pointer = pointer_to(raw.len(), stored.len(), method);
        let mut source = Listed::new(cut(&stored, size), ChunkOrder::Any);
        assert_eq!(infer_chunk_size(&mut source, &pointer), Ok(Some(size)));
        let mut detoaster = Detoaster::new(source, size);
        assert!(detoaster.detoast(&Varlena::External(pointer)).unwrap().as_bytes() == raw);
    }
}

#[test]
fn one_chunk_alone_tells_no_size_and_needs_none() {
    let raw = noise(1500);
    let pointer = pointer_to(1500, 1500, CompressionMethod::Pglz);
    let mut source = Listed::new(cut(&raw, ChunkSize::default()), ChunkOrder::Index);
    assert_eq!(infer_chunk_size(&mut source, &pointer), Ok(None));
    for size in [1500, 1996, 8140].map(|bytes| ChunkSize::new(bytes).unwrap()) {
        let mut detoaster = Detoaster::new(&mut source, size);
        assert_eq!(detoaster.detoast(&Varlena::External(pointer)).unwrap().as_bytes(), raw);
    }
}

#[test]
fn the_wrong_size_is_an_error_and_never_wrong_bytes() {
    let raw = noise(10_000);
    let datum = Varlena::External(pointer_to(10_000, 10_000, CompressionMethod::Pglz));
    let chunks = cut(&raw, ChunkSize::new(1994).unwrap());
    for order in [ChunkOrder::Index, ChunkOrder::Any] {
        let mut detoaster =
            Detoaster::new(Listed::new(chunks.clone(), order), ChunkSize::default());
        for slice in [ByteSlice::new(0, 10_000), ByteSlice::new(1995, 1), ByteSlice::new(6000, 5)] {
            let error = fault(detoaster.slice_bytes(&datum, slice));
            let is_size =
                matches!(error, ToastError::ChunkSize { found: 1994, expected: 1996, .. });
            assert!(is_size, "{error}");
        }
    }
}
