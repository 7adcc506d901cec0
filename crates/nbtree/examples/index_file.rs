//! What is in the file of a TOAST index, and is it sound?
//! `cargo run --example index_file -- PATH/TO/16404 [oid8]`
use std::error::Error;
use std::process::ExitCode;

use pgtoast_base::BlockSize;
use pgtoast_nbtree::{Index, KeyWidth, MemoryPages};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (path, width) = match arguments.as_slice() {
        [path] => (path, KeyWidth::Oid),
        [path, width] if width == "oid8" => (path, KeyWidth::Oid8),
        _ => {
            eprintln!("usage: index_file FILE [oid8]");
            return Ok(ExitCode::FAILURE);
        }
    };
    let pages = MemoryPages::from_bytes(BlockSize::KIB_8, &std::fs::read(path)?);
    let index = Index::open(pages, width)?;
    let mut findings = 0;
    let report = index.check_each(|finding| {
        findings += 1;
        println!("{finding}");
    })?;
    println!("{report:?}");
    println!("{findings} findings; the chunks themselves are in the heap, and REINDEX mends this");
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
