//! What pglz would make of a file, were it a column's value.
//!
//! `cargo run -p pgtoast-pglz --example ratio -- FILE...`; without a file it looks at its own source.
#![expect(clippy::print_stdout, reason = "an example shows its result")]
use pgtoast_pglz::{Compressor, Strategy};

fn main() -> std::io::Result<()> {
    let mut files: Vec<_> = std::env::args_os().skip(1).map(std::path::PathBuf::from).collect();
    if files.is_empty() {
        files.push(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ratio.rs"));
    }
    let mut compressor = Compressor::new();
    for file in files {
        let value = std::fs::read(&file)?;
        let file = file.display();
        match compressor.compress_to_vec(&value, &Strategy::DEFAULT) {
            Some(stream) => println!("{file}: {} bytes, compressed {}", value.len(), stream.len()),
            None => println!("{file}: {} bytes, kept as they are", value.len()),
        }
    }
    Ok(())
}
