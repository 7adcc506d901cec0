//! The statements that make a table of the same shape on a server.
use core::fmt::Write as _;

use pgtoast_codec::CompressionMethod;
use pgtoast_page::Storage;

use super::Schema;

impl Schema {
    /// SQL that makes a table of this shape on a server: the one that an export goes under. `name` is
    /// written as it is. `None` if a column is of a type that the store does not know.
    ///
    /// What servers do not have is left out: a size policy, and the width of value ids.
    #[must_use]
    pub fn to_sql(&self, name: &str) -> Option<String> {
        let mut columns = Vec::new();
        let mut changes = String::new();
        for column in &self.columns {
            let (quoted, sql_type) = (quoted(column.name()), column.column_type.sql_name()?);
            let not_null = if column.is_not_null { " NOT NULL" } else { "" };
            columns.push(format!("{quoted} {sql_type}{not_null}"));
            if !column.column_type.is_varlena() {
                continue;
            }
            if column.storage != column.column_type.default_storage() {
                let storage = match column.storage {
                    Storage::Plain => "PLAIN",
                    Storage::External => "EXTERNAL",
                    Storage::Extended => "EXTENDED",
                    Storage::Main => "MAIN",
                };
                let _ =
                    writeln!(changes, "ALTER TABLE {name} ALTER {quoted} SET STORAGE {storage};");
            }
            if column.method == CompressionMethod::Lz4 {
                let _ = writeln!(changes, "ALTER TABLE {name} ALTER {quoted} SET COMPRESSION lz4;");
            }
        }
        let target = match self.tuple_target {
            Some(bytes) => format!(" WITH (toast_tuple_target = {bytes})"),
            None => String::new(),
        };
        Some(format!("CREATE TABLE {name} ({}){target};\n{changes}", columns.join(", ")))
    }
}

/// A name as SQL writes it: as it is if it is plain, else in quotes.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_quoted_where_sql_would_read_them_as_others() {
        for (name, expected) in
            [("id", "id"), ("_a1", "_a1"), ("Id", "\"Id\""), ("a b", "\"a b\""), ("\"", "\"\"\"\"")]
        {
            assert_eq!(quoted(name), expected);
        }
    }
}
