//! Where the writer puts what, byte for byte: one page as it is, and of larger values every tuple's place,
//! number, length, children and bounds. A change here is a change of the format.
//!
//! After an intended one: `PGTOAST_GOLDEN=write cargo test -p pgtoast-direct --test layout`.
mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use common::{RELATION, store, value};
use pgtoast_base::{BlockSize, Oid};
use pgtoast_direct::{ChunkTuple, DirectRelation, MemoryStore, Parameters, ValueTag};
use pgtoast_varlena::ToastPointer;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn compare(name: &str, made: &[u8]) {
    let path = golden(name);
    if std::env::var_os("PGTOAST_GOLDEN").is_some() {
        fs::write(&path, made).expect("readable");
    }
    let kept = fs::read(&path).expect("readable");
    assert!(kept == made, "{name} differs: {}", path.display());
}

/// What is in a store, a line a tuple.
fn listing(store: &MemoryStore) -> String {
    let mut text = String::new();
    for (tid, tuple) in store.tuples() {
        let chunk = ChunkTuple::parse(tuple, tid).expect("readable");
        write!(text, "{tid} {} bytes, number {:#x}", tuple.len(), chunk.seq).expect("readable");
        if let Some(data) = chunk.data {
            let sum = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
                (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            write!(text, ", data {} {sum:016x}", data.len()).expect("readable");
        }
        for tid in chunk.tids.unwrap_or_default() {
            write!(text, " {}", tid.get()).expect("readable");
        }
        for bound in chunk.bounds.unwrap_or_default() {
            write!(text, " {}", bound.get()).expect("readable");
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_page_with_a_value_of_three_chunks_and_one_of_one_byte() {
    let mut store = store();
    let flat = RELATION.write(&mut store, &value(5000)).unwrap();
    let single = RELATION.write(&mut store, b"x").unwrap();
    let mut bytes = store.to_file().unwrap();
    assert_eq!(bytes.len(), 8192);
    for pointer in [flat, single] {
        let mut datum = [0; 22];
        ToastPointer::Direct(pointer).encode(&mut datum).unwrap();
        bytes.extend_from_slice(&datum);
    }
    compare("three_chunks.page", &bytes);
}

#[test]
fn larger_values() {
    for (name, relation, lens) in [
        ("oid.txt", RELATION, [1996, 1997, 199_600, 199_601, 320_000].as_slice()),
        (
            "oid8.txt",
            DirectRelation::new(Oid::new(1), Parameters::oid8(BlockSize::KIB_8)),
            &[1992, 1993, 200_000],
        ),
        (
            "levels.txt", // of nodes: 26 leaves make 6, 2, 1
            DirectRelation::new(
                Oid::new(1),
                Parameters::oid(BlockSize::KIB_1)
                    .with_chunk_bytes(16)
                    .and_then(|it| it.with_fanout(5))
                    .and_then(|it| it.with_flat_chunks(3))
                    .unwrap(),
            ),
            &[16, 48, 49, 26 * 16],
        ),
        (
            "resilient.txt",
            DirectRelation::new(Oid::new(1), Parameters::resilient(BlockSize::KIB_8))
                .with_tag(ValueTag::new(7)),
            &[10, 5000],
        ),
    ] {
        let mut store = MemoryStore::new(relation.parameters().block_size());
        for len in lens {
            relation.write(&mut store, &value(*len)).unwrap();
        }
        compare(name, listing(&store).as_bytes());
    }
}

#[test]
fn pieces_of_any_size_make_the_same_pages() {
    for len in [1, 1995, 1996, 1997, 199_600, 199_601, 250_000] {
        let value = value(len);
        let mut expected = store();
        let pointer = RELATION.write(&mut expected, &value).unwrap();
        for piece in [1, 7, 1995, 1996, 1997, 4096, 100_000] {
            let mut store = store();
            let mut writer = RELATION.writer(&mut store);
            for piece in value.chunks(piece) {
                writer.write(piece).unwrap();
            }
            let written = writer.finish().unwrap();
            assert_eq!(RELATION.pointer(written.root, len).unwrap(), pointer);
            assert_eq!(written.tuples as u64, expected.counts().inserts);
            assert!(store.to_file().unwrap() == expected.to_file().unwrap(), "{len} by {piece}");
        }
    }
}
