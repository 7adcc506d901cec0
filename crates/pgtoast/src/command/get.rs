//! `pgtoast get`
use std::io::Write;

use serde::Serialize;

use super::Outcome;
use super::arguments::{Format, GetArguments};
use super::cluster::{Context, toast_bytes, warn};
use super::failure::Failure;
use super::output::Output;
use crate::datadir::DatadirError;
use crate::page::PageError;
use crate::report::SCHEMA_VERSION;
use crate::report::get::{FindError, FoundValue, Part, StreamError, ValueReport};
use crate::report::row_text::TextKind;
use crate::report::values::parse_tid;
use crate::toast::{ByteSlice, CharSlice};

pub(super) fn run(
    context: &Context,
    arguments: &GetArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let tid = parse_tid(&arguments.tid).ok_or_else(|| {
        Failure::Usage(format!("{} is no row: one is (0,13), block and item", arguments.tid))
    })?;
    let part = part(arguments)?;
    let directory = context.directory()?;
    let named = context.table(&directory, &arguments.table)?;
    let (database, relation) = (&named.database, named.heap()?);
    let found = FoundValue::find(database, relation, tid, &arguments.column);
    let found = found.map_err(|error| match error {
        FindError::Column => {
            let table = database.qualified_name(relation);
            Failure::Other(format!("{table} has no column {}", arguments.column))
        }
        FindError::Datadir(DatadirError::Page { error: PageError::ItemMissing { .. }, .. }) => {
            Failure::Other(error.to_string())
        }
        FindError::Datadir(DatadirError::Page { .. } | DatadirError::Tuple { .. })
        | FindError::Toast(_)
        | FindError::Tuple { .. } => Failure::Lost(error.to_string()),
        error => Failure::Other(error.to_string()),
    })?;
    let encoding = Encoding::of(arguments.format, &found)?;
    if found.report.is_dead == Some(true) {
        warn(format_args!("row {} is dead: no session sees it any more", found.report.tid));
    }
    if found.report.is_null && !output.json {
        warn("null");
    }
    let is_elsewhere = found.report.value_id.is_some();
    let bytes = if is_elsewhere { toast_bytes(database, relation) } else { 0 };
    let is_json = output.json;
    let head = if is_json { Some(json_head(&found.report, encoding)?) } else { None };
    let mut encoder = Encoder::new(encoding, head, &mut *output);
    let mut written = 0_u64;
    let streamed = context.while_watched(bytes, |budget| {
        found.stream(part, budget, &mut |piece| {
            written += piece.len() as u64;
            encoder.write(piece)
        })
    });
    let finished = match streamed {
        Ok(()) => encoder.finish(found.report.is_null),
        Err(StreamError::Take(failure)) => Err(failure),
        Err(StreamError::Read(error)) => {
            // What is out is right, but no more than a beginning.
            let table = &found.report.table;
            let place = format!("{table} {} column {}", found.report.tid, found.report.column);
            Err(Failure::Lost(match written {
                0 => format!("{place}: {error}"),
                written => format!("{place}: after {written} bytes: {error}"),
            }))
        }
    };
    finished?;
    if is_json {
        output.write_all(if found.report.is_null { b"null}\n" } else { b"\"}\n" })?;
    } else if encoding.ends_line() && !found.report.is_null {
        output.write_all(b"\n")?;
    }
    Ok(Outcome::Clean)
}

fn part(arguments: &GetArguments) -> Result<Part, Failure> {
    let pair = |text: &str| {
        let (first, second) = text.split_once(':')?;
        Some((first.trim().parse::<usize>().ok()?, second.trim().parse::<usize>().ok()?))
    };
    let wrong = |text: &str| Failure::Usage(format!("{text} is no part: one is 100:20"));
    match (&arguments.slice, &arguments.chars) {
        (Some(text), _) => {
            let (offset, len) = pair(text).ok_or_else(|| wrong(text))?;
            Ok(Part::Bytes(ByteSlice::new(offset, len)))
        }
        (None, Some(text)) => {
            let (start, count) = pair(text).ok_or_else(|| wrong(text))?;
            let start = start.checked_sub(1);
            let start =
                start.ok_or_else(|| Failure::Usage("characters count from 1".to_owned()))?;
            Ok(Part::Chars(CharSlice::new(start, count)))
        }
        (None, None) => Ok(Part::Whole),
    }
}

/// What becomes of a value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Raw,
    Hex,
    Escape,
    /// Text in UTF-8, which is checked.
    Text,
    /// A value of fixed length, which has a text.
    Fixed(TextKind),
}

impl Encoding {
    fn of(format: Format, found: &FoundValue<'_>) -> Result<Self, Failure> {
        Ok(match format {
            Format::Raw => Self::Raw,
            Format::Hex => Self::Hex,
            Format::Escape => Self::Escape,
            Format::Text => match found.text_kind {
                Some(TextKind::Itself) => Self::Text,
                Some(TextKind::Hex) => Self::Hex,
                Some(kind) => Self::Fixed(kind),
                None => {
                    let name = found.report.type_name.as_deref().unwrap_or("of an unknown type");
                    return Err(Failure::Other(format!(
                        "no text is known here for values {name}; --format hex prints their bytes"
                    )));
                }
            },
        })
    }

