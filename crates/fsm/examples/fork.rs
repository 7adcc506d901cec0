//! What does a free space map say, and is it sound?
//! `cargo run --example fork -- PATH/TO/16384_fsm NBLOCKS`
use std::error::Error;
use std::process::ExitCode;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{FreeSpaceMap, Geometry, VecPages};

const SIZE: BlockSize = BlockSize::KIB_8;
const PAGE_HEADER_BYTES: usize = 24;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [path, nblocks] = arguments.as_slice() else {
        eprintln!("usage: fork FSM_FILE BLOCKS_OF_THE_RELATION");
        return Ok(ExitCode::FAILURE);
    };
    let (bytes, nblocks) = (std::fs::read(path)?, nblocks.parse()?);
    let geometry = Geometry::of(SIZE);
    let contents = bytes.chunks_exact(SIZE.bytes()).map(|page| &page[PAGE_HEADER_BYTES..]);
    let mut map = FreeSpaceMap::new(geometry, VecPages::from_pages(geometry, contents));

    let mut free_bytes = 0;
    for block in (0..nblocks).map(BlockNumber::new) {
        free_bytes += map.category(block)?.free_bytes(SIZE);
    }
    println!("{nblocks} blocks have {free_bytes} bytes free or more");
    let mut findings = 0;
    map.check(nblocks, |finding| {
        findings += 1;
        println!("{finding}");
    })?;
    println!("{findings} findings; vacuuming the table mends them");
    Ok(ExitCode::SUCCESS)
}
