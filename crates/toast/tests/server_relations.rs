//! One text of 62 400 bytes that a PostgreSQL 15 server stored three times: pglz, lz4, and as it is.
//!
//! A decoder that had only met the third kind fed the compression info in front of the stream to the
//! codec, and took "is it compressed" from the method bits, which are 0 for pglz: it handed out pglz
//! bytes as the value, silently.
mod common;

use common::{Listed, chunks, external};
use pgtoast_base::Oid8;
use pgtoast_codec::CompressionMethod;
use pgtoast_toast::{
    ByteSlice, ChunkIndex, ChunkOrder, ChunkPlan, ChunkSize, Detoaster, column_compression,
    column_size, column_toast_chunk_id, raw_len,
};
use pgtoast_varlena::Varlena;

const PGLZ: &[u8] = include_bytes!("data/pglz.toast");
const LZ4: &[u8] = include_bytes!("data/lz4.toast");
const EXTERNAL: &[u8] = include_bytes!("data/external.toast");

/// A relation, the datum in its parent's row, and what SQL says of it.
struct Stored {
    file: &'static [u8],
    datum: Varlena<'static>,
    chunk_count: u32,
    size: usize,
    method: Option<CompressionMethod>,
    value_id: u64,
}

fn stored() -> [Stored; 3] {
    [
        Stored {
            file: PGLZ,
            datum: external("0112c4f300009ca600004540000039400000"),
            chunk_count: 22,
            size: 42_652,
            method: Some(CompressionMethod::Pglz),
            value_id: 16_453,
        },
        Stored {
            file: LZ4,
            datum: external("0112c4f30000839a0040464000003e400000"),
            chunk_count: 20,
            size: 39_555,
            method: Some(CompressionMethod::Lz4),
            value_id: 16_454,
        },
        Stored {
            file: EXTERNAL,
            datum: external("0112c4f30000c0f300004740000043400000"),
            chunk_count: 32,
            size: 62_400,
            method: None,
            value_id: 16_455,
        },
    ]
}

#[test]
fn the_three_are_one_value() {
    let mut values = Vec::new();
    for Stored { file, datum, chunk_count, .. } in stored() {
        let Varlena::External(pointer) = datum else { panic!("out of line") };
        let plan = ChunkPlan::new(&pointer, ChunkSize::default()).unwrap();
        assert_eq!(plan.chunk_count(), chunk_count);
        let index: ChunkIndex<'_> = chunks(file).into_iter().collect();
        assert_eq!(index.chunks().len(), chunk_count as usize);
        let mut detoaster = Detoaster::new(index, ChunkSize::default());
        let value = detoaster.detoast(&datum).unwrap();
        let mut target = vec![0xaa; 62_400];
        detoaster.detoast_into(&datum, &mut target).unwrap();
        assert!(value.as_bytes() == target);
        values.push(value);
    }
    // The hex md5 of each number from 1 to 1200, each with 20 times `z` behind it.
    let text = values[0].to_str().unwrap();
    assert!(text.starts_with("c4ca4238a0b923820dcc509a6f75849bzzzzzzzzzzzzzzzzzzzzc81e728d"));
    assert!(
        text.len() == 62_400 && text.as_bytes().chunks(52).all(|line| line[32..] == [b'z'; 20])
    );
    assert!(values[0] == values[1] && values[1] == values[2]);
}

#[test]
fn what_sql_says_of_the_columns_we_say() {
    for Stored { datum, size, method, value_id, .. } in stored() {
        assert_eq!(column_size(&datum), size);
        assert_eq!(column_compression(&datum), Ok(method));
        assert_eq!(column_toast_chunk_id(&datum), Some(Oid8::new(value_id)));
        assert_eq!(raw_len(&datum), Ok(62_400));
    }
    // Inline: a text of 3 bytes, 3000 times `x` under both methods.
    for (first, stored_len, raw, method) in [
        (vec![0x09, b'a', b'b', b'c'], 4, 3, None),
        (vec![0xb2, 0, 0, 0, 0xb8, 0x0b, 0, 0], 44, 3000, Some(CompressionMethod::Pglz)),
        (vec![0x7a, 0, 0, 0, 0xb8, 0x0b, 0, 0x40], 30, 3000, Some(CompressionMethod::Lz4)),
    ] {
        let mut datum = first;
        datum.resize(stored_len, 0);
        let (datum, _) = Varlena::parse(&datum, 0).unwrap();
        assert_eq!(column_size(&datum), stored_len);
        assert_eq!(column_compression(&datum), Ok(method));
        assert_eq!(column_toast_chunk_id(&datum), None);
        assert_eq!(raw_len(&datum), Ok(raw));
    }
}

#[test]
fn every_slice_is_that_part_of_the_whole() {
    for Stored { file, datum, .. } in stored() {
        let index: ChunkIndex<'_> = chunks(file).into_iter().collect();
        let mut detoaster = Detoaster::new(index, ChunkSize::default());
        let whole = detoaster.detoast(&datum).unwrap();
        let mut offsets =
            vec![0, 1, 1995, 1996, 1997, 3992, 30_000, 62_300, 62_399, 62_400, 70_000];
        offsets.extend((0..62_400).step_by(4999));
        for offset in offsets {
            for len in [0, 1, 5, 1996, 4000, 62_400, usize::MAX] {
                let slice = ByteSlice::new(offset, len);
                let part = detoaster.slice_bytes(&datum, slice).unwrap();
                assert!(part.as_bytes() == whole.bytes(slice), "{offset} {len}");
            }
            let rest = ByteSlice { offset, len: None };
            let part = detoaster.slice_bytes(&datum, rest).unwrap();
            assert!(part.as_bytes() == whole.bytes(rest));
        }
    }
}

#[test]
fn a_slice_fetches_the_chunks_it_lies_in_or_those_of_a_prefix() {
    for (Stored { file, datum, .. }, fetched) in stored().into_iter().zip([
        // The first 100 bytes, 100 in the middle, the last 100.
        [1, 18, 22], // pglz: nine bits a byte, the info and a tag
        [1, 16, 20], // lz4: not all 20 each time, as in the server
        [1, 1, 1],
    ]) {
        let mut sorted = chunks(file);
        sorted.sort_by_key(|chunk| chunk.seq);
        let source = Listed::new(sorted, ChunkOrder::Index);
        let mut detoaster = Detoaster::new(source, ChunkSize::default());
        for (offset, fetched) in [0, 30_400, 62_300].into_iter().zip(fetched) {
            detoaster.source().handed_out = 0;
            detoaster.slice_bytes(&datum, ByteSlice::new(offset, 100)).unwrap();
            assert_eq!(detoaster.source().handed_out, fetched, "{offset}");
        }
    }
}
