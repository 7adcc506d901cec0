//! The values of a table one by one: where they are, how they are stored, and which row they are of.
use core::ops::ControlFlow;

use serde::Serialize;

use crate::base::{ItemPointer, Oid, Oid8};
use crate::datadir::{Columns, Database, DatadirError, Relation, RelationKind, Table, ToastChunks};
use crate::page::{AttributeLen, TupleDescriptor, Value};
use crate::toast::{
    ChunkPlan, ChunkSize, column_compression, column_size, column_toast_chunk_id, raw_len,
};
use crate::varlena::{Varlena, VarlenaError};

use super::scan::{Problems, Versions, each_row};
use super::{Budget, RelationName};

/// Which values to tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Those of one column, by number.
    pub column: Option<u16>,
    /// Those with this id, whatever became of their row.
    pub value_id: Option<Oid8>,
    /// Those inside rows too, not only those out of line.
    pub inline: bool,
    /// Those of dead row versions too.
    pub dead: bool,
}

/// A value of variable length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ValueRow {
    /// The row: block and item, as SQL's `ctid` has them.
    pub tid: String,
    /// Whether the row version is one that a new session would not see.
    pub is_dead: bool,
    /// The column's name.
    pub column: String,
    /// The column's number, from 1.
    pub column_number: u16,
    /// How the value is stored.
    pub form: Form,
    /// Its id in the TOAST relation, if it is there.
    pub value_id: Option<u64>,
    /// The id of that TOAST relation.
    pub toast_relation: Option<u32>,
    /// How many bytes the value has.
    pub raw_bytes: u64,
    /// How many it takes where it is stored: what SQL's `pg_column_size` says.
    pub stored_bytes: u64,
    /// How it is compressed, if it is.
    pub method: Option<String>,
    /// How many chunks it has, by what its pointer says.
    pub chunks: Option<u32>,
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// In the row, with a header of one byte.
    Short,
    /// In the row, with a header of four bytes.
    Long,
    /// In the row, compressed.
    Compressed,
    /// In the TOAST relation.
    OutOfLine,
}

impl Form {
    /// In words, as JSON has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long",
            Self::Compressed => "compressed",
            Self::OutOfLine => "out-of-line",
        }
    }

    /// Of a datum.
    #[must_use]
    pub const fn of(datum: &Varlena<'_>) -> Self {
        match datum {
            Varlena::Short(_) => Self::Short,
            Varlena::Long(_) => Self::Long,
            Varlena::Compressed(_) => Self::Compressed,
            Varlena::External(_) => Self::OutOfLine,
        }
    }
}

/// All values together.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ValuesSummary {
    /// The table.
    pub table: RelationName,
    /// Its TOAST relation.
    pub toast: Option<RelationName>,
    /// How many values were told of.
    pub values: u64,
    /// How many bytes they have.
    pub raw_bytes: u64,
    /// How many they take where they are stored.
    pub stored_bytes: u64,
    /// Where the chunks of the value are that was asked for by its id.
    pub chunks: Option<ChunkPlaces>,
    /// How many rows or values could not be read.
    pub problem_count: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
}

/// Where the chunks of a value are.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChunkPlaces {
    /// How many there should be, if a row says so.
    pub expected: Option<u32>,
    /// How many there are.
    pub found: u64,
    /// The numbers that are missing, as ranges; the first hundred.
    pub missing: Vec<ChunkRange>,
    /// Chunks whose numbers rise by one and that lie side by side; the first thousand of such runs.
    pub runs: Vec<ChunkRun>,
}

/// Some numbers of chunks, both ends among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChunkRange {
    /// The first, from 0.
    pub first: i64,
    /// The last.
    pub last: i64,
}

/// Chunks side by side in the TOAST relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChunkRun {
    /// The number of the first, from 0.
    pub first: i32,
    /// The number of the last.
    pub last: i32,
    /// Where the first is.
    pub tid: String,
}

