//! The HTML report: one file with everything in it, so that it can be mailed.
mod plot;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::table::{figure, floor, groups, notes, peers, verdict};
use crate::{Machine, Row, Run, named};

const STYLE: &str = include_str!("style.css");

/// Writes `index.html` into a directory, which is made if need be, and says where.
///
/// # Errors
/// When the directory or the file cannot be written.
pub fn write_report(run: &Run, directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    let path = directory.join("index.html");
    fs::write(&path, html(run)?).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn html(run: &Run) -> Result<String> {
    let mut page = String::new();
    let title = "pgtoast benchmarks";
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n<h1>{title}</h1>\n"
    )?;
    machine(&mut page, &run.machine)?;
    floors(&mut page, &run.rows)?;
    let mut suites: Vec<&str> = Vec::new();
    for row in &run.rows {
        if !suites.contains(&row.suite) {
            suites.push(row.suite);
        }
    }
    for suite in suites {
        let rows: Vec<_> = run.rows.iter().filter(|row| row.suite == suite).collect();
        section(&mut page, suite, &rows)?;
    }
    page.push_str(
        "<footer>A ratio above 1× means that ours is better. All contenders of a line took turns in \
         one run; figures are medians. Every timed answer was checked.</footer>\n</main></body></html>\n",
    );
    Ok(page)
}

fn machine(page: &mut String, machine: &Machine) -> Result<()> {
    let cores = format!("{} cores", machine.cores);
    let versions = machine.versions.iter().map(|(name, version)| format!("{name} {version}"));
    let versions = versions.collect::<Vec<_>>().join(", ");
    page.push_str("<dl>\n");
    for (term, text) in [
        ("Machine", format!("{}, {cores}, {}", machine.cpu, machine.os)),
        ("Extensions", machine.features.join(" ")),
        ("Date", machine.date.clone()),
        ("Command", machine.command.clone()),
        ("Compiler", machine.rustc.to_owned()),
        ("Versions", versions),
    ] {
        writeln!(page, "<dt>{term}</dt><dd>{}</dd>", escaped(&text))?;
    }
    page.push_str("</dl>\n");
    Ok(())
}

/// The rows with a floor, before all others: they are what a reader comes for.
fn floors(page: &mut String, rows: &[Row]) -> Result<()> {
    let held: Vec<_> = rows.iter().filter(|row| row.target.is_some()).collect();
    if held.is_empty() {
        return Ok(());
    }
    page.push_str("<h2>Floors</h2>\n<div class=\"floors\">\n");
    for row in held {
        let (class, ratio) = match (row.ok, row.ratio) {
            (Some(true), Some(ratio)) => ("met", format!("{ratio:.2}×")),
            (_, Some(ratio)) => ("missed", format!("{ratio:.2}×")),
            _ => ("absent", "—".to_owned()),
        };
        let what = format!("{}: {} {}", row.suite, row.case, row.metric);
        let peer = row.peer_name.as_deref().unwrap_or("no peer");
        writeln!(
            page,
            "<div class=\"floor {class}\"><b>{ratio}</b><span>{}</span>\
             <small>of {}, floor {}×</small></div>",
            escaped(&what),
            escaped(peer),
            floor(row.target.unwrap_or_default())
        )?;
    }
    page.push_str("</div>\n");
    Ok(())
}

fn section(page: &mut String, suite: &str, rows: &[&Row]) -> Result<()> {
    let about = named(suite).map(|suite| suite.about()).unwrap_or_default();
    writeln!(page, "<h2 id=\"{suite}\">{suite}</h2>\n<p class=\"about\">{}</p>", escaped(about))?;
    let (timed, skipped): (Vec<&Row>, Vec<&Row>) =
        rows.iter().copied().partition(|row| row.ours.is_some());
    let mut drawn: Vec<(&str, &str)> = Vec::new();
    for row in &timed {
        let kind = (row.metric.as_str(), row.unit);
        if drawn.contains(&kind) {
            continue;
        }
        drawn.push(kind);
        let of_kind = |row: &&&Row| (row.metric.as_str(), row.unit) == kind;
        let rows: Vec<_> = timed.iter().filter(of_kind).copied().collect();
        let (mut groups, peers) = (groups(&rows), peers(&rows));
        // Each peer's worst is a dot of another line already.
        groups.retain(|group| group.case != "worst");
        let svg = plot::draw(&groups, &peers, row.unit)?;
        writeln!(page, "<figure><figcaption>{}</figcaption>{svg}</figure>", escaped(&row.metric))?;
    }
    if !timed.is_empty() {
        table(page, &timed)?;
    }
    page.push_str("<ul class=\"notes\">\n");
    for (note, places) in notes(&timed) {
        writeln!(page, "<li>{} <small>{}</small></li>", escaped(note), escaped(&places))?;
    }
    for row in skipped {
        let why = row.note.as_deref().unwrap_or("no reason");
        writeln!(page, "<li>Skipped: {}: {}</li>", escaped(&row.case), escaped(why))?;
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn table(page: &mut String, rows: &[&Row]) -> Result<()> {
    let peers = peers(rows);
    page.push_str("<div class=\"scroll\"><table><thead><tr><th>case</th><th>metric</th><th>unit</th><th>ours</th>");
    for peer in &peers {
        write!(page, "<th>{}</th>", escaped(peer))?;
    }
    page.push_str("</tr></thead><tbody>\n");
    for group in groups(rows) {
        let summary = matches!(group.case, "geomean" | "worst");
        write!(
            page,
            "<tr{}><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td>",
            if summary { " class=\"summary\"" } else { "" },
            escaped(group.case),
            escaped(group.metric),
            escaped(group.unit),
            group.ours.map(figure).unwrap_or_default()
        )?;
        for peer in &peers {
            let row = group.rows.iter().find(|row| row.peer_name.as_deref() == Some(peer));
            let class = match row.map(|row| (row.ok, row.ratio)) {
                Some((Some(false), _)) => "n bad",
                Some((_, Some(ratio))) if ratio >= 1.0 => "n good",
                Some((_, None)) => "n none",
                _ => "n",
            };
            let text = row.map(|row| verdict(row)).unwrap_or_default();
            write!(page, "<td class=\"{class}\">{}</td>", escaped(&text))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Better;

    fn run() -> Run {
        let row = |case: &str, peer| {
            Row::new("pglz", case, "compress", "MB/s", 200.0)
                .against("PostgreSQL C", peer, Better::Higher)
                .floor(1.7)
        };
        let rows = vec![
            row("<prose>", 100.0),
            row("json", 150.0),
            Row::new("pglz", "xml", "compress", "MB/s", 2.0).without("PostgreSQL C", "not built"),
            Row::skipped("postgres", "all", "no server"),
        ];
        Run { schema: 1, machine: Machine::current(), rows }
    }

    #[test]
    fn the_report_stands_alone_and_escapes_what_it_is_told() {
        let page = html(&run()).unwrap();
        assert!(page.contains("<svg") && page.contains("&lt;prose&gt;"));
        for outside in ["<prose>", "<script src", "<link", "<img", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("no server") && page.contains("not built"));
    }

    #[test]
    fn met_and_missed_floors_look_different() {
        let page = html(&run()).unwrap();
        assert_eq!(page.matches("floor met").count(), 1);
        assert_eq!(page.matches("floor missed").count(), 1);
    }

    #[test]
    fn a_report_lands_in_a_directory_made_for_it() {
        let directory = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
        let path = write_report(&run(), &directory.join("deep")).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("</html>\n"));
        fs::remove_dir_all(directory).unwrap();
    }
}
