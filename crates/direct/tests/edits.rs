//! Edited values against a flat array of bytes; what an edit writes, and what it leaves alone.
mod common;

use common::{RELATION, store, value};
use pgtoast_base::{BlockSize, Oid};
use pgtoast_direct::{
    ChunkStore, DirectError, DirectRelation, Edited, Failure, MemoryStore, Parameters, ValueTag,
};
use pgtoast_testkit::Rng;
use pgtoast_varlena::{DirectPointer, ToastPointer};

fn tiny(fanout: usize, flat_chunks: usize) -> DirectRelation {
    let parameters = Parameters::default()
        .with_chunk_bytes(16)
        .and_then(|it| it.with_fanout(fanout))
        .and_then(|it| it.with_flat_chunks(flat_chunks))
        .expect("possible");
    DirectRelation::new(Oid::new(1), parameters)
}

fn resilient(chunk_bytes: usize, fanout: usize) -> DirectRelation {
    let parameters = Parameters::resilient(BlockSize::KIB_8)
        .with_chunk_bytes(chunk_bytes)
        .and_then(|it| it.with_fanout(fanout))
        .expect("possible");
    DirectRelation::new(Oid::new(1), parameters).with_tag(ValueTag::new(77))
}

/// One edit at random, of the value and of the model alike.
fn edit(
    rng: &mut Rng,
    relation: &DirectRelation,
    store: &mut MemoryStore,
    pointer: &DirectPointer,
    model: &mut Vec<u8>,
) -> Edited {
    let len = model.len();
    let most = [3, 20, 60, 400][rng.below(4)];
    let amount = rng.below(most) + 1;
    let bytes = rng.bytes(amount);
    // Places at the edges of leaves are the interesting ones.
    let offset = match rng.below(3) {
        0 => rng.below(len),
        1 => rng.below(len) / 16 * 16,
        _ => (len - 1) / 16 * 16,
    };
    let done = match rng.below(5) {
        0 => {
            let bytes = &bytes[..bytes.len().min(len - offset)];
            model[offset..offset + bytes.len()].copy_from_slice(bytes);
            relation.patch(store, pointer, offset, bytes)
        }
        1 => {
            model.extend_from_slice(&bytes);
            relation.append(store, pointer, &bytes)
        }
        2 => {
            let len = offset.max(1);
            model.truncate(len);
            relation.truncate(store, pointer, len)
        }
        3 => {
            model.splice(offset..offset, bytes.iter().copied());
            relation.insert_range(store, pointer, offset, &bytes)
        }
        _ => {
            let amount = amount.min(len - offset);
            let amount = if amount == len { len - 1 } else { amount };
            model.drain(offset..offset + amount);
            relation.remove_range(store, pointer, offset, amount)
        }
    };
    done.expect("a sound edit")
}

#[test]
fn random_edits_equal_the_flat_model_and_lose_no_tuple() {
    let scripts = std::env::var("PGTOAST_SCRIPTS").ok().and_then(|it| it.parse().ok());
    for seed in 0..scripts.unwrap_or(3000) {
        let mut rng = Rng::new(seed);
        let relation = match rng.below(5) {
            0 => tiny(2, 1),
            1 => tiny(3, 4),
            2 => tiny(5, 100),
            3 => resilient(16, 3),
            _ => tiny(50, 5),
        };
        let mut store = store();
        let len = [1, 16, 17, 64, 65, 300, 2000][rng.below(7)] + rng.below(3);
        let mut model = rng.bytes(len);
        let mut pointer = relation.write(&mut store, &model).unwrap();
        for step in 0..rng.below(12) + 1 {
            let old = (pointer, model.clone());
            let before = store.tuples().count();
            let edited = edit(&mut rng, &relation, &mut store, &pointer, &mut model);
            let context = || format!("seed {seed}, step {step}");
            assert_eq!(store.tuples().count(), before + edited.written, "{}", context());
            pointer = edited.pointer;
            assert_eq!(relation.read(&store, &pointer), Ok(model.clone()), "{}", context());
            assert_eq!(relation.read(&store, &old.0), Ok(old.1), "{}", context());
            relation.verify(&store, &pointer, |fault| panic!("{fault}, {}", context()));
            let at = rng.below(model.len());
            let mut slice = vec![0; rng.below(model.len() - at) + 1];
            relation.slice_into(&store, &pointer, at, &mut slice).unwrap();
            assert_eq!(slice, model[at..at + slice.len()], "{}", context());
            // What only the old version had goes; what is left is the new one, all of it and no more.
            for tid in edited.retired {
                store.delete(tid).unwrap();
            }
            let mut tuples = relation.tuples(&store, &pointer).unwrap();
            tuples.sort_unstable();
            let mut left: Vec<_> = store.tuples().map(|(tid, _)| tid).collect();
            left.sort_unstable();
            assert_eq!(tuples, left, "{}", context());
            assert_eq!(relation.read(&store, &pointer), Ok(model.clone()), "{}", context());
        }
        relation.delete(&mut store, &pointer).unwrap();
        assert_eq!(store.tuples().count(), 0);
    }
}

#[test]
fn one_changed_byte_writes_its_leaf_and_the_path_to_it() {
    let mut store = store();
    let before = value(8 << 20);
    let pointer = RELATION.write(&mut store, &before).unwrap();
    for offset in [0, 1996 * 50, 4_000_000, (8 << 20) - 1] {
        store.reset_counts();
        let edited = RELATION.patch(&mut store, &pointer, offset, b"!").unwrap();
        let counts = store.counts();
        assert_eq!((edited.written, edited.retired.len()), (4, 4)); // a leaf and three levels
        assert_eq!(counts.inserts, 4);
        assert!(counts.inserted_bytes <= 12 << 10, "{counts:?}");
        let mut after = before.clone();
        after[offset] = b'!';
        assert!(RELATION.read(&store, &edited.pointer).unwrap() == after);
        assert!(RELATION.read(&store, &pointer).unwrap() == before, "the old version is as it was");
    }
}

