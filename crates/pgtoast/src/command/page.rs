//! `pgtoast page`
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pgtoast_base::{BlockNumber, BlockSize};

use super::Outcome;
use super::arguments::{ForkArgument, PageArguments};
use super::cluster::Context;
use super::failure::Failure;
use super::output::{Color, Output};
use crate::datadir::{
    Columns, DataDirectory, Database, Folder, Fork, Geometry, Relation, RelationFile,
};
use crate::report::page::{AttributeReport, ItemReport, PageContext, PageReport};

pub(super) fn run(
    context: &Context,
    arguments: &PageArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let block = BlockNumber::new(arguments.block);
    let columns = arguments.columns.as_deref().map(Columns::parse).transpose();
    let columns = columns.map_err(|error| {
        Failure::Usage(format!("{error}; columns are given as in 'id int4, note text'"))
    })?;
    let path = PathBuf::from(&arguments.file);
    let report = if path.is_file() {
        of_file(&path, arguments, columns)?
    } else {
        let directory = context.directory()?;
        let named = context.table(&directory, &arguments.file)?;
        let (database, relation) = (&named.database, named.relation()?);
        let fork = fork_of(arguments.fork.unwrap_or(ForkArgument::Main));
        let missing = || Failure::Other(format!("{} has no such file", arguments.file));
        let blocks = database.fork(relation, fork)?.ok_or_else(missing)?;
        let mut bytes = vec![0; blocks.block_size().bytes()];
        blocks.read_block(block, &mut bytes)?;
        let own = columns.or_else(|| columns_of(database, relation));
        let known = PageContext {
            file: &blocks.place(block).0.to_string(),
            block,
            fork,
            columns: own.as_ref(),
            transactions: Some(directory.transactions()),
        };
        page_report(&bytes, blocks.block_size(), &known)?
    };
    if output.json {
        output.document("page", &report)?;
    } else {
        print(&report, output)?;
    }
    Ok(if report.faults.is_empty() { Outcome::Clean } else { Outcome::Findings })
}

fn page_report(
    bytes: &[u8],
    block_size: BlockSize,
    context: &PageContext<'_>,
) -> Result<PageReport, Failure> {
    PageReport::of(bytes, block_size, context).map_err(|error| Failure::Other(error.to_string()))
}

fn columns_of(database: &Database, relation: &Relation) -> Option<Columns> {
    relation.is_heap().then(|| database.columns(relation).ok()).flatten()
}

const fn fork_of(argument: ForkArgument) -> Fork {
    match argument {
        ForkArgument::Main => Fork::Main,
        ForkArgument::Fsm => Fork::FreeSpaceMap,
        ForkArgument::Vm => Fork::VisibilityMap,
        ForkArgument::Init => Fork::Init,
    }
}

/// A page of a file, wherever that is. If it lies in a data directory, its catalogs say what it is.
fn of_file(
    path: &Path,
    arguments: &PageArguments,
    columns: Option<Columns>,
) -> Result<PageReport, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = RelationFile::in_folder(Folder::Root, name);
    let home = named.and_then(|named| Home::of(path, named));
    let geometry = home.as_ref().map_or_else(Geometry::default, |home| home.directory.geometry());
    let block_size = match arguments.block_size {
        None => geometry.block_size,
        Some(size) => BlockSize::new(usize::try_from(size.0).unwrap_or(usize::MAX))
            .map_err(|error| Failure::Usage(error.to_string()))?,
    };
    let fork = arguments.fork.map_or_else(|| named.map_or(Fork::Main, |named| named.fork), fork_of);
    let mut bytes = vec![0; block_size.bytes()];
    let offset = u64::from(arguments.block) * block_size.bytes() as u64;
    let located = |error: std::io::Error| Failure::Other(format!("{}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(located)?;
    file.read_exact_at(&mut bytes, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Failure::Other(format!("{}: no block {}", path.display(), arguments.block))
        }
        _ => located(error),
    })?;
    // The number in a later segment goes on from the one before.
    let before = named.map_or(0, |named| named.segment.saturating_mul(geometry.segment_blocks));
    let own = columns.or_else(|| home.as_ref().and_then(|home| home.columns.clone()));
    let known = PageContext {
        file: &path.display().to_string(),
        block: BlockNumber::new(arguments.block.saturating_add(before)),
        fork,
        columns: own.as_ref(),
        transactions: home.as_ref().map(|home| &**home.directory.transactions()),
    };
    page_report(&bytes, block_size, &known)
}

/// The data directory that a file lies in.
struct Home {
    directory: DataDirectory,
    columns: Option<Columns>,
}

