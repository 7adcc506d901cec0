//! What a check found, as JSON has it. The check itself is [`crate::datadir::check`].
use serde::Serialize;

use crate::datadir::check::{Coverage, Finding, Readable, Severity};

/// A finding.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingReport {
    /// What it is, by a name that stays the same.
    pub kind: String,
    /// How bad it is: `lost`, `suspect`, `derived` (can be made anew from what is there), `waste`, `note`.
    pub severity: String,
    /// The same in words, with its numbers.
    pub message: String,
    /// The database's name.
    pub database: String,
    /// The schema's name.
    pub schema: String,
    /// The relation's name: of what is wrong with an out-of-line value, the table whose row it is of.
    pub relation: String,
    /// The relation's id.
    pub oid: u32,
    /// What the relation is.
    pub relation_kind: String,
    /// The table that a TOAST relation or an index serves.
    pub owner: Option<String>,
    /// The file, from the data directory.
    pub file: String,
    /// The block, counted through all segments of the fork; null for a file as a whole.
    pub block: Option<u32>,
    /// The line pointer, from 1.
    pub item: Option<u16>,
    /// Block and item, as SQL's `ctid` has them.
    pub tid: Option<String>,
    /// The column's name.
    pub column: Option<String>,
    /// The column's number, from 1.
    pub column_number: Option<u16>,
    /// The value's id in the TOAST relation.
    pub value_id: Option<u64>,
    /// What can be read all the same.
    pub readable: String,
    /// How many stored bytes come before the first fault, if that is what can be read.
    pub readable_bytes: Option<u64>,
    /// How many there should be.
    pub readable_of: Option<u64>,
    /// What to do about it, where something is known to help.
    pub cure: Option<CureReport>,
}

/// What to do about a finding.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CureReport {
    /// SQL for a running server.
    pub sql: String,
    /// Whether it gives up what cannot be read.
    pub gives_up_data: bool,
}

impl From<&Finding> for FindingReport {
    fn from(finding: &Finding) -> Self {
        let subject = &finding.subject;
        let prefix = match finding.readable {
            Readable::Prefix { bytes, of } => Some((bytes, of)),
            _ => None,
        };
        Self {
            kind: finding.kind.name().to_owned(),
            severity: severity_name(finding.severity()).to_owned(),
            message: finding.kind.to_string(),
            database: subject.database.clone(),
            schema: subject.schema.clone(),
            relation: subject.name.clone(),
            oid: subject.oid.get(),
            relation_kind: subject.kind.to_string(),
            owner: subject.owner.as_ref().map(|(schema, name)| format!("{schema}.{name}")),
            file: finding.file.to_string(),
            block: finding.block.map(|block| block.get()),
            item: finding.item.map(|item| item.get()),
            tid: finding.tid().map(|tid| tid.to_string()),
            column: finding.column.as_ref().map(|column| column.name.to_string()),
            column_number: finding.column.as_ref().map(|column| column.number),
            value_id: finding.value_id.map(|id| id.get()),
            readable: finding.readable.to_string(),
            readable_bytes: prefix.map(|(bytes, _)| bytes),
            readable_of: prefix.map(|(_, of)| of),
            cure: finding
                .cure()
                .map(|cure| CureReport { sql: cure.sql, gives_up_data: cure.gives_up_data }),
        }
    }
}

/// How bad a finding is, in one word.
#[must_use]
pub const fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Waste => "waste",
        Severity::Derived => "derived",
        Severity::Suspect => "suspect",
        Severity::Lost => "lost",
    }
}

/// What was looked at, and what was not.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoverageReport {
    /// Relations of which at least one file was read.
    pub relations: u64,
    /// Blocks that were read, of all forks.
    pub blocks: u64,
    /// Blocks of zeros among them.
    pub zero_blocks: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Tuples that were looked into, chunks among them.
    pub tuples: u64,
    /// Pointers to out-of-line values that were followed to their chunks.
    pub values: u64,
    /// Pointers of dead row versions, which were not: vacuum may have removed their chunks already.
    pub dead_values: u64,
    /// Values that were decompressed.
    pub decompressed: u64,
    /// Pages whose checksum was verified.
    pub checksums: u64,
    /// How many of those were wrong.
    pub bad_checksums: u64,
    /// Blocks of which the free space map is right.
    pub free_space_equal: u64,
    /// Blocks with less space than the map promises.
    pub free_space_too_high: u64,
    /// Blocks with more space than the map knows of.
    pub free_space_too_low: u64,
    /// How many findings there were.
    pub findings: FindingTotals,
    /// What was not checked, and why.
    pub not_checked: Vec<String>,
}

/// How many findings there were, by severity.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingTotals {
    /// Something stored cannot be read, or not be trusted.
    pub lost: u64,
    /// Not as a server leaves it, but readable.
    pub suspect: u64,
    /// Can be made anew from what is there.
    pub derived: u64,
    /// Wasted space.
    pub waste: u64,
    /// What a crash leaves behind in a directory that is well.
    pub note: u64,
}

impl From<&Coverage> for CoverageReport {
    fn from(coverage: &Coverage) -> Self {
        // Several tables checked one after the other say the same of the directory as a whole.
        let mut not_checked: Vec<String> = Vec::new();
        for skipped in &coverage.skipped {
            let text = skipped.to_string();
            if !not_checked.contains(&text) {
                not_checked.push(text);
            }
        }
        let of = |severity| coverage.findings.of(severity);
        Self {
            relations: coverage.relations,
            blocks: coverage.blocks,
            zero_blocks: coverage.zero_blocks,
            bytes: coverage.bytes,
            tuples: coverage.tuples,
            values: coverage.values,
            dead_values: coverage.dead_values,
            decompressed: coverage.decompressed,
            checksums: coverage.checksums,
            bad_checksums: coverage.bad_checksums,
            free_space_equal: coverage.free_space.equal,
            free_space_too_high: coverage.free_space.too_high,
            free_space_too_low: coverage.free_space.too_low,
            findings: FindingTotals {
                lost: of(Severity::Lost),
                suspect: of(Severity::Suspect),
                derived: of(Severity::Derived),
                waste: of(Severity::Waste),
                note: of(Severity::Note),
            },
            not_checked,
        }
    }
}