/// Gives `take` each value of a table that is selected, in the order of the rows, until it breaks.
///
/// # Errors
/// Those of [`Database::table`]. What is wrong with a row or a value is among the summary's problems.
pub fn each(
    database: &Database,
    relation: &Relation,
    selection: Selection,
    budget: &Budget<'_>,
    take: &mut dyn FnMut(ValueRow) -> ControlFlow<()>,
) -> Result<ValuesSummary, DatadirError> {
    let table = database.table(relation)?;
    let toast = database.toast_of(relation);
    let chunk_size = chunk_size_of(database, toast);
    let attributes = table.columns().attributes();
    let Ok(descriptor) = TupleDescriptor::new(&attributes) else {
        return Err(DatadirError::ColumnMissing { relation: relation.oid, column: u16::MAX });
    };
    let mut summary = ValuesSummary {
        table: RelationName::of(database, relation),
        toast: toast.map(|toast| RelationName::of(database, toast)),
        values: 0,
        raw_bytes: 0,
        stored_bytes: 0,
        chunks: None,
        problem_count: 0,
        problems: Vec::new(),
    };
    let mut problems = Problems::default();
    let mut expected_chunks = None;
    let wants_dead = selection.dead || selection.value_id.is_some();
    let versions = if wants_dead { Versions::All } else { Versions::Visible };
    let status = table.transactions().reader();
    let blocks = 0..table.fork().block_count();
    let ended = each_row(&table, blocks, versions, budget.progress, &mut |row| {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                problems.add(error);
                return ControlFlow::Continue(());
            }
        };
        let mut is_dead = None;
        let attributes = match row.deform(descriptor) {
            Ok(attributes) => attributes,
            Err(error) => {
                problems.add(format_args!("tuple {}: {error}", row.tid));
                return ControlFlow::Continue(());
            }
        };
        for (column, attribute) in table.columns().iter().zip(attributes) {
            let is_selected = selection.column.is_none_or(|number| number == column.number);
            if column.len != AttributeLen::Varlena || column.is_dropped || !is_selected {
                continue;
            }
            let located = |error: &dyn core::fmt::Display| {
                format!("tuple {}: column {}: {error}", row.tid, column.name)
            };
            let datum = match attribute.map(|attribute| attribute.value) {
                Ok(Value::Stored(datum)) => datum.varlena(),
                Ok(Value::Missing(Some(bytes))) => Varlena::parse(bytes, 0).map(|(datum, _)| datum),
                Ok(_) => continue,
                Err(error) => {
                    problems.add(located(&error));
                    continue;
                }
            };
            let described = datum.and_then(|datum| {
                if !is_wanted(selection, &datum) {
                    return Ok(None);
                }
                describe(&datum, row.tid, &column.name, column.number, chunk_size).map(Some)
            });
            let mut value = match described {
                Ok(Some(value)) => value,
                Ok(None) => continue,
                Err(error) => {
                    problems.add(located(&error));
                    continue;
                }
            };
            if wants_dead {
                let dead = *is_dead.get_or_insert_with(|| {
                    status.is_visible(row.tuple.header()).map(|visible| !visible)
                });
                match dead {
                    Ok(dead) => value.is_dead = dead,
                    Err(error) => problems.add(error),
                }
            }
            summary.values += 1;
            summary.raw_bytes += value.raw_bytes;
            summary.stored_bytes += value.stored_bytes;
            expected_chunks = expected_chunks.or(value.chunks);
            take(value)?;
        }
        ControlFlow::Continue(())
    });
    if ended.is_continue()
        && let (Some(value_id), Some(toast)) = (selection.value_id, toast)
    {
        let chunks = ToastChunks::new(database.table(toast)?, Some(toast.oid), budget.memory_bytes);
        summary.chunks = Some(ChunkPlaces::of(chunks, value_id, expected_chunks, &mut problems));
    }
    summary.problem_count = problems.count;
    summary.problems = problems.first;
    Ok(summary)
}

/// The payload of full chunks of a table's values.
pub(crate) fn chunk_size_of(database: &Database, toast: Option<&Relation>) -> ChunkSize {
    let control = database.directory().control();
    let columns = toast.and_then(|toast| database.columns(toast).ok());
    let is_wide = |columns: &Columns| columns.get(1).is_some_and(|one| one.len.attlen() == 8);
    let width = match columns {
        Some(columns) if is_wide(&columns) => crate::toast::ValueIdWidth::Oid8,
        _ => crate::toast::ValueIdWidth::Oid,
    };
    control.chunk_size(width)
}

fn is_wanted(selection: Selection, datum: &Varlena<'_>) -> bool {
    match selection.value_id {
        Some(value_id) => column_toast_chunk_id(datum) == Some(value_id),
        None => selection.inline || matches!(datum, Varlena::External(_)),
    }
}

fn describe(
    datum: &Varlena<'_>,
    tid: ItemPointer,
    column: &str,
    column_number: u16,
    chunk_size: ChunkSize,
) -> Result<ValueRow, VarlenaError> {
    let pointer = match datum {
        Varlena::External(pointer) => Some(pointer),
        _ => None,
    };
    let plan = pointer.and_then(|pointer| ChunkPlan::new(pointer, chunk_size).ok());
    Ok(ValueRow {
        tid: tid.to_string(),
        is_dead: false,
        column: column.to_owned(),
        column_number,
        form: Form::of(datum),
        value_id: column_toast_chunk_id(datum).map(Oid8::get),
        toast_relation: pointer.map(|pointer| pointer.toast_rel_id().get()),
        raw_bytes: raw_len(datum)? as u64,
        stored_bytes: column_size(datum) as u64,
        method: column_compression(datum)?.map(|method| method.name().to_owned()),
        chunks: plan.map(|plan| plan.chunk_count()),
    })
}

/// How many ranges of missing chunks are listed, and how many runs of those that are there.
const MOST_RANGES: usize = 100;
const MOST_RUNS: usize = 1000;

