//! What to do about a finding.
use core::fmt;

use super::{Finding, FindingKind, Severity, Subject};
use crate::{DataFile, Fork, RelationKind};

/// What to do about a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cure {
    /// SQL for a running server, ready to be used. Look at the rows first: what is deleted is gone.
    pub sql: String,
    /// Whether the SQL gives up data: what cannot be read is then no longer there at all.
    pub gives_up_data: bool,
}

impl Cure {
    pub(super) fn of(finding: &Finding) -> Option<Self> {
        let subject = &*finding.subject;
        let keeps = |sql| Some(Self { sql, gives_up_data: false });
        if subject.kind == RelationKind::Index {
            return match (&subject.owner, subject.schema.as_str()) {
                (Some((schema, name)), "pg_toast") => {
                    keeps(format!("REINDEX TABLE {};", Qualified(schema, name)))
                }
                _ => keeps(format!("REINDEX INDEX {};", qualified(subject))),
            };
        }
        match finding.kind {
            FindingKind::Orphan { .. } => {
                let (schema, name) = subject.owner.as_ref()?;
                keeps(format!("VACUUM FULL {};", Qualified(schema, name)))
            }
            FindingKind::FreeSpace(_) => keeps(format!("VACUUM {};", qualified(subject))),
            FindingKind::NotVisible
            | FindingKind::NotFrozen
            | FindingKind::VisibilityBits
            | FindingKind::VisibilityFlag
            | FindingKind::VisibilityPastEnd => keeps(format!(
                "SELECT pg_truncate_visibility_map('{}'); -- extension pg_visibility",
                qualified(subject).to_string().replace('\'', "''")
            )),
            // What such a block holds may be right, and a server shows it when told to.
            FindingKind::Checksum { .. } => Self::of_block(finding),
            FindingKind::ChunkDistrusted { .. } => {
                let (tid, column) = (finding.tid()?, Quoted(&finding.column.as_ref()?.name));
                let table = qualified(subject);
                keeps(format!(
                    "SET ignore_checksum_failure = on; \
                     SELECT {column} FROM {table} WHERE ctid = '{tid}'; -- is it right?"
                ))
            }
            _ if finding.severity() < Severity::Lost => None,
            _ => Self::of_lost(finding),
        }
    }

    /// For a block of a table whose checksum is wrong: its rows.
    fn of_block(finding: &Finding) -> Option<Self> {
        let subject = &*finding.subject;
        let is_table = matches!(subject.kind, RelationKind::Table | RelationKind::MaterializedView);
        let is_main = match finding.file {
            DataFile::Relation(file) => file.fork == Fork::Main,
            _ => false,
        };
        let (block, table) = (finding.block?.get(), qualified(subject));
        let next = block.checked_add(1).filter(|_| is_table && is_main)?;
        let sql = format!(
            "SET ignore_checksum_failure = on; SELECT ctid, * FROM {table} \
             WHERE ctid >= '({block},0)' AND ctid < '({next},0)'; -- are they right?"
        );
        Some(Self { sql, gives_up_data: false })
    }

    /// For a row that cannot be read, or a value of it.
    fn of_lost(finding: &Finding) -> Option<Self> {
        let subject = &*finding.subject;
        let tid = finding.tid()?;
        let table = qualified(subject);
        if subject.kind == RelationKind::Toast {
            return None;
        }
        let sql = match &finding.column {
            // Statistics can be collected again, and no value of them can be missed.
            _ if subject.schema == "pg_catalog" && subject.name == "pg_statistic" => {
                format!("DELETE FROM {table} WHERE ctid = '{tid}'; ANALYZE;")
            }
            Some(column) if finding.value_id.is_some() => {
                format!("UPDATE {table} SET {} = NULL WHERE ctid = '{tid}';", Quoted(&column.name))
            }
            _ => format!(
                "SELECT heap_force_kill('{}'::regclass, ARRAY['{tid}']::tid[]); \
                 -- extension pg_surgery",
                table.to_string().replace('\'', "''")
            ),
        };
        Some(Self { sql, gives_up_data: true })
    }
}

impl fmt::Display for Cure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sql)
    }
}

const fn qualified(subject: &Subject) -> Qualified<'_> {
    Qualified(subject.schema.as_str(), subject.name.as_str())
}

/// A schema's name and a relation's, as SQL takes them.
struct Qualified<'a>(&'a str, &'a str);

impl fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", Quoted(self.0), Quoted(self.1))
    }
}

/// A name as SQL takes it. Quotes are harmless where they are not needed, and left out where the name
/// is plain: the words that SQL keeps for itself are few among names and long to list, so only those
/// with an underscore or a digit pass for plain.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = self.0.starts_with(|letter: char| letter.is_ascii_lowercase())
            && self.0.contains(|letter: char| letter == '_' || letter.is_ascii_digit())
            && self.0.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        let is_keyword = matches!(
            self.0,
            "current_catalog"
                | "current_date"
                | "current_role"
                | "current_schema"
                | "current_time"
                | "current_timestamp"
                | "current_user"
                | "session_user"
                | "system_user"
        );
        if is_plain && !is_keyword {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        }
    }
}
