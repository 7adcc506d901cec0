//! How the values of each column are stored: how many in which form, how large, in how many chunks and blocks.
use core::ops::{ControlFlow, Range};

use serde::Serialize;

use crate::datadir::{Column, Database, DatadirError, Relation, Row, Table};
use crate::page::{AttributeLen, Storage, TupleDescriptor, Value};
use crate::toast::{ChunkPlan, ChunkSize, ValueIdWidth, column_compression, column_size, raw_len};
use crate::varlena::{CompressionMethod, Varlena};

use super::scan::{Problems, Versions, each_row, in_parallel};
use super::toast_census::ToastCensus;
use super::values::chunk_size_of;
use super::{Budget, Distribution, RelationName, Spread};

/// The columns of a table.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ColumnsReport {
    /// The table.
    pub table: RelationName,
    /// How many rows a new session would see.
    pub rows: u64,
    /// Its columns, dropped ones left out.
    pub columns: Vec<ColumnReport>,
    /// Its TOAST relation.
    pub toast: Option<ToastReport>,
    /// How many rows, values or chunks could not be read.
    pub problem_count: u64,
    /// The first of them, in words.
    pub problems: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// Its number, from 1.
    pub number: u16,
    /// The name of its type.
    pub type_name: Option<String>,
    /// What may be done to make its values smaller: `plain`, `external`, `extended`, `main`.
    pub storage: String,
    /// How its values are to be compressed; null for the server's default.
    pub compression: Option<String>,
    /// How many values are null.
    pub nulls: u64,
    /// How many rows are older than the column and have its first default.
    pub missing: u64,
    /// How many values are of which form.
    pub forms: FormCounts,
    /// How many bytes values have.
    pub raw: Option<Spread>,
    /// How many they take where they are stored, as SQL's `pg_column_size` says.
    pub stored: Option<Spread>,
    /// How many chunks each value out of line has, by what its pointer says.
    pub chunks: Option<Spread>,
    /// In how many blocks the chunks of each value out of line are: what reading it costs.
    pub blocks: Option<Spread>,
}

/// How many values are of which form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FormCounts {
    /// Of a type of fixed length, or a C string.
    pub fixed: u64,
    /// In the row, behind a header of one byte.
    pub short: u64,
    /// In the row, behind a header of four bytes.
    pub long: u64,
    /// In the row, compressed by pglz.
    pub compressed_pglz: u64,
    /// In the row, compressed by lz4.
    pub compressed_lz4: u64,
    /// Out of line, as they are.
    pub out_of_line: u64,
    /// Out of line, compressed by pglz.
    pub out_of_line_pglz: u64,
    /// Out of line, compressed by lz4.
    pub out_of_line_lz4: u64,
}

impl FormCounts {
    /// All that are out of line.
    #[must_use]
    pub const fn all_out_of_line(&self) -> u64 {
        self.out_of_line + self.out_of_line_pglz + self.out_of_line_lz4
    }

    const fn count(&mut self, datum: &Varlena<'_>, method: Option<CompressionMethod>) {
        let place = match (datum, method) {
            (Varlena::Short(_), _) => &mut self.short,
            (Varlena::Long(_), _) => &mut self.long,
            (Varlena::Compressed(_), Some(CompressionMethod::Lz4)) => &mut self.compressed_lz4,
            (Varlena::Compressed(_), _) => &mut self.compressed_pglz,
            (Varlena::External(_), None) => &mut self.out_of_line,
            (Varlena::External(_), Some(CompressionMethod::Lz4)) => &mut self.out_of_line_lz4,
            (Varlena::External(_), Some(_)) => &mut self.out_of_line_pglz,
        };
        *place += 1;
    }

    const fn append(&mut self, other: &Self) {
        self.fixed += other.fixed;
        self.short += other.short;
        self.long += other.long;
        self.compressed_pglz += other.compressed_pglz;
        self.compressed_lz4 += other.compressed_lz4;
        self.out_of_line += other.out_of_line;
        self.out_of_line_pglz += other.out_of_line_pglz;
        self.out_of_line_lz4 += other.out_of_line_lz4;
    }
}

/// A TOAST relation. What vacuum has yet to remove is left out.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToastReport {
    /// The relation.
    pub relation: RelationName,
    /// How many values it has.
    pub values: u64,
    /// How many chunks they have.
    pub chunks: u64,
    /// How many bytes are in the chunks.
    pub bytes: u64,
    /// Values that no row version leads to.
    pub orphan_values: u64,
    /// Their chunks.
    pub orphan_chunks: u64,
    /// The bytes in those.
    pub orphan_bytes: u64,
    /// How often the relation was read: more than once where memory was short.
    pub passes: u64,
}

