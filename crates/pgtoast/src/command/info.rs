//! `pgtoast info`
use std::io::Write;

use super::Outcome;
use super::cluster::Context;
use super::failure::Failure;
use super::output::{Color, Output, print_table, table};
use super::size::{ByteCount, Grouped};
use crate::report::info::{Cluster, DatabaseInfo, Info};

pub(super) fn run(context: &Context, output: &mut Output) -> Result<Outcome, Failure> {
    let directory = context.directory()?;
    let mut info = Info::of(&directory, &context.path()?.display().to_string());
    if let Some(name) = &context.arguments.database {
        if !info.databases.iter().any(|database| database.name == *name) {
            context.databases(&directory)?;
        }
        info.databases.retain(|database| database.name == *name);
    }
    if output.json {
        output.document("info", &info)?;
    } else {
        print(&info, output)?;
    }
    Ok(if info.problems.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

fn print(info: &Info, output: &mut Output) -> Result<(), Failure> {
    print_cluster(info, &info.cluster, output)?;
    for one in &info.prepared {
        let database = one.database.as_deref().unwrap_or("?");
        writeln!(output, "prepared       transaction {} '{}' in {database}", one.xid, one.name)?;
    }
    if !info.databases.is_empty() {
        let header =
            ["database", "encoding", "tables", "toasted", "table", "toast", "index", "xid age"];
        let mut rows = table(&header, 2);
        for one in &info.databases {
            rows.add_row([
                one.name.clone(),
                one.encoding.clone(),
                one.tables.to_string(),
                one.toasted_tables.to_string(),
                ByteCount(one.table_bytes).to_string(),
                ByteCount(one.toast_bytes).to_string(),
                ByteCount(one.index_bytes).to_string(),
                Grouped(one.xid_age.into()).to_string(),
            ]);
        }
        writeln!(output)?;
        print_table(output, &rows)?;
    }
    print_most_toasted(&info.databases, output)?;
    for problem in &info.problems {
        writeln!(output, "{} {problem}", output.paint(Color::Red, "cannot read:"))?;
    }
    Ok(())
}

fn print_cluster(info: &Info, cluster: &Cluster, output: &mut Output) -> Result<(), Failure> {
    let yes = |on| if on { "on" } else { "off" };
    let color = if cluster.is_consistent { Color::Green } else { Color::Yellow };
    let consistency = output.paint(color, &cluster.consistency).to_string();
    writeln!(output, "{}", output.paint(Color::Bold, &info.directory))?;
    writeln!(
        output,
        "release        PostgreSQL {} (catalogs {}), system {}",
        cluster.major, cluster.catalog_version, cluster.system_identifier
    )?;
    writeln!(output, "state          {consistency}")?;
    writeln!(
        output,
        "checkpoint     {} on timeline {}, {}",
        cluster.checkpoint, cluster.timeline, cluster.checkpoint_time
    )?;
    writeln!(
        output,
        "blocks         {}, segments {}, TOAST chunks {} bytes, checksums {}",
        ByteCount(cluster.block_bytes.into()),
        ByteCount(cluster.segment_bytes),
        cluster.chunk_bytes,
        yes(cluster.checksums)
    )?;
    writeln!(
        output,
        "next ids       transaction {}, object and value {}, multixact {}",
        cluster.next_xid, cluster.next_oid, cluster.next_multi
    )?;
    writeln!(output, "tablespaces    {}", cluster.tablespaces.join(", "))?;
    Ok(())
}

fn print_most_toasted(databases: &[DatabaseInfo], output: &mut Output) -> Result<(), Failure> {
    let mut rows = table(&["most toasted", "rows", "table", "toast", "share"], 1);
    let used = databases.iter().filter(|one| !one.is_template);
    let mut most: Vec<_> =
        used.flat_map(|one| one.most_toasted.iter().map(|table| (&one.name, table))).collect();
    most.sort_by_key(|(_, table)| core::cmp::Reverse(table.toast_bytes));
    most.truncate(MOST_SHOWN);
    for (database, one) in &most {
        rows.add_row([
            format!("{database}.{}.{}", one.schema, one.name),
            one.estimated_rows.map_or_else(|| "?".to_owned(), |n| format!("~{}", Grouped(n))),
            ByteCount(one.table_bytes).to_string(),
            ByteCount(one.toast_bytes).to_string(),
            percent(one.toast_bytes, one.toast_bytes + one.table_bytes),
        ]);
    }
    if !most.is_empty() {
        writeln!(output)?;
        print_table(output, &rows)?;
    }
    Ok(())
}

/// How many tables are shown, of all databases together.
const MOST_SHOWN: usize = 10;

/// A part of a whole, as people read it.
#[expect(clippy::cast_precision_loss, reason = "one digit behind the point is printed")]
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 / whole as f64 * 100.0) }
}
