//! What the commands find out, as plain values that print as JSON; `command` prints the same values as text.
//!
//! Each module is one command's: it reads, counts and compares, and never prints. The names and types of
//! all fields are in the JSON schema, `schema/pgtoast-1.json`; [`SCHEMA_VERSION`] changes when one of them does.
mod budget;
pub mod check;
pub mod columns;
mod distribution;
pub mod free_space;
pub mod get;
pub mod ids;
pub mod info;
pub mod map;
pub mod page;
mod relation_name;
pub mod row_text;
mod scan;
#[cfg(test)]
mod schema_file;
mod stream_decoder;
pub mod tables;
mod timestamp;
mod toast_census;
pub mod values;

pub use budget::Budget;
pub use distribution::{Distribution, Spread};
pub use relation_name::RelationName;
pub use timestamp::Timestamp;

/// The version of the JSON that all commands print: its field `schema`.
pub const SCHEMA_VERSION: u32 = 1;

/// The schema of that JSON, itself in JSON.
pub const SCHEMA: &str = include_str!("../schema/pgtoast-1.json");
