//! Decompresses an inline datum given in hex, as `pageinspect` shows it:
//! `cargo run --example decompress -- 4a000000180000401e610100506161616161`
use std::error::Error;
use std::io::Write;

use pgtoast_codec::decompress_to_vec;
use pgtoast_varlena::Varlena;

fn main() -> Result<(), Box<dyn Error>> {
    let hex = std::env::args().nth(1).ok_or("usage: decompress HEX")?;
    let datum = parse_hex(hex.trim_start_matches("\\x")).ok_or("not hex")?;
    let (Varlena::Compressed(value), _) = Varlena::parse(&datum, 0)? else {
        return Err("not an inline compressed datum".into());
    };
    let raw = decompress_to_vec(value.info.method()?, value.stream, value.info.len())?;
    std::io::stdout().write_all(&raw)?;
    Ok(())
}

fn parse_hex(hex: &str) -> Option<Vec<u8>> {
    let byte = |at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..hex.len()).step_by(2).map(byte).collect()
}
