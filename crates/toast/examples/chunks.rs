//! What is in a TOAST relation? Its values, from the relation's file and nothing else:
//! `cargo run --example chunks -- PGDATA/base/5/16441`
use std::collections::BTreeMap;
use std::error::Error;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::Page;
use pgtoast_toast::{ValueIdWidth, page_chunks};

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: chunks FILE")?;
    let file = std::fs::read(path)?;
    let block_size = BlockSize::default();
    let mut values = BTreeMap::new();
    for (block, bytes) in (0..).map(BlockNumber::new).zip(file.chunks(block_size.bytes())) {
        let page =
            Page::parse(bytes, block_size).map_err(|error| format!("block {block}: {error}"))?;
        for chunk in page_chunks(&page, block, ValueIdWidth::Oid) {
            match chunk {
                Ok(chunk) => {
                    let (chunks, bytes) = values.entry(chunk.value_id).or_insert((0, 0));
                    (*chunks, *bytes) = (*chunks + 1, *bytes + chunk.data.len());
                }
                Err(error) => println!("broken: {error}"),
            }
        }
    }
    println!("{:>20} {:>10} {:>12}", "value", "chunks", "bytes");
    for (value_id, (chunks, bytes)) in values {
        println!("{value_id:>20} {chunks:>10} {bytes:>12}");
    }
    Ok(())
}
