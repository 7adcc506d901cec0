//! Tables that nobody would design: any types side by side, nulls, columns that come and go.
use crate::column_type::{COLUMN_TYPES, ColumnType, PRELUDE};
use crate::rng::Rng;

/// What the tables may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Whether columns may ask for lz4.
    pub lz4: bool,
}

/// A table as the statements that make and fill it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedTable {
    /// Its name.
    pub name: String,
    /// To be run one after the other.
    pub statements: Vec<String>,
    /// Rows inserted, updated ones not counted again.
    pub row_count: usize,
}

/// Makes tables, each from the next numbers of one seed.
#[derive(Clone, Debug)]
pub struct TableGenerator {
    rng: Rng,
    options: TableOptions,
    made: usize,
}

impl TableGenerator {
    /// What must be run once before the statements of any table.
    pub const PRELUDE: &str = PRELUDE;

    /// The tables of that seed.
    #[must_use]
    pub fn new(seed: u64, options: TableOptions) -> Self {
        Self { rng: Rng::new(seed), options, made: 0 }
    }

    /// The next table: its columns are filled, some are dropped, some added with and without a value
    /// for the rows there are, and rows are inserted, updated and deleted all along.
    pub fn next_table(&mut self) -> GeneratedTable {
        self.made += 1;
        let name = format!("generated_{}", self.made);
        let mut table = Table { rng: &mut self.rng, name, columns: Vec::new(), serial: 0, rows: 0 };
        let statements = table.build(self.options);
        GeneratedTable { statements, row_count: table.rows, name: table.name }
    }
}

/// A table in the making.
struct Table<'a> {
    rng: &'a mut Rng,
    name: String,
    columns: Vec<Column>,
    /// How many columns there ever were.
    serial: usize,
    rows: usize,
}

struct Column {
    name: String,
    column_type: &'static ColumnType,
    /// Percent of its values that are null.
    nulls: usize,
    /// Values must be short, since nothing can be done about long ones.
    plain: bool,
}

impl Table<'_> {
    fn build(&mut self, options: TableOptions) -> Vec<String> {
        let count =
            if self.rng.chance(8) { self.rng.between(50, 90) } else { self.rng.between(1, 18) };
        let definitions: Vec<_> = (0..count).map(|_| self.new_column()).collect();
        let name = &self.name;
        let mut statements = vec![format!("CREATE TABLE {name} ({})", definitions.join(", "))];
        statements.extend(self.storage_changes(options));
        statements.push(self.insert());
        for _ in 0..self.rng.below(4) {
            statements.push(match self.rng.below(3) {
                0 => self.drop_column(),
                1 => self.add_column(""),
                _ => self.add_column_with_value(),
            });
            statements.push(self.insert());
            if self.rng.chance(40) {
                statements.push(self.update());
            }
            if self.rng.chance(20) {
                statements.push(format!("DELETE FROM {} WHERE ctid::text LIKE '%7)'", self.name));
            }
        }
        statements
    }

    /// Adds a column and gives its definition.
    fn new_column(&mut self) -> String {
        let column_type = &COLUMN_TYPES[self.rng.below(COLUMN_TYPES.len())];
        let nulls = self.rng.pick(&[0, 0, 10, 50, 90, 100]);
        self.serial += 1;
        let name = format!("c{}", self.serial);
        let definition = format!("{name} {}", column_type.sql);
        self.columns.push(Column { name, column_type, nulls, plain: !column_type.toastable });
        definition
    }

    fn storage_changes(&mut self, options: TableOptions) -> Vec<String> {
        let mut statements = Vec::new();
        for column in &mut self.columns {
            if !column.column_type.toastable {
                continue;
            }
            let alter = format!("ALTER TABLE {} ALTER {} SET", self.name, column.name);
            if self.rng.chance(40) {
                let storage = self.rng.pick(&["PLAIN", "EXTERNAL", "EXTENDED", "MAIN"]);
                column.plain = storage == "PLAIN";
                statements.push(format!("{alter} STORAGE {storage}"));
            }
            if options.lz4 && self.rng.chance(40) {
                statements.push(format!("{alter} COMPRESSION lz4"));
            }
        }
        statements
    }

    fn insert(&mut self) -> String {
        let count = self.rng.between(20, 110);
        self.rows += count;
        let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let rows: Vec<_> = (0..count)
            .map(|_| {
                let values: Vec<_> =
                    self.columns.iter().map(|column| column.literal(self.rng)).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        let (name, names) = (&self.name, names.join(", "));
        if names.is_empty() {
            return format!("INSERT INTO {name} SELECT FROM generate_series(1, {count})");
        }
        format!("INSERT INTO {name} ({names}) VALUES {}", rows.join(",\n"))
    }

    fn update(&mut self) -> String {
        let Some(column) = self.columns.last() else { return "SELECT".to_owned() };
        let value = column.literal(self.rng);
        format!("UPDATE {} SET {} = {value} WHERE ctid::text LIKE '%3)'", self.name, column.name)
    }

    fn drop_column(&mut self) -> String {
        if self.columns.is_empty() {
            return self.add_column("");
        }
        let column = self.columns.remove(self.rng.below(self.columns.len()));
        format!("ALTER TABLE {} DROP {}", self.name, column.name)
    }

    fn add_column(&mut self, default: &str) -> String {
        let definition = self.new_column();
        format!("ALTER TABLE {} ADD {definition}{default}", self.name)
    }

    fn add_column_with_value(&mut self) -> String {
        let mut statement = self.add_column("");
        if let Some(column) = self.columns.last() {
            let value = column.short_value(self.rng);
            statement.push_str(&format!(" DEFAULT {}", quoted(&value)));
        }
        statement
    }
}

impl Column {
    fn literal(&self, rng: &mut Rng) -> String {
        if rng.chance(self.nulls) {
            return "NULL".to_owned();
        }
        let value = if self.plain { self.short_value(rng) } else { self.column_type.value(rng) };
        quoted(&value)
    }

    fn short_value(&self, rng: &mut Rng) -> String {
        loop {
            let value = self.column_type.value(rng);
            if value.len() <= 300 {
                return value;
            }
        }
    }
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_tables() {
        let mut once = TableGenerator::new(5, TableOptions::default());
        let mut again = TableGenerator::new(5, TableOptions::default());
        for _ in 0..3 {
            assert_eq!(once.next_table(), again.next_table());
        }
    }

    #[test]
    fn lz4_is_asked_for_only_where_it_may_be() {
        for lz4 in [false, true] {
            let mut generator = TableGenerator::new(5, TableOptions { lz4 });
            let statements: Vec<_> =
                (0..30).flat_map(|_| generator.next_table().statements).collect();
            assert_eq!(statements.iter().any(|one| one.ends_with("COMPRESSION lz4")), lz4);
        }
    }

    #[test]
    fn quotes_in_values_are_doubled() {
        assert_eq!(quoted("it's"), "'it''s'");
    }
}
