//! Rows as tables for a terminal: a line a case and metric, a column a peer.
use std::io::Write;

use anyhow::Result;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use crate::Row;

/// Rows of one case and metric, which differ in the peer alone.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) case: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) ours: Option<f64>,
    pub(crate) rows: Vec<&'a Row>,
}

/// Puts rows that belong side by side together, in the order they came.
pub(crate) fn groups<'a>(rows: &[&'a Row]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for row in rows {
        let same = |group: &&mut Group<'_>| {
            (group.case, group.metric, group.unit) == (&row.case, &row.metric, row.unit)
                && group.ours == row.ours
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                case: &row.case,
                metric: &row.metric,
                unit: row.unit,
                ours: row.ours,
                rows: vec![row],
            }),
        }
    }
    groups
}

/// The peers of some rows, in the order they first appear.
pub(crate) fn peers<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut peers = Vec::new();
    for name in rows.iter().filter_map(|row| row.peer_name.as_deref()) {
        if !peers.contains(&name) {
            peers.push(name);
        }
    }
    peers
}

/// Three figures are what a benchmark is good for.
pub(crate) fn figure(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 100.0 || magnitude == 0.0 {
        let digits = format!("{value:.0}");
        let (sign, digits) = digits.strip_prefix('-').map_or(("", &*digits), |rest| ("-", rest));
        let head = digits.len() % 3;
        let mut grouped = String::from(sign);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && index % 3 == head {
                grouped.push(' ');
            }
            grouped.push(digit);
        }
        grouped
    } else if magnitude >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A peer's cell: its figure, the ratio, and the floor where there is one.
pub(crate) fn verdict(row: &Row) -> String {
    let Some((peer, ratio)) = row.peer.zip(row.ratio) else { return "absent".into() };
    let held = match (row.target, row.ok) {
        (Some(target), Some(true)) => format!(" ≥ {} ✓", floor(target)),
        (Some(target), Some(false)) => format!(" ≥ {} ✗", floor(target)),
        _ => String::new(),
    };
    format!("{}  {ratio:.2}×{held}", figure(peer))
}

/// A floor, to three decimals and without the zeros that end it.
pub(crate) fn floor(target: f64) -> String {
    format!("{target:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The notes of some rows, each once, with the cases they belong to.
pub(crate) fn notes<'a>(rows: &[&'a Row]) -> Vec<(&'a str, String)> {
    let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let Some(note) = row.note.as_deref() else { continue };
        let place = format!("{} {}", row.case, row.metric);
        match notes.iter_mut().find(|(text, _)| *text == note) {
            Some((_, places)) if !places.contains(&place) => places.push(place),
            Some(_) => {}
            None => notes.push((note, vec![place])),
        }
    }
    let name = |places: Vec<String>| match places.as_slice() {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        few => few.join(", "),
    };
    notes.into_iter().map(|(text, places)| (text, name(places))).collect()
}

/// Prints a table of the rows of one suite, and their notes below it.
///
/// # Errors
/// When `out` cannot be written to.
pub fn print_tables(out: &mut dyn Write, title: &str, about: &str, rows: &[Row]) -> Result<()> {
    let rows: Vec<_> = rows.iter().collect();
    let (timed, skipped): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| row.ours.is_some());
    writeln!(out, "\n{title}: {about}")?;
    let peers = peers(&timed);
    if !timed.is_empty() {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        let head = ["case", "metric", "unit", "ours"].into_iter().chain(peers.iter().copied());
        table.set_header(head);
        for group in groups(&timed) {
            let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
            let mut line = vec![
                Cell::new(group.case),
                Cell::new(group.metric),
                Cell::new(group.unit),
                right(group.ours.map(figure).unwrap_or_default()),
            ];
            for peer in &peers {
                let row = group.rows.iter().find(|row| row.peer_name.as_deref() == Some(peer));
                line.push(right(row.map(|row| verdict(row)).unwrap_or_default()));
            }
            table.add_row(line);
        }
        writeln!(out, "{table}")?;
    }
    for (note, places) in notes(&timed) {
        writeln!(out, "  note: {note} ({places})")?;
    }
    for row in skipped {
        writeln!(out, "  skipped: {}: {}", row.case, row.note.as_deref().unwrap_or("no reason"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Better;

    #[test]
    fn figures_have_three_digits_and_thousands_apart() {
        for (value, text) in [
            (0.0, "0"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (1234.4, "1 234"),
            (1_234_567.0, "1 234 567"),
            (-4321.0, "-4 321"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn a_floor_has_no_more_digits_than_it_needs() {
        for (target, text) in [(2.0, "2"), (1.7, "1.7"), (1.042, "1.042"), (1.0 / 3.0, "0.333")] {
            assert_eq!(floor(target), text);
        }
    }

    #[test]
    fn peers_of_one_case_share_a_line_and_a_missed_floor_shows() {
        let row = |peer: &str, figure| {
            Row::new("pglz", "prose", "compress", "MB/s", 150.0).against(
                peer,
                figure,
                Better::Higher,
            )
        };
        let rows = [row("PostgreSQL C", 100.0).floor(1.7), row("lz4_flex", 600.0)];
        let mut out = Vec::new();
        print_tables(&mut out, "pglz", "a codec", &rows).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = text.lines().find(|line| line.contains("prose")).unwrap();
        assert!(line.contains("1.50× ≥ 1.7 ✗") && line.contains("0.25×"), "{text}");
    }

    #[test]
    fn a_note_is_printed_once_with_its_places() {
        let row = |case: &str| Row::new("pglz", case, "m", "MB/s", 1.0).without("C", "not built");
        let rows: Vec<_> = ["a", "b", "c", "d"].map(row).into();
        let rows: Vec<_> = rows.iter().collect();
        assert_eq!(notes(&rows), [("not built", "a m, b m, c m and 1 more".to_owned())]);
    }
}
