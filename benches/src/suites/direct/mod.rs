//! Direct TOAST's trees of chunks in memory: what reading, writing and changing them costs beside the
//! least that the memory allows.
mod edits;
mod fetches;
mod groups;
mod reads;
mod value;
mod writes;

use anyhow::Result;
use pgtoast_base::{BlockSize, Oid};
use pgtoast_direct::{DirectRelation, Parameters};
use pgtoast_varlena::MAX_PAYLOAD_LEN;

use super::Suite;
use crate::row::Better;
use crate::{Bench, Effort, Row};
use value::Stored;

const NAME: &str = "direct";
const BLOCK: BlockSize = BlockSize::KIB_8;
const PARAMETERS: Parameters = Parameters::oid(BLOCK);
const RELATION: DirectRelation = DirectRelation::new(Oid::new(16_560), PARAMETERS);
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// What a value is read and written in, piece by piece.
const STREAM_BYTES: usize = 64 * KIB;
/// The peer of figures that have a limit and nothing to be compared with.
const LIMIT: &str = "limit";

/// The suite `direct`.
#[derive(Debug)]
pub(super) struct DirectSuite;

impl Suite for DirectSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Direct TOAST in memory: full reads against the gather limit, slices, streaming, edits, groups"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        // A quick run has no time to write a gigabyte again and again; 256 MiB have as many levels of
        // nodes, 4, and are out of every cache, too.
        let (largest_len, largest) = match bench.effort() {
            Effort::Quick => (256 * MIB, "256 MiB"),
            Effort::Full => (MAX_PAYLOAD_LEN, "the largest value"),
        };
        bench.expect_steps(14);
        bench.step("fetches");
        let mut rows = fetches::compare()?;
        for (len, case) in [(MIB, "1 MiB"), (64 * MIB, "64 MiB")] {
            bench.step(format!("full read, {case}"));
            let value = Stored::make(len)?;
            rows.extend(reads::full(&value, &mut vec![0; len], case, bench.share(26))?);
        }
        bench.step(format!("{largest} written"));
        let mut value = Stored::make(largest_len)?;
        rows.push(fetches::of_largest(&mut value, largest)?);
        let mut buffer = vec![0; largest_len];
        bench.step(format!("full read, {largest}"));
        rows.extend(reads::full(&value, &mut buffer, largest, bench.share(12))?);
        bench.step(format!("slices, {largest}"));
        rows.extend(reads::slices(&value, &buffer, largest, bench.share(14))?);
        bench.step(format!("streaming read, {largest}"));
        rows.extend(reads::stream(&value, largest, bench.share(13))?);
        rows.extend(edits::one_byte(&mut value, largest)?);
        // A second store beside this one and the buffer would be more than the suite may take.
        drop(value);
        bench.step("streaming write, 8 MiB");
        rows.extend(writes::stream(&buffer[..8 * MIB], "8 MiB", bench.share(10))?);
        bench.step(format!("streaming write, {largest}"));
        rows.extend(writes::stream(&buffer, largest, bench.share(4))?);
        drop(buffer);
        bench.step("edits");
        rows.extend(edits::compare(bench)?);
        rows.extend(groups::compare(bench)?);
        Ok(rows)
    }
}

/// A figure that may be so high and no higher.
fn at_most(case: &str, metric: &str, unit: &'static str, ours: f64, limit: f64) -> Row {
    Row::new(NAME, case, metric, unit, ours).against(LIMIT, limit, Better::Lower).floor(1.0)
}
