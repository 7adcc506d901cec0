//! The rows a run produces, as design and scripts know them.
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::{Machine, Timings};

/// One figure of ours beside one of a peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The suite's name.
    pub suite: &'static str,
    /// What was worked on; `geomean` and `worst` sum up the others of their metric and peer.
    pub case: String,
    /// What was done with it.
    pub metric: String,
    /// Of `ours` and `peer`.
    pub unit: &'static str,
    /// Our figure; absent only in a row that says why a suite did not run.
    pub ours: Option<f64>,
    /// The peer's figure; absent where the peer is.
    pub peer: Option<f64>,
    /// The peer's fixed name; absent where there is nothing to compare with.
    pub peer_name: Option<String>,
    /// Above 1 when ours is better, whichever way the unit counts.
    pub ratio: Option<f64>,
    /// The floor that `ratio` is held to.
    pub target: Option<f64>,
    /// Whether it is reached; absent when there is no floor, or no ratio to hold to it.
    pub ok: Option<bool>,
    /// What a reader has to know to judge the figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Row {
    /// A figure of ours with nothing beside it yet.
    #[must_use]
    pub fn new(
        suite: &'static str,
        case: impl Into<String>,
        metric: impl Into<String>,
        unit: &'static str,
        ours: f64,
    ) -> Self {
        Self {
            suite,
            case: case.into(),
            metric: metric.into(),
            unit,
            ours: Some(ours),
            peer: None,
            peer_name: None,
            ratio: None,
            target: None,
            ok: None,
            note: None,
        }
    }

    /// One row a peer from what a comparison measured over `bytes` a pass, in MB/s (millions of
    /// bytes a second).
    #[must_use]
    pub fn throughput(
        suite: &'static str,
        case: &str,
        metric: &str,
        bytes: usize,
        timings: &Timings,
    ) -> Vec<Self> {
        let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
        let ours = Self::new(suite, case, metric, "MB/s", rate(timings.ours));
        if timings.peers.is_empty() {
            return vec![ours];
        }
        let peer = |peer: &crate::PeerTiming| {
            ours.clone().against(peer.name, rate(peer.seconds), Better::Higher)
        };
        timings.peers.iter().map(peer).collect()
    }

    /// Puts a peer's figure beside ours.
    #[must_use]
    pub fn against(mut self, name: impl Into<String>, peer: f64, better: Better) -> Self {
        self.peer_name = Some(name.into());
        self.peer = Some(peer);
        self.ratio = self.ours.map(|ours| match better {
            Better::Higher => ours / peer,
            Better::Lower => peer / ours,
        });
        self.judged()
    }

    /// Names a peer that is not there, and says why.
    #[must_use]
    pub fn without(mut self, name: impl Into<String>, why: impl Into<String>) -> Self {
        self.peer_name = Some(name.into());
        self.noted(why)
    }

    /// Holds the ratio to a floor.
    #[must_use]
    pub fn floor(mut self, target: f64) -> Self {
        self.target = Some(target);
        self.judged()
    }

    /// Adds what a reader has to know.
    #[must_use]
    pub fn noted(mut self, note: impl Into<String>) -> Self {
        let note = note.into();
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {note}"),
            None => note,
        });
        self
    }

    /// A row in place of a suite, or of a part of one, that could not run.
    #[must_use]
    pub fn skipped(suite: &'static str, case: impl Into<String>, why: impl Into<String>) -> Self {
        let mut row = Self::new(suite, case, "skipped", "", 0.0);
        row.ours = None;
        row.noted(why)
    }

    /// The `geomean` and `worst` of those rows of a metric and peer that have a ratio; empty when
    /// none has.
    #[must_use]
    pub fn summaries(rows: &[Self], metric: &str, peer_name: &str) -> Vec<Self> {
        let of_both =
            |row: &&Self| row.metric == metric && row.peer_name.as_deref() == Some(peer_name);
        let chosen: Vec<_> =
            rows.iter().filter(of_both).filter(|row| row.ratio.is_some()).collect();
        let Some(worst) = chosen
            .iter()
            .copied()
            .min_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)))
        else {
            return Vec::new();
        };
        let mean =
            |figure: fn(&Self) -> Option<f64>| geomean(chosen.iter().filter_map(|row| figure(row)));
        let mut overall = worst.clone();
        overall.case = "geomean".into();
        overall.ours = mean(|row| row.ours);
        overall.peer = mean(|row| row.peer);
        overall.ratio = mean(|row| row.ratio);
        overall.note = None;
        let mut lowest = worst.clone();
        lowest.case = "worst".into();
        lowest.note = Some(format!("the worst beside {peer_name} is {}", worst.case));
        for row in [&mut overall, &mut lowest] {
            (row.target, row.ok) = (None, None);
        }
        vec![overall, lowest]
    }

    fn judged(mut self) -> Self {
        self.ok = self.target.zip(self.ratio).map(|(target, ratio)| ratio >= target);
        self
    }
}

