//! Compressed values: as a whole, as servers have them, and in groups.
mod common;

use common::{RELATION, store};
use pgtoast_codec::CompressionMethod;
use pgtoast_direct::{DirectError, Failure, GroupOptions, SliceTarget};
use pgtoast_testkit::Rng;
use pgtoast_varlena::{ToastPointer, VarlenaError};

const METHODS: [CompressionMethod; 2] = [CompressionMethod::Pglz, CompressionMethod::Lz4];

/// Text that compresses to about a third.
fn text(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(50);
    let words: Vec<_> =
        (0..500).map(|_| rng.bytes(4).iter().map(|b| b % 26 + b'a').collect()).collect();
    let mut text = Vec::with_capacity(len + 8);
    while text.len() < len {
        let word: &Vec<u8> = &words[rng.below(words.len())];
        text.extend_from_slice(word);
        text.push(b' ');
    }
    text.truncate(len);
    text
}

#[test]
fn a_middle_slice_of_a_whole_stream_decodes_the_prefix_and_the_cost_says_so() {
    let value = text(600_000);
    for method in METHODS {
        let mut store = store();
        let pointer = RELATION.write_compressed(&mut store, method, &value).unwrap().unwrap();
        assert!(RELATION.read(&store, &pointer).unwrap() == value);
        let mut target = [0; 100];
        let cost = RELATION.slice_into(&store, &pointer, 400_000, &mut target).unwrap();
        assert_eq!(target, value[400_000..400_100]);
        assert_eq!(cost.decoded_bytes, 400_100);
        let whole = RELATION.read_into(&store, &pointer, &mut vec![0; 600_000]).unwrap();
        let prefix = RELATION.slice_into(&store, &pointer, 0, &mut target).unwrap();
        assert!(prefix.fetches() <= 5 && whole.fetches() > 50, "{prefix}; {whole}");
        assert_eq!(prefix.decoded_bytes, 100);
    }
}

#[test]
fn a_slice_in_one_group_decodes_one_group() {
    // The story behind it: three keys of a large document, and each read decompressed all of it.
    let value = text(10 << 20);
    for method in METHODS {
        let mut store = store();
        let options = GroupOptions::new(method);
        let size = options.group_bytes();
        let pointer = RELATION.write_grouped(&mut store, options, &value).unwrap().unwrap();
        let mut rng = Rng::new(51);
        for _ in 0..300 {
            let at = rng.below(value.len() - 100);
            let mut target = [0; 100];
            let cost = RELATION.slice_into(&store, &pointer, at, &mut target).unwrap();
            assert_eq!(target, value[at..at + 100]);
            let groups = (at + 99) / size - at / size + 1;
            assert_eq!(cost.decoded_bytes, (groups * size) as u64, "{at}");
            assert!(cost.leaf_bytes <= (groups * size) as u64 + 4 * 1996);
        }
        // Three at once in the same group: one decode.
        let mut targets = [[0; 10]; 3];
        let mut slices: Vec<_> = (targets.iter_mut().enumerate())
            .map(|(index, bytes)| SliceTarget { offset: 5 * size + 1000 * index, bytes })
            .collect();
        let cost = RELATION.slices_into(&store, &pointer, &mut slices).unwrap();
        assert_eq!(cost.decoded_bytes, size as u64);
        assert!(RELATION.read(&store, &pointer).unwrap() == value);
    }
}

#[test]
fn groups_take_hardly_more_than_the_whole() {
    for method in METHODS {
        let value = text(4 << 20);
        let mut store = store();
        let whole = RELATION.write_compressed(&mut store, method, &value).unwrap().unwrap();
        let options = GroupOptions::new(method);
        let groups = RELATION.write_grouped(&mut store, options, &value).unwrap().unwrap();
        let len = |pointer| ToastPointer::Direct(pointer).stored_len();
        let (whole, groups) = (len(whole), len(groups));
        assert!(groups * 100 <= whole * 103, "{method}: {groups} in groups, {whole} as a whole");
    }
}

#[test]
fn a_reader_that_knows_nothing_of_groups_refuses_the_pointer() {
    let mut store = store();
    let options = GroupOptions::new(CompressionMethod::Pglz);
    let pointer = RELATION.write_grouped(&mut store, options, &text(100_000)).unwrap().unwrap();
    let refused = ToastPointer::Direct(pointer).compression();
    assert_eq!(refused, Err(VarlenaError::UnknownMethod { bits: 3 }));
    let edited = RELATION.patch(&mut store, &pointer, 5, b"x");
    assert_eq!(edited, Err(Failure::Direct(DirectError::Compressed)));
}

#[test]
fn what_does_not_shrink_is_left_to_be_written_as_it_is() {
    let noise = Rng::new(2).bytes(300_000);
    let mut store = store();
    for method in METHODS {
        assert_eq!(RELATION.write_compressed(&mut store, method, &noise), Ok(None));
        let options = GroupOptions::new(method).with_group_bytes(4096).unwrap();
        assert_eq!(RELATION.write_grouped(&mut store, options, &noise), Ok(None));
        assert_eq!(store.tuples().count(), 0);
        // Beside what does, a group of noise is kept as it is.
        let mixed = [&noise[..8192], &text(200_000)].concat();
        let pointer = RELATION.write_grouped(&mut store, options, &mixed).unwrap().unwrap();
        assert!(RELATION.read(&store, &pointer).unwrap() == mixed);
        RELATION.delete(&mut store, &pointer).unwrap();
    }
    for bytes in [0, 3, 4095, 2048, 32 << 20] {
        let made = GroupOptions::new(CompressionMethod::Lz4).with_group_bytes(bytes);
        assert!(matches!(made, Err(DirectError::Parameter { .. })), "{bytes}");
    }
}

#[test]
fn broken_groups_are_located_errors() {
    let value = text(100_000);
    let mut store = store();
    let options = GroupOptions::new(CompressionMethod::Pglz).with_group_bytes(16_384).unwrap();
    let pointer = RELATION.write_grouped(&mut store, options, &value).unwrap().unwrap();
    let root = pointer.root();
    let sound = store.tuple_mut(root).unwrap().to_vec();
    let mut read = |at: usize, byte: u8| {
        let tuple = store.tuple_mut(root).unwrap();
        tuple.copy_from_slice(&sound);
        tuple[at] ^= byte;
        match RELATION.read(&store, &pointer) {
            Err(Failure::Direct(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    // The word at the front of the root's data: codec, size, length.
    assert!(matches!(read(32, 2), DirectError::GroupHeader { codec: 2, .. }));
    assert!(matches!(read(33, 64), DirectError::GroupHeader { shift: 78, .. }));
    assert!(matches!(read(36, 1), DirectError::GroupHeader { raw_len: 100_001, .. }));
}