    const fn ends_line(self) -> bool {
        !matches!(self, Self::Raw)
    }

    /// What a JSON text holds: bytes that may be no text are printed as hex there.
    const fn in_json(self) -> Self {
        match self {
            Self::Raw => Self::Hex,
            other => other,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Hex => "hex",
            Self::Escape => "escape",
            Self::Text | Self::Fixed(_) => "text",
        }
    }
}

#[derive(Serialize)]
struct Head<'a> {
    schema: u32,
    command: &'static str,
    #[serde(flatten)]
    value: &'a ValueReport,
    encoding: &'static str,
}

/// Everything but the value's own bytes, which follow piece by piece.
fn json_head(report: &ValueReport, encoding: Encoding) -> Result<String, Failure> {
    let encoding = encoding.in_json().name();
    let head = Head { schema: SCHEMA_VERSION, command: "get", value: report, encoding };
    let head = serde_json::to_string(&head)?;
    let quote = if report.is_null { "" } else { "\"" };
    Ok(format!("{},\"content\":{quote}", head.trim_end_matches('}')))
}

/// Turns pieces of a value into what is printed.
struct Encoder<'o> {
    encoding: Encoding,
    is_json: bool,
    /// What comes before the first piece: nothing is printed of a value that cannot be read at all.
    head: Option<String>,
    output: &'o mut Output,
    is_begun: bool,
    /// The beginning of a character that the last piece ended in.
    carry: Vec<u8>,
    buffer: Vec<u8>,
}

impl<'o> Encoder<'o> {
    fn new(encoding: Encoding, head: Option<String>, output: &'o mut Output) -> Self {
        let is_json = head.is_some();
        let encoding = if is_json { encoding.in_json() } else { encoding };
        let (carry, buffer) = (Vec::new(), Vec::new());
        Self { encoding, is_json, head, output, is_begun: false, carry, buffer }
    }

    /// What comes before the first byte of a value.
    fn begin(&mut self, is_null: bool) -> Result<(), Failure> {
        if core::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        if let Some(head) = self.head.take() {
            self.output.write_all(head.as_bytes())?;
        }
        if self.encoding == Encoding::Hex && !is_null {
            // In JSON the backslash is doubled.
            self.output.write_all(if self.is_json { br"\\x" } else { br"\x" })?;
        }
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.begin(false)?;
        self.buffer.clear();
        match self.encoding {
            Encoding::Raw => return Ok(self.output.write_all(piece)?),
            Encoding::Hex => {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble & 15)];
                self.buffer.extend(piece.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
            }
            Encoding::Escape => {
                for byte in piece {
                    match byte {
                        b'\\' => self.buffer.extend_from_slice(br"\\"),
                        0x20..=0x7e => self.buffer.push(*byte),
                        byte => write!(self.buffer, "\\{byte:03o}")?,
                    }
                }
                if self.is_json {
                    let text = String::from_utf8_lossy(&self.buffer).into_owned();
                    return self.json_text(&text);
                }
            }
            Encoding::Text => return self.text(piece),
            Encoding::Fixed(kind) => {
                let text = kind.fixed(piece).ok_or_else(|| {
                    Failure::Lost(format!(
                        "{} bytes are no value of the column's type",
                        piece.len()
                    ))
                })?;
                return if self.is_json { self.json_text(&text) } else { self.plain(&text) };
            }
        }
        Ok(self.output.write_all(&self.buffer)?)
    }

    /// Text, of which a character may go on in the next piece.
    fn text(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let mut bytes = core::mem::take(&mut self.carry);
        bytes.extend_from_slice(piece);
        let (valid, is_broken) = match core::str::from_utf8(&bytes) {
            Ok(_) => (bytes.len(), false),
            Err(error) => (error.valid_up_to(), error.error_len().is_some()),
        };
        let text = String::from_utf8_lossy(&bytes[..valid]);
        if self.is_json {
            self.json_text(&text)?
        } else {
            self.plain(&text)?
        }
        if is_broken {
            return Err(not_utf8(bytes[valid]));
        }
        self.carry = bytes.split_off(valid);
        Ok(())
    }

    fn plain(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.output.write_all(text.as_bytes())?)
    }

    /// The inside of a JSON string.
    fn json_text(&mut self, text: &str) -> Result<(), Failure> {
        let quoted = serde_json::to_string(text)?;
        let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        Ok(self.output.write_all(inside.as_bytes())?)
    }

    fn finish(mut self, is_null: bool) -> Result<(), Failure> {
        // An empty value has no piece, and is not the same as none.
        self.begin(is_null)?;
        if let Some(first) = self.carry.first() {
            return Err(not_utf8(*first));
        }
        Ok(())
    }
}

fn not_utf8(byte: u8) -> Failure {
    Failure::Lost(format!(
        "byte {byte:#04x} begins no character in UTF-8; --format raw prints the bytes as they are"
    ))
}
