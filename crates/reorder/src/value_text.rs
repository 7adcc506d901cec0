//! Values as a server prints them, for types that it has built in.
mod array;
mod date;
mod float;
mod numeric;

use alloc::string::String;
use core::fmt::Write as _;
use core::str;

use pgtoast_base::Oid;

use crate::{BuiltinType, Column, ReorderError};

/// Turns the bytes of values into text.
pub trait ValueText {
    /// Appends what a server prints for a value of a column, before any quoting. `bytes` are as in
    /// [`ColumnValue::Value`](crate::ColumnValue::Value).
    ///
    /// # Errors
    /// [`ReorderError::Type`] for a type that it does not know, and for bytes that are no value of it.
    fn append(&self, column: &Column, bytes: &[u8], text: &mut String) -> Result<(), ReorderError>;
}

/// The types of [`BuiltinType`], and domains over them, as with the settings a server comes with: dates in
/// ISO style, bytes in hex, floats in the shortest form that reads back the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuiltinText;

impl ValueText for BuiltinText {
    fn append(&self, column: &Column, bytes: &[u8], text: &mut String) -> Result<(), ReorderError> {
        append(column.base_type_id, bytes, text)
            .map_err(|at| ReorderError::Type { type_id: column.base_type_id, at })
    }
}

/// Appends a value, or says which of its bytes is wrong; 0 for a type that is not known.
fn append(type_id: Oid, bytes: &[u8], text: &mut String) -> Result<(), usize> {
    let Some(builtin) = BuiltinType::of(type_id) else { return Err(0) };
    match builtin {
        BuiltinType::BOOL => text.push(if fixed(bytes)? == [0] { 'f' } else { 't' }),
        BuiltinType::BYTEA => {
            text.push_str("\\x");
            bytes.iter().for_each(|byte| push_hex(*byte, text));
        }
        BuiltinType::CHAR => match fixed(bytes)? {
            [0] => {}
            [byte] if byte.is_ascii() => text.push(byte.into()),
            [byte] => text.extend(octal(byte)),
        },
        BuiltinType::NAME => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            text.push_str(utf8(&bytes[..end])?);
        }
        BuiltinType::INT8 => display(i64::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::INT2 => display(i16::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::INT4 => display(i32::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::OID => display(u32::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::FLOAT4 => float::append_f32(f32::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::FLOAT8 => float::append_f64(f64::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::DATE => date::append_date(i32::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::TIMESTAMP => date::append_timestamp(i64::from_le_bytes(fixed(bytes)?), text),
        BuiltinType::BIT | BuiltinType::VARBIT => bits(bytes, text)?,
        BuiltinType::NUMERIC => numeric::append(bytes, text)?,
        BuiltinType::UUID => uuid(fixed(bytes)?, text),
        BuiltinType::TEXT | BuiltinType::VARCHAR | BuiltinType::BPCHAR | BuiltinType::JSON => {
            text.push_str(utf8(bytes)?);
        }
        _ => match builtin.element.and_then(BuiltinType::of) {
            Some(element) => array::append(element, bytes, text)?,
            None => return Err(0),
        },
    }
    Ok(())
}

/// The bytes of a value of fixed length.
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], usize> {
    bytes.try_into().map_err(|_| bytes.len().min(N))
}

fn utf8(bytes: &[u8]) -> Result<&str, usize> {
    str::from_utf8(bytes).map_err(|error| error.valid_up_to())
}

fn display(value: impl core::fmt::Display, text: &mut String) {
    // A string takes anything.
    let _ = write!(text, "{value}");
}

fn push_hex(byte: u8, text: &mut String) {
    for digit in [byte >> 4, byte & 15] {
        text.extend(char::from_digit(digit.into(), 16));
    }
}

/// A byte of the type `"char"` that is not ASCII.
fn octal(byte: u8) -> [char; 4] {
    let digit = |shift: u8| char::from(b'0' + (byte >> shift & 7));
    ['\\', digit(6), digit(3), digit(0)]
}

/// ```text
/// byte 0            4
///      | bits, i32  | the first bit is the highest of its byte ... |
/// ```
fn bits(bytes: &[u8], text: &mut String) -> Result<(), usize> {
    let Some((len, bytes)) = bytes.split_first_chunk() else { return Err(bytes.len()) };
    let len = usize::try_from(i32::from_le_bytes(*len)).map_err(|_| 0_usize)?;
    if len.div_ceil(8) != bytes.len() {
        return Err(4);
    }
    text.extend((0..len).map(|at| if bytes[at / 8] >> (7 - at % 8) & 1 == 1 { '1' } else { '0' }));
    Ok(())
}

fn uuid(bytes: [u8; 16], text: &mut String) {
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        push_hex(*byte, text);
    }
}
