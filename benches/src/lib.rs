#![doc = include_str!("../README.md")]
//!
//! ```text
//! suites (bin) -> Suite::run(&Bench) -> [Row] -> table (stdout), JSON, HTML report
//!                        |
//!                        `-- Comparison: ours, peer, ours, peer … in one run, medians
//! ```

mod answer;
mod bench;
pub mod corpora;
mod detoast_relation;
pub mod instructions;
mod machine;
mod measure;
pub mod peers;
mod processors;
mod relation_file;
mod report;
mod row;
mod suites;
mod table;

pub use answer::{WrongAnswer, check};
pub use bench::{Bench, Effort};
pub use detoast_relation::{Detoasted, ToastedColumn};
pub use machine::Machine;
pub use measure::{Comparison, PeerTiming, Timings};
pub use relation_file::RelationFile;
pub use report::write_report;
pub use row::{Row, Run, geomean, write_json};
pub use suites::{Suite, all, named};
pub use table::print_tables;