/// What is counted of a column.
#[derive(Clone, Debug, Default)]
struct Tally {
    nulls: u64,
    missing: u64,
    forms: FormCounts,
    raw: Distribution,
    stored: Distribution,
    chunks: Distribution,
    blocks: Distribution,
}

impl Tally {
    fn append(&mut self, other: &Self) {
        self.nulls += other.nulls;
        self.missing += other.missing;
        self.forms.append(&other.forms);
        self.raw.append(&other.raw);
        self.stored.append(&other.stored);
        self.chunks.append(&other.chunks);
        self.blocks.append(&other.blocks);
    }
}

/// What a thread has counted of its share of the rows.
#[derive(Debug, Default)]
struct Share {
    rows: u64,
    tallies: Vec<Tally>,
    problems: Problems,
}

impl ColumnsReport {
    /// Reads all of a table, and all of its TOAST relation.
    ///
    /// # Errors
    /// Those of [`Database::table`].
    pub fn of(
        database: &Database,
        relation: &Relation,
        budget: &Budget<'_>,
    ) -> Result<Self, DatadirError> {
        let table = database.table(relation)?;
        let toast_relation = database.toast_of(relation);
        let chunk_size = chunk_size_of(database, toast_relation);
        let mut problems = Problems::default();
        let toast_table = toast_relation.map(|toast| database.table(toast)).transpose();
        let toast_table = toast_table.unwrap_or_else(|error| {
            problems.add(error);
            None
        });
        let mut toast = toast_relation.map(|toast| ToastReport {
            relation: RelationName::of(database, toast),
            values: 0,
            chunks: 0,
            bytes: 0,
            orphan_values: 0,
            orphan_chunks: 0,
            orphan_bytes: 0,
            passes: 0,
        });
        let mut total =
            Share { tallies: vec![Tally::default(); table.columns().len()], ..Share::default() };
        let mut start = Some(0);
        let mut is_first = true;
        while let Some(from) = start {
            let census = toast_table.as_ref().map(|toast| {
                let wide = toast.columns().get(1).is_some_and(|one| one.len.attlen() == 8);
                let width = if wide { ValueIdWidth::Oid8 } else { ValueIdWidth::Oid };
                // What cannot be read is told once.
                let mut again = Problems::default();
                let told = if is_first { &mut problems } else { &mut again };
                ToastCensus::read(toast, width, from, budget, told)
            });
            let walk = Walk { table: &table, census: census.as_ref(), chunk_size, is_first, from };
            for share in in_parallel(&table, budget.threads, |range| walk.share(range, budget)) {
                total.rows += share.rows;
                if is_first {
                    total.problems.append(share.problems);
                }
                for (tally, part) in total.tallies.iter_mut().zip(&share.tallies) {
                    tally.append(part);
                }
            }
            start = census.as_ref().and_then(|census| census.end);
            if let (Some(census), Some(toast)) = (&census, &mut toast) {
                toast.add(census);
            }
            is_first = false;
        }
        problems.append(total.problems);
        let reports = table.columns().iter().zip(&total.tallies);
        let reports = reports.filter(|(column, _)| !column.is_dropped);
        Ok(Self {
            table: RelationName::of(database, relation),
            rows: total.rows,
            columns: reports.map(|(column, tally)| report(database, column, tally)).collect(),
            toast,
            problem_count: problems.count,
            problems: problems.first,
        })
    }
}

impl ToastReport {
    fn add(&mut self, census: &ToastCensus) {
        self.passes += 1;
        for value in census.values() {
            self.values += 1;
            self.chunks += value.chunks;
            self.bytes += value.bytes;
            if value.is_orphan() {
                self.orphan_values += 1;
                self.orphan_chunks += value.chunks;
                self.orphan_bytes += value.bytes;
            }
        }
    }
}

/// One walk over the rows, against a census of some of the values.
#[derive(Clone, Copy)]
struct Walk<'a> {
    table: &'a Table,
    census: Option<&'a ToastCensus>,
    chunk_size: ChunkSize,
    /// Whether everything is counted, and not only what the census is about.
    is_first: bool,
    from: u64,
}

