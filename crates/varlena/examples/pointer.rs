//! Explains a datum given in hex, as `pageinspect` or `encode(…, 'hex')` shows it:
//! `cargo run --example pointer -- 0112d5070000d1070000b2400000b0400000`
use std::process::ExitCode;

use pgtoast_varlena::{ToastPointer, Varlena, VarlenaError};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> ExitCode {
    let Some(bytes) = std::env::args().nth(1).and_then(|hex| parse_hex(&hex)) else {
        eprintln!("usage: pointer HEX");
        return ExitCode::FAILURE;
    };
    match explain(&bytes) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn explain(bytes: &[u8]) -> Result<String, VarlenaError> {
    let (varlena, len) = Varlena::parse(bytes, 0)?;
    let text = match varlena {
        Varlena::Short(payload) => format!("short, {} bytes of payload", payload.len()),
        Varlena::Long(payload) => format!("long, {} bytes of payload", payload.len()),
        Varlena::Compressed(compressed) => format!(
            "inline {}, {} bytes raw, {} in the stream",
            compressed.info.method()?,
            compressed.info.len(),
            compressed.stream.len()
        ),
        Varlena::External(pointer) => explain_pointer(&pointer)?,
    };
    Ok(format!("{len} bytes: {text}"))
}

fn explain_pointer(pointer: &ToastPointer) -> Result<String, VarlenaError> {
    let compression = pointer.compression()?.map_or("as it is".into(), |m| m.to_string());
    let place = match pointer {
        ToastPointer::Direct(direct) => format!("root {}", direct.root()),
        _ => format!("value {}", pointer.value_id().unwrap_or_default()),
    };
    Ok(format!(
        "out of line, {} bytes raw, {} stored {compression}, {place} of toast relation {}",
        pointer.raw_payload_len()?,
        pointer.stored_len(),
        pointer.toast_rel_id()
    ))
}

fn parse_hex(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.strip_prefix("\\x").unwrap_or(hex);
    let byte = |at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..digits.len()).step_by(2).map(byte).collect()
}
