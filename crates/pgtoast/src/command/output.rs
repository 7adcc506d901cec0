//! Standard output: text with or without colours, or one JSON document.
use core::fmt;
use core::ops::ControlFlow;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use super::arguments::When;
use super::failure::Failure;
use crate::report::SCHEMA_VERSION;

/// What a walk that prints as it goes is told.
pub(super) fn go_on_if(is_printed: bool) -> ControlFlow<()> {
    if is_printed { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Standard output.
pub(super) struct Output {
    out: BufWriter<Stdout>,
    pub(super) json: bool,
    pub(super) is_colored: bool,
    /// Whether the list that is being printed has an element.
    has_element: bool,
}

impl Output {
    pub(super) fn new(json: bool, color: When) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let is_colored = match color {
            When::Always => true,
            When::Never => false,
            When::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb,
        };
        let out = BufWriter::with_capacity(64 << 10, io::stdout());
        Self { out, json, is_colored, has_element: false }
    }

    /// A whole report as JSON.
    pub(super) fn document(&mut self, command: &str, body: &impl Serialize) -> Result<(), Failure> {
        let document = Document { schema: SCHEMA_VERSION, command, body };
        serde_json::to_writer_pretty(&mut self.out, &document)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Begins a JSON document with a list in it, whose elements follow one by one.
    pub(super) fn begin_list(&mut self, command: &str, list: &str) -> Result<(), Failure> {
        let schema = SCHEMA_VERSION;
        self.has_element = false;
        Ok(write!(self.out, "{{\"schema\":{schema},\"command\":\"{command}\",\"{list}\":[")?)
    }

    /// The next element of the list, on a line of its own.
    pub(super) fn element(&mut self, element: &impl Serialize) -> Result<(), Failure> {
        self.out.write_all(if self.has_element { b",\n" } else { b"\n" })?;
        self.has_element = true;
        Ok(serde_json::to_writer(&mut self.out, element)?)
    }

    /// Ends the list and the document, with one more field behind the list.
    pub(super) fn end_list(&mut self, field: &str, value: &impl Serialize) -> Result<(), Failure> {
        write!(self.out, "\n],\"{field}\":")?;
        serde_json::to_writer(&mut self.out, value)?;
        Ok(self.out.write_all(b"}\n")?)
    }

    /// Text in a colour, if there are colours.
    pub(super) const fn paint<T>(&self, color: Color, text: T) -> Painted<T> {
        Painted { color, text, is_colored: self.is_colored }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    command: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// A colour for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Color {
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
}

/// Text in a colour.
pub(super) struct Painted<T> {
    color: Color,
    text: T,
    is_colored: bool,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_colored {
            return self.text.fmt(f);
        }
        let code = match self.color {
            Color::Bold => 1,
            Color::Dim => 2,
            Color::Green => 32,
            Color::Red => 31,
            Color::Yellow => 33,
        };
        write!(f, "\x1b[{code}m")?;
        self.text.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

/// A table of text without lines around it; columns with numbers stand to the right.
pub(super) fn table(header: &[&str], numbers_from: usize) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index >= numbers_from {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    table
}

/// A table's lines, without the spaces that they end with.
pub(super) fn print_table(output: &mut Output, table: &comfy_table::Table) -> io::Result<()> {
    for line in table.lines() {
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}