impl Walk<'_> {
    fn share(&self, range: Range<u32>, budget: &Budget<'_>) -> Share {
        let columns = self.table.columns();
        let attributes = columns.attributes();
        let mut share =
            Share { tallies: vec![Tally::default(); columns.len()], ..Share::default() };
        let Ok(descriptor) = TupleDescriptor::new(&attributes) else { return share };
        let status = self.table.transactions().reader();
        // Dead row versions keep their values from being orphans, and count for nothing else.
        let _ = each_row(self.table, range, Versions::All, budget.progress, &mut |row| {
            let counted = row.and_then(|row| {
                let is_visible = status.is_visible(row.tuple.header())?;
                self.row(&row, descriptor, is_visible, &mut share);
                Ok(())
            });
            if let Err(error) = counted {
                share.problems.add(error);
            }
            ControlFlow::Continue(())
        });
        share
    }

    fn row(
        &self,
        row: &Row<'_>,
        descriptor: TupleDescriptor<'_>,
        is_visible: bool,
        share: &mut Share,
    ) {
        let counts = self.is_first && is_visible;
        share.rows += u64::from(counts);
        let attributes = match row.tuple.deform(descriptor) {
            Ok(attributes) => attributes,
            Err(error) => return share.problems.add(format_args!("tuple {}: {error}", row.tid)),
        };
        for ((attribute, tally), column) in
            attributes.zip(&mut share.tallies).zip(self.table.columns())
        {
            let value = match attribute {
                Ok(attribute) => attribute.value,
                Err(error) => {
                    share.problems.add(format_args!("tuple {}: {error}", row.tid));
                    return;
                }
            };
            let bytes = match value {
                Value::Null => {
                    tally.nulls += u64::from(counts);
                    continue;
                }
                Value::Missing(None) => {
                    tally.nulls += u64::from(counts);
                    tally.missing += u64::from(counts);
                    continue;
                }
                Value::Missing(Some(bytes)) => {
                    tally.missing += u64::from(counts);
                    bytes
                }
                Value::Stored(datum) => datum.bytes,
            };
            if column.len != AttributeLen::Varlena {
                if counts {
                    tally.forms.fixed += 1;
                    tally.raw.add(bytes.len() as u64);
                    tally.stored.add(bytes.len() as u64);
                }
                continue;
            }
            let counted = Varlena::parse(bytes, 0)
                .map_err(|error| error.to_string())
                .and_then(|(datum, _)| self.value(&datum, is_visible, tally));
            if let Err(error) = counted {
                let name = &column.name;
                share.problems.add(format_args!("tuple {}: column {name}: {error}", row.tid));
            }
        }
    }

    fn value(
        &self,
        datum: &Varlena<'_>,
        is_visible: bool,
        tally: &mut Tally,
    ) -> Result<(), String> {
        if let Varlena::External(pointer) = datum
            && let Some(id) = pointer.value_id().map(|id| id.get())
            && let Some(census) = self.census
            && id >= self.from
            && census.end.is_none_or(|end| id < end)
            && let Some(found) = census.get(id)
        {
            found.lead_to();
            if is_visible {
                tally.blocks.add(found.blocks);
            }
        }
        if !(self.is_first && is_visible) {
            return Ok(());
        }
        let method = column_compression(datum).map_err(|error| error.to_string())?;
        let raw = raw_len(datum).map_err(|error| error.to_string())?;
        tally.forms.count(datum, method);
        tally.raw.add(raw as u64);
        tally.stored.add(column_size(datum) as u64);
        if let Varlena::External(pointer) = datum {
            let plan =
                ChunkPlan::new(pointer, self.chunk_size).map_err(|error| error.to_string())?;
            tally.chunks.add(plan.chunk_count().into());
        }
        Ok(())
    }
}

fn report(database: &Database, column: &Column, tally: &Tally) -> ColumnReport {
    ColumnReport {
        name: column.name.clone(),
        number: column.number,
        type_name: database.type_of(column.type_oid).map(|found| found.name.clone()),
        storage: storage_name(column.storage).to_owned(),
        compression: column.compression.map(|method| method.name().to_owned()),
        nulls: tally.nulls,
        missing: tally.missing,
        forms: tally.forms,
        raw: tally.raw.spread(),
        stored: tally.stored.spread(),
        chunks: tally.chunks.spread(),
        blocks: tally.blocks.spread(),
    }
}

const fn storage_name(storage: Storage) -> &'static str {
    match storage {
        Storage::External => "external",
        Storage::Extended => "extended",
        Storage::Main => "main",
        Storage::Plain => "plain",
    }
}
