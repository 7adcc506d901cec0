//! What does a slice of a value cost, and how large is the tree?
//! `cargo run --example slices -- LENGTH [OFFSET [SLICE_LENGTH]]`
use std::error::Error;

use pgtoast_base::{BlockSize, Oid};
use pgtoast_direct::{DirectRelation, MemoryStore, Parameters};

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn Error>> {
    let numbers = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    let len = numbers.first().copied().unwrap_or(320_000);
    let offset = numbers.get(1).copied().unwrap_or(len / 2);
    let slice_len = numbers.get(2).copied().unwrap_or(100).min(len.saturating_sub(offset));

    let mut store = MemoryStore::new(BlockSize::KIB_8);
    let relation = DirectRelation::new(Oid::new(16_560), Parameters::default());
    let mut writer = relation.writer(&mut store);
    let piece: Vec<u8> = (0..=255).cycle().take(64 << 10).collect();
    for start in (0..len).step_by(piece.len()) {
        writer.write(&piece[..piece.len().min(len - start)])?;
    }
    let written = writer.finish()?;
    let pointer = relation.pointer(written.root, written.stored_len)?;
    println!("{len} bytes: {} tuples in {} pages", written.tuples, store.block_count());

    let mut slice = vec![0; slice_len];
    let cost = relation.slice_into(&store, &pointer, offset, &mut slice)?;
    println!("{slice_len} bytes at {offset}: {cost}");
    let mut source = relation.source(&store, &pointer)?;
    std::io::copy(&mut source, &mut std::io::sink())?;
    println!("all of it: {}", source.cost());
    Ok(())
}