impl ChunkPlaces {
    fn of(
        mut chunks: ToastChunks,
        value_id: Oid8,
        expected: Option<u32>,
        problems: &mut Problems,
    ) -> Self {
        let places = chunks.places(value_id);
        chunks.problems().iter().for_each(|problem| problems.add(problem));
        let (mut missing, mut next) = (Vec::new(), 0_i64);
        for (seq, _) in &places {
            let seq = i64::from(*seq);
            if seq > next {
                missing.push(ChunkRange { first: next, last: seq - 1 });
            }
            next = next.max(seq.saturating_add(1));
        }
        if let Some(expected) = expected.map(i64::from)
            && next < expected
        {
            missing.push(ChunkRange { first: next, last: expected - 1 });
        }
        missing.truncate(MOST_RANGES);
        let mut runs: Vec<(i32, i32, ItemPointer)> = Vec::new();
        for (seq, tid) in &places {
            if let Some((first, last, start)) = runs.last_mut()
                && last.checked_add(1) == Some(*seq)
                && start.block == tid.block
                && i64::from(start.item.get()) + i64::from(*seq) - i64::from(*first)
                    == i64::from(tid.item.get())
            {
                *last = *seq;
            } else if runs.len() < MOST_RUNS {
                runs.push((*seq, *seq, *tid));
            } else {
                break;
            }
        }
        Self {
            expected,
            found: places.len() as u64,
            missing,
            runs: runs
                .into_iter()
                .map(|(first, last, tid)| ChunkRun { first, last, tid: tid.to_string() })
                .collect(),
        }
    }
}

/// What a line of a server's log says of a value: `missing chunk number 0 for toast value 8675309 in
/// pg_toast_2619`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The value's id.
    pub value_id: Oid8,
    /// The TOAST relation's name.
    pub toast_relation: String,
}

impl LogLine {
    /// Finds `toast value N` and `pg_toast_N` in a line; `None` if one of them is not there.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let digits = |text: &str| {
            let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
            text[..end].to_owned()
        };
        let (_, behind) = line.split_once("toast value ")?;
        let value_id = Oid8::new(digits(behind).parse().ok()?);
        let (_, behind) = behind.split_once("pg_toast_")?;
        let number: u32 = digits(behind).parse().ok()?;
        Some(Self { value_id, toast_relation: format!("pg_toast_{number}") })
    }
}

/// The table whose values a relation has: itself, or the owner of a TOAST relation.
#[must_use]
pub fn table_of<'d>(database: &'d Database, relation: &'d Relation) -> &'d Relation {
    match relation.kind {
        RelationKind::Toast => database.toast_owner(relation.oid).unwrap_or(relation),
        _ => relation,
    }
}

/// The number of a column by its name, or by its number in digits; dropped columns have only that.
#[must_use]
pub fn column_number(table: &Table, name: &str) -> Option<u16> {
    let by_number = || {
        let number = name.parse().ok()?;
        table.columns().get(number).map(|column| column.number)
    };
    table.columns().named(name).map(|column| column.number).or_else(by_number)
}

/// A tid as SQL prints it, `(0,13)`, with or without its brackets.
#[must_use]
pub fn parse_tid(text: &str) -> Option<ItemPointer> {
    let text = text.trim();
    let text = text.strip_prefix('(').map_or(Some(text), |rest| rest.strip_suffix(')'))?;
    let (block, item) = text.split_once(',')?;
    let block = crate::base::BlockNumber::new(block.trim().parse().ok()?);
    let item = crate::base::OffsetNumber::new(item.trim().parse().ok()?);
    (block.is_valid() && item.get() != 0).then(|| ItemPointer::new(block, item))
}

/// A relation by the number that SQL calls its id.
#[must_use]
pub fn relation_by_oid<'d>(database: &'d Database, text: &str) -> Option<&'d Relation> {
    database.relation(Oid::new(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_names_a_value_and_its_relation() {
        for line in [
            "ERROR:  missing chunk number 0 for toast value 8675309 in pg_toast_2619",
            "2026-11-30 03:12:45 UTC [17] ERROR:  unexpected chunk number 1613949300 (expected 0) for \
             toast value 8675309 in pg_toast_2619",
            "unexpected chunk size 291 (expected 292) in final chunk 7 for toast value 8675309 in pg_toast_2619\n",
        ] {
            let found = LogLine::parse(line).expect(line);
            assert_eq!(found.value_id, Oid8::new(8_675_309));
            assert_eq!(found.toast_relation, "pg_toast_2619");
        }
        for line in
            ["", "toast value 7", "toast value x in pg_toast_1", "toast value 7 in pg_toast_"]
        {
            assert_eq!(LogLine::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_tid_is_taken_as_sql_prints_it() {
        let tid = parse_tid("(0,13)");
        assert_eq!(tid.map(|tid| tid.to_string()).as_deref(), Some("(0,13)"));
        assert_eq!(parse_tid(" 0, 13 "), tid);
        for text in ["", "(0,0)", "(1)", "(1,2", "1,2)", "(4294967295,1)", "(1,70000)", "a,b"] {
            assert_eq!(parse_tid(text), None, "{text}");
        }
    }
}