#[test]
fn sixty_four_appends_write_little_more_than_their_bytes() {
    // The story behind it: each append to a big value stored all of it again, until users fled to
    // large objects, which have neither the row's lifetime nor its permissions.
    let mut store = store();
    let mut model = value(4 << 20);
    let mut pointer = RELATION.write(&mut store, &model).unwrap();
    let original = (pointer, model.clone());
    store.reset_counts();
    for round in 0..64_u8 {
        let bytes = vec![round; 64 << 10];
        model.extend_from_slice(&bytes);
        pointer = RELATION.append(&mut store, &pointer, &bytes).unwrap().pointer;
    }
    let (written, appended) = (store.counts().inserted_bytes, 64 * (64 << 10));
    assert!(written * 10 <= appended * 11, "{written} bytes written for {appended}");
    assert!(RELATION.read(&store, &pointer).unwrap() == model);
    assert!(RELATION.read(&store, &original.0).unwrap() == original.1);

    // And a thousand patches of 16 bytes, inserts and cuts that shift all that follows.
    let mut rng = Rng::new(49);
    store.reset_counts();
    for _ in 0..1000 {
        let at = rng.below(model.len() - 16);
        let bytes = rng.bytes(16);
        model[at..at + 16].copy_from_slice(&bytes);
        pointer = RELATION.patch(&mut store, &pointer, at, &bytes).unwrap().pointer;
    }
    let counts = store.counts();
    assert!(counts.inserted_bytes <= 1000 * (12 << 10), "{counts:?}");
    for _ in 0..50 {
        let (at, len) = (rng.below(model.len() - 100_000), rng.below(100_000));
        model.drain(at..at + len);
        pointer = RELATION.remove_range(&mut store, &pointer, at, len).unwrap().pointer;
        let bytes = rng.bytes(5000);
        model.splice(at..at, bytes.iter().copied());
        pointer = RELATION.insert_range(&mut store, &pointer, at, &bytes).unwrap().pointer;
    }
    assert!(RELATION.read(&store, &pointer).unwrap() == model);
}

#[test]
fn a_patched_small_value_stays_small_and_a_short_leaf_in_its_midst_makes_it_tall() {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(20_000)).unwrap();
    let fetches = |store: &MemoryStore, pointer: &DirectPointer| {
        RELATION.slice_into(store, pointer, 8000, &mut [0; 10]).unwrap().fetches()
    };
    let patched = RELATION.patch(&mut store, &pointer, 8000, b"abc").unwrap();
    assert_eq!((patched.written, fetches(&store, &patched.pointer)), (2, 2));
    let appended = RELATION.append(&mut store, &patched.pointer, &[7; 1996]).unwrap();
    assert_eq!((appended.written, fetches(&store, &appended.pointer)), (2, 2));
    let cut = RELATION.remove_range(&mut store, &appended.pointer, 3000, 5).unwrap();
    assert_eq!(cut.written, 1 + 1 + 1); // a leaf, the last chunk, which is no root any more, the root
    let mut expected = value(20_000);
    expected[8000..8003].copy_from_slice(b"abc");
    expected.extend_from_slice(&[7; 1996]);
    expected.drain(3000..3005);
    assert_eq!(RELATION.read(&store, &cut.pointer), Ok(expected));
}

#[test]
fn an_edit_that_cannot_be_leaves_the_old_version_and_nothing_else() {
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value(500_000)).unwrap();
    let tuples = store.tuples().count();
    let range = |offset, len| DirectError::Range { offset, len, value_len: 500_000 };
    let refuse = |done: Result<Edited, Failure<_>>, error: DirectError| {
        assert_eq!(done.map_err(|it: Failure<pgtoast_direct::MemoryError>| it), Err(error.into()));
    };
    refuse(RELATION.patch(&mut store, &pointer, 499_999, b"ab"), range(499_999, 2));
    refuse(RELATION.insert_range(&mut store, &pointer, 500_001, b"ab"), range(500_001, 0));
    refuse(RELATION.remove_range(&mut store, &pointer, 1, usize::MAX), range(1, usize::MAX));
    refuse(RELATION.truncate(&mut store, &pointer, 500_001), range(0, 500_001));
    refuse(RELATION.truncate(&mut store, &pointer, 0), DirectError::Empty);
    refuse(RELATION.remove_range(&mut store, &pointer, 0, 500_000), DirectError::Empty);
    let same = RELATION.append(&mut store, &pointer, b"").unwrap();
    assert_eq!((same.pointer, same.written), (pointer, 0));
    assert_eq!(store.tuples().count(), tuples);

    // A tree that may have 32 leaves: an append past that.
    let deep = tiny(2, 1);
    let limit = 16 << 16;
    let pointer = deep.write(&mut store, &value(limit - 5)).unwrap();
    let tuples = store.tuples().count();
    let error = DirectError::TooLong { len: limit + 1, limit };
    refuse(deep.append(&mut store, &pointer, b"123456"), error);
    assert_eq!(store.tuples().count(), tuples);
    assert!(deep.read(&store, &pointer).unwrap() == value(limit - 5));
    let full = deep.append(&mut store, &pointer, b"12345").unwrap();
    assert_eq!(ToastPointer::Direct(full.pointer).stored_len(), limit);
}