impl Home {
    fn of(path: &Path, file: RelationFile) -> Option<Self> {
        let folder = path.canonicalize().ok()?.parent()?.to_owned();
        let root =
            folder.ancestors().skip(1).find(|root| root.join("global/pg_control").is_file())?;
        // One page is looked at, whoever may be writing it.
        let directory = DataDirectory::open_online(root).ok()?;
        let mut columns = None;
        let is_global = folder.file_name().is_some_and(|name| name == "global");
        for entry in directory.databases() {
            let is_here = folder.file_name().is_some_and(|name| *name == *entry.oid.to_string());
            if (is_here || is_global)
                && let Ok(database) = Database::open(&directory, entry)
            {
                let mut relations = database.relations_of_filenode(file.filenode);
                let found = relations.find(|relation| relation.is_shared == is_global);
                columns = found.and_then(|relation| columns_of(&database, relation));
                break;
            }
        }
        Some(Self { directory, columns })
    }
}

fn print(report: &PageReport, output: &mut Output) -> Result<(), Failure> {
    let kind = serde_json::to_value(report.kind)?;
    let kind = kind.as_str().unwrap_or_default().to_owned();
    let title = format!("{} block {}: {kind}", report.file, report.block);
    writeln!(output, "{}", output.paint(Color::Bold, title))?;
    let checksum = match report.computed_checksum {
        _ if report.checksum == 0 => "none".to_owned(),
        Some(computed) if computed == report.checksum => format!("{computed:#06x}, right"),
        _ => format!("{:#06x}", report.checksum),
    };
    let flags = if report.flags.is_empty() { "none".to_owned() } else { report.flags.join(" ") };
    writeln!(output, "lsn {}, checksum {checksum}, flags {flags}", report.lsn)?;
    writeln!(
        output,
        "lower {}, upper {}, special {}, free {}, page size {}, layout {}, prune xid {}",
        report.lower,
        report.upper,
        report.special,
        report.free_bytes,
        report.page_bytes,
        report.layout_version,
        report.prune_xid
    )?;
    for fact in &report.facts {
        writeln!(output, "{}: {}", fact.name, fact.value)?;
    }
    for fault in &report.faults {
        writeln!(output, "{}", output.paint(Color::Red, fault))?;
    }
    for item in &report.items {
        print_item(item, output)?;
    }
    Ok(())
}

fn print_item(item: &ItemReport, output: &mut Output) -> Result<(), Failure> {
    let number = output.paint(Color::Bold, format!("{:>4}", item.item)).to_string();
    match item.state.as_str() {
        "redirect" => writeln!(output, "{number} redirect to {}", item.offset)?,
        "normal" => write!(output, "{number} {} bytes at {}", item.len, item.offset)?,
        state => writeln!(output, "{number} {state}")?,
    }
    if let Some(fault) = &item.fault {
        let fault = output.paint(Color::Red, fault).to_string();
        write!(output, ": {fault}")?;
    }
    if let Some(bytes) = &item.bytes {
        write!(output, ": {bytes}")?;
    }
    if let Some(tuple) = &item.tuple {
        write!(output, ": xmin {}, xmax {}, ctid {}", tuple.xmin, tuple.xmax, tuple.ctid)?;
        if let Some(state) = &tuple.state {
            write!(output, ", {state}")?;
        }
        write!(output, ", {} attributes from {} on", tuple.attribute_count, tuple.data_offset)?;
        write!(output, "\n       {}", tuple.flags.join(" "))?;
        for attribute in &tuple.attributes {
            write!(output, "\n       {:<20} ", attribute.column)?;
            print_attribute(attribute, output)?;
        }
    }
    if item.state == "normal" {
        writeln!(output)?;
    }
    Ok(())
}

fn print_attribute(attribute: &AttributeReport, output: &mut Output) -> Result<(), Failure> {
    if let Some(fault) = &attribute.fault {
        let fault = output.paint(Color::Red, fault).to_string();
        return Ok(write!(output, "{fault}")?);
    }
    write!(output, "{}", attribute.form)?;
    if let Some(offset) = attribute.offset {
        write!(output, " at {offset}")?;
    }
    if let Some(raw_bytes) = attribute.raw_bytes {
        write!(output, ", {raw_bytes} bytes")?;
        if let Some(method) = &attribute.method {
            write!(output, " in {} by {method}", attribute.stored_bytes.unwrap_or_default())?;
        }
    }
    if let (Some(value_id), Some(relation)) = (attribute.value_id, attribute.toast_relation) {
        write!(output, ", value {value_id} of {relation}")?;
    }
    if let Some(bytes) = &attribute.bytes {
        write!(output, ": {bytes}")?;
    }
    Ok(())
}