/// Which way a unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Rates.
    Higher,
    /// Times, sizes, counts.
    Lower,
}

/// The geometric mean; `None` of nothing.
pub fn geomean(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = figures.fold((0.0, 0u32), |(sum, n), figure| (sum + figure.ln(), n + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// Everything one run has to say.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Of this shape: 1.
    pub schema: u32,
    /// Where, when and with what.
    pub machine: Machine,
    /// The figures.
    pub rows: Vec<Row>,
}

/// Writes the run as JSON.
///
/// # Errors
/// When the file cannot be written.
pub fn write_json(run: &Run, path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let mut out = BufWriter::new(file);
    serde_json::to_writer_pretty(&mut out, run)?;
    writeln!(out)?;
    out.flush().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(case: &str, ours: f64, peer: f64) -> Row {
        Row::new("pglz", case, "compress", "MB/s", ours).against(
            "PostgreSQL C",
            peer,
            Better::Higher,
        )
    }

    #[test]
    fn a_ratio_above_one_means_ours_is_better_either_way() {
        let faster = row("a", 300.0, 100.0);
        assert_eq!(faster.ratio, Some(3.0));
        let smaller = Row::new("pglz", "a", "dense size", "bytes", 50.0).against(
            "PostgreSQL C",
            100.0,
            Better::Lower,
        );
        assert_eq!(smaller.ratio, Some(2.0));
    }

    #[test]
    fn a_floor_is_judged_only_where_there_is_a_ratio() {
        assert_eq!(row("a", 300.0, 100.0).floor(3.0).ok, Some(true));
        assert_eq!(row("a", 299.0, 100.0).floor(3.0).ok, Some(false));
        let alone = Row::new("page", "a", "checksum", "MB/s", 1.0).without("twin", "absent");
        assert_eq!((alone.clone().floor(3.0).ok, alone.peer), (None, None));
    }

    #[test]
    fn summaries_leave_out_absent_peers_and_name_the_worst() {
        let rows = [
            row("a", 200.0, 100.0),
            row("b", 800.0, 100.0),
            Row::new("pglz", "c", "compress", "MB/s", 1.0).without("PostgreSQL C", "absent"),
        ];
        let summaries = Row::summaries(&rows, "compress", "PostgreSQL C");
        assert!((summaries[0].ratio.unwrap() - 4.0).abs() < 1e-9);
        assert_eq!((summaries[1].case.as_str(), summaries[1].ratio), ("worst", Some(2.0)));
        assert_eq!(summaries[1].note.as_deref(), Some("the worst beside PostgreSQL C is a"));
        assert!(Row::summaries(&rows, "compress", "lz4_flex").is_empty());
    }

    #[test]
    fn json_rows_have_every_agreed_field_and_a_note_only_when_there_is_one() {
        let json = serde_json::to_value(row("a", 200.0, 100.0)).unwrap();
        let fields: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut agreed = vec![
            "suite",
            "case",
            "metric",
            "unit",
            "ours",
            "peer",
            "peer_name",
            "ratio",
            "target",
            "ok",
        ];
        agreed.sort_unstable();
        let mut found = fields.clone();
        found.sort_unstable();
        assert_eq!(found, agreed);
        let absent = Row::new("page", "a", "m", "ns", 1.0).without("twin", "not built");
        let json = serde_json::to_value(absent).unwrap();
        assert!(json["peer"].is_null() && json["ratio"].is_null());
        assert_eq!(json["note"], "not built");
    }
}
