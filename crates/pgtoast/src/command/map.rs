//! `pgtoast map`
use std::io::Write;

use super::Outcome;
use super::arguments::MapArguments;
use super::cluster::{Context, main_bytes, toast_bytes};
use super::failure::Failure;
use super::info::percent;
use super::output::{Color, Output};
use super::size::{ByteCount, Grouped};
use crate::report::map::{Cell, HeapMap, MapReport};
use crate::report::values::table_of;

/// How many cells stand in a row.
const COLUMNS: usize = 64;

pub(super) fn run(
    context: &Context,
    arguments: &MapArguments,
    output: &mut Output,
) -> Result<Outcome, Failure> {
    let directory = context.directory()?;
    let named = context.table(&directory, &arguments.table)?;
    let database = &named.database;
    let relation = table_of(database, named.heap()?);
    let bytes = main_bytes(database, relation) + toast_bytes(database, relation);
    let report = context.while_watched(bytes, |budget| {
        MapReport::of(database, relation, arguments.cells, budget)
    })?;
    if output.json {
        output.document("map", &report)?;
    } else if arguments.svg {
        svg(&report, output)?;
    } else {
        text(&report, output)?;
    }
    let maps = [Some(&report.heap), report.toast.as_ref()];
    let mut cells = maps.into_iter().flatten().flat_map(|map| &map.cells);
    let is_broken = cells.any(|cell| cell.broken_blocks > 0);
    Ok(if is_broken { Outcome::Findings } else { Outcome::Clean })
}

/// The rows, and the chunks if there are any, each with its title.
fn parts(report: &MapReport) -> Vec<(String, &HeapMap)> {
    let title = |what: &str, map: &HeapMap| {
        let sum = |field: fn(&Cell) -> u64| map.cells.iter().map(field).sum::<u64>();
        let bytes = u64::from(map.blocks) * u64::from(map.block_bytes);
        let mut title = format!(
            "{what}: {} blocks, {}, live {}, dead {}, free {}",
            Grouped(map.blocks.into()),
            ByteCount(bytes),
            percent(sum(|cell| cell.live_bytes), bytes),
            percent(sum(|cell| cell.dead_bytes), bytes),
            percent(sum(|cell| cell.free_bytes), bytes)
        );
        if map.blocks_per_cell > 1 {
            title.push_str(&format!(", {} blocks a cell", Grouped(map.blocks_per_cell.into())));
        }
        if map.chunks > 0 {
            title.push_str(&format!(
                ", {} chunks in {} runs",
                Grouped(map.chunks),
                Grouped(map.chunk_runs)
            ));
        }
        title
    };
    let mut parts = vec![(title(&report.table.to_string(), &report.heap), &report.heap)];
    if let Some(toast) = report.toast.as_ref().filter(|toast| toast.blocks > 0) {
        parts.push((title("TOAST", toast), toast));
    }
    parts
}

fn text(report: &MapReport, output: &mut Output) -> Result<(), Failure> {
    for (title, map) in parts(report) {
        writeln!(output, "{}", output.paint(Color::Bold, title))?;
        for row in map.cells.chunks(COLUMNS) {
            let first = row.first().map_or(0, |cell| cell.first_block);
            write!(output, "{first:>10} ")?;
            for cell in row {
                let (letter, color) = glyph(cell, map.block_bytes);
                match color {
                    Some(color) => write!(output, "{}", output.paint(color, letter))?,
                    None => write!(output, "{letter}")?,
                }
            }
            writeln!(output)?;
        }
    }
    writeln!(
        output,
        "the height of a cell: how full of live rows; x more dead than alive, . zeros, ! broken"
    )?;
    Ok(())
}

fn glyph(cell: &Cell, block_bytes: u32) -> (char, Option<Color>) {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if cell.broken_blocks > 0 {
        return ('!', Some(Color::Red));
    }
    if cell.zero_blocks == cell.blocks {
        return ('.', Some(Color::Dim));
    }
    let [live, dead, _] = cell.shares(block_bytes);
    if dead > live {
        return ('x', Some(Color::Red));
    }
    // A cell that has anything shows it.
    let height = usize::from(live).div_ceil(12).min(HEIGHTS.len() - 1);
    let color = if dead >= 10 { Some(Color::Yellow) } else { Some(Color::Green) };
    (HEIGHTS[height], color)
}

/// The side of a cell.
const SIDE: usize = 12;

fn svg(report: &MapReport, output: &mut Output) -> Result<(), Failure> {
    let parts = parts(report);
    let rows = |map: &HeapMap| map.cells.len().div_ceil(COLUMNS).max(1);
    let height: usize = parts.iter().map(|(_, map)| 28 + rows(map) * SIDE).sum::<usize>() + 24;
    let width = COLUMNS * SIDE + 16;
    writeln!(
        output,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    )?;
    let mut top = 0;
    for (title, map) in &parts {
        writeln!(output, "<text x=\"8\" y=\"{}\">{}</text>", top + 20, escaped(title))?;
        top += 28;
        for (index, cell) in map.cells.iter().enumerate() {
            let (x, y) = (8 + index % COLUMNS * SIDE, top + index / COLUMNS * SIDE);
            svg_cell(cell, map, x, y, output)?;
        }
        top += rows(map) * SIDE;
    }
    writeln!(
        output,
        "<text x=\"8\" y=\"{}\" fill=\"#666\">green live, red dead, white free, grey zeros, black broken; \
         a bar to the left: many runs of chunks</text>\n</svg>",
        top + 18
    )?;
    Ok(())
}

fn svg_cell(
    cell: &Cell,
    map: &HeapMap,
    x: usize,
    y: usize,
    output: &mut Output,
) -> Result<(), Failure> {
    let inner = SIDE - 1;
    let background = if cell.broken_blocks > 0 {
        "#000"
    } else if cell.zero_blocks == cell.blocks {
        "#ccc"
    } else {
        "#f4f4f4"
    };
    let [live, dead, free] = cell.shares(map.block_bytes);
    let title = format!(
        "blocks {} to {}: live {live} %, dead {dead} %, free {free} %",
        cell.first_block,
        cell.first_block + cell.blocks.saturating_sub(1)
    );
    writeln!(
        output,
        "<g><title>{title}</title><rect x=\"{x}\" y=\"{y}\" width=\"{inner}\" height=\"{inner}\" \
         fill=\"{background}\"/>"
    )?;
    let scaled = |share: u8| usize::from(share) * inner / 100;
    let (green, red) = (scaled(live), scaled(dead));
    for (height, bottom, color) in [(green, 0, "#3a3"), (red, green, "#c33")] {
        if height > 0 && cell.broken_blocks == 0 {
            let top = y + inner - (bottom + height).min(inner);
            writeln!(
                output,
                "<rect x=\"{x}\" y=\"{top}\" width=\"{inner}\" height=\"{height}\" fill=\"{color}\"/>"
            )?;
        }
    }
    // Two chunks of each value in a block are as good as it gets for small values.
    if cell.chunk_runs > u64::from(cell.blocks) * 3 {
        writeln!(
            output,
            "<rect x=\"{x}\" y=\"{y}\" width=\"2\" height=\"{inner}\" fill=\"#f90\"/>"
        )?;
    }
    Ok(writeln!(output, "</g>")?)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
