//! The suites behind `cargo xtask bench`.
//!
//! ```text
//! suites (bin) -> Suite::run(&Bench) -> [Row] -> table (stdout), JSON, HTML report
//!                        |
//!                        `-- Comparison: ours, peer, ours, peer … in one run, medians
//! ```
//!
//! **Invariant:** a suite checks every answer it times. A wrong one is a [`WrongAnswer`] and the
//! only thing that makes a run fail; a slow answer is a row whose `ok` is false, and a peer that is
//! not there is a row without a peer and with a note.
//!
//! **Invariant:** figures are compared only inside one run. Absolute ones belong to the machine,
//! command and date that stand beside them.

mod answer;
mod bench;
pub mod corpora;
mod detoast_relation;
mod machine;
mod measure;
pub mod peers;
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
