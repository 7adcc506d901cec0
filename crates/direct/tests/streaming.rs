//! Values that nobody wants to have in memory whole: written and read piece by piece.
mod common;

use std::io::{Read, Seek, SeekFrom, Write};

use common::{Nowhere, RELATION, pattern, store, value};
use pgtoast_codec::CompressionMethod;
use pgtoast_direct::{DirectError, Failure, GroupOptions};
use pgtoast_testkit::Rng;

#[test]
fn a_source_reads_like_a_file_whatever_the_value_is_stored_as() {
    let mut rng = Rng::new(9);
    for len in [1, 1996, 5000, 250_000, 1_000_000] {
        let words: Vec<u8> = (0..len).map(|at| b"the quick brown fox "[at / 3 % 20]).collect();
        let mut store = store();
        let pointers = [
            Some(RELATION.write(&mut store, &words).unwrap()),
            RELATION.write_compressed(&mut store, CompressionMethod::Pglz, &words).unwrap(),
            RELATION.write_compressed(&mut store, CompressionMethod::Lz4, &words).unwrap(),
            RELATION
                .write_grouped(
                    &mut store,
                    GroupOptions::new(CompressionMethod::Lz4).with_group_bytes(4096).unwrap(),
                    &words,
                )
                .unwrap(),
        ];
        assert!(len < 5000 || pointers.iter().all(Option::is_some));
        for pointer in pointers.into_iter().flatten() {
            let mut source = RELATION.source(&store, &pointer).unwrap();
            let mut all = Vec::new();
            source.read_to_end(&mut all).unwrap();
            assert!(all == words);
            for _ in 0..50 {
                let at = rng.below(len + 10);
                let mut target = vec![0xee; rng.pick(&[1, 100, 2000, 9000])];
                let read = match source.seek(SeekFrom::Start(at as u64)) {
                    Ok(_) => Read::read(&mut source, &mut target).unwrap(),
                    Err(error) => panic!("{error}"),
                };
                let expected = &words[at.min(len)..(at + target.len()).min(len)];
                assert_eq!(&target[..read], expected);
            }
            assert_eq!(source.seek(SeekFrom::End(-1)).unwrap(), len as u64 - 1);
            assert!(source.seek(SeekFrom::Current(i64::MIN)).is_err());
        }
    }
}

#[test]
fn reading_on_in_small_pieces_fetches_no_tuple_twice() {
    let len = 700_000;
    let mut store = store();
    let mut writer = RELATION.writer(&mut store);
    std::io::copy(&mut &value(len)[..], &mut writer).unwrap();
    writer.flush().unwrap();
    let written = writer.finish().unwrap();
    let pointer = RELATION.pointer(written.root, len).unwrap();
    for piece in [1, 333, 1996, 4096, 65_536] {
        store.reset_counts();
        let mut source = RELATION.source(&store, &pointer).unwrap();
        let (mut at, mut target) = (0, vec![0; piece]);
        while at < len {
            let read = source.read(&mut target).unwrap();
            assert_eq!(target[..read], pattern(at, read));
            at += read;
        }
        assert_eq!(source.cost().fetches() as usize, written.tuples, "pieces of {piece}");
        assert_eq!(store.counts().fetches, written.tuples as u64);
    }
}

#[test]
fn the_largest_value_is_written_and_one_byte_more_is_not() {
    let most = (1 << 30) - 5;
    let piece = vec![0x5a; 1 << 20];
    let mut store = Nowhere::default();
    let mut writer = RELATION.writer(&mut store);
    for start in (0..most).step_by(piece.len()) {
        writer.write(&piece[..piece.len().min(most - start)]).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.tuples, 537_947 + 10_759 + 216 + 5 + 1);
    assert_eq!((store.inserts, store.deletes), (written.tuples, 0));
    let pointer = RELATION.pointer(written.root, most).unwrap();
    assert_eq!(pgtoast_varlena::ToastPointer::Direct(pointer).raw_len(), (1 << 30) - 1);

    let mut store = Nowhere::default();
    let mut writer = RELATION.writer(&mut store);
    for start in (0..most).step_by(piece.len()) {
        writer.write(&piece[..piece.len().min(most - start)]).unwrap();
    }
    let error = DirectError::TooLong { len: most + 1, limit: most };
    assert_eq!(writer.write(b"x"), Err(Failure::Direct(error)));
    drop(writer);
    assert_eq!(store.deletes, store.inserts);
}
