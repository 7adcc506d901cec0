//! Pages of tables: such as servers wrote, and such as they would write of made-up rows.
#![expect(clippy::cast_possible_truncation, reason = "numbers drawn to fit their fields")]
use pgtoast_base::BlockSize;
use pgtoast_testkit::Rng;

use super::prose;

const PAGE: usize = BlockSize::KIB_8.bytes();
const PAGE_HEADER: usize = 24;
const LINE_POINTER: usize = 4;

/// Pages with tuples, written by PostgreSQL 15 and 18: tables and a TOAST table.
const WRITTEN: [&[u8]; 12] = [
    include_bytes!("../../../testdata/15/heap_frozen.page"),
    include_bytes!("../../../testdata/15/heap_holes.page"),
    include_bytes!("../../../testdata/15/heap_pruned.page"),
    include_bytes!("../../../testdata/15/heap_states.page"),
    include_bytes!("../../../testdata/15/heap_types.page"),
    include_bytes!("../../../testdata/15/toast.page"),
    include_bytes!("../../../testdata/18/heap_frozen.page"),
    include_bytes!("../../../testdata/18/heap_holes.page"),
    include_bytes!("../../../testdata/18/heap_pruned.page"),
    include_bytes!("../../../testdata/18/heap_states.page"),
    include_bytes!("../../../testdata/18/heap_types.page"),
    include_bytes!("../../../testdata/18/toast.page"),
];

/// One of those pages, as if another transaction had written the same rows in another order to another
/// block: there are too few of them to be taken as they are again and again.
pub(super) fn of_a_server(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let mut page = rng.pick(&WRITTEN).to_vec();
    let half = |page: &[u8], at: usize| u16::from_le_bytes([page[at], page[at + 1]]);
    let (lower, end) = (usize::from(half(&page, 12)), usize::from(half(&page, 16)));
    let block = rng.below(1 << 16) as u16;
    let later = rng.below(1 << 20) as u32;
    let mut tuples = Vec::new();
    for at in (PAGE_HEADER..lower).step_by(LINE_POINTER) {
        let pointer = word(&page, at);
        if pointer >> 15 & 3 != 1 {
            continue;
        }
        let (offset, len) = ((pointer & 0x7fff) as usize, (pointer >> 17) as usize);
        let mut tuple = page[offset..offset + len].to_vec();
        let xmin = word(&tuple, 0).wrapping_add(later);
        tuple[..4].copy_from_slice(&xmin.to_le_bytes());
        tuple[14..16].copy_from_slice(&block.to_le_bytes());
        // Any place among those that are there already.
        tuples.insert(rng.below(tuples.len() + 1), (at, tuple));
    }
    page[lower..end].fill(0);
    let mut upper = end;
    for (at, tuple) in &tuples {
        upper -= tuple.len().next_multiple_of(8);
        page[upper..upper + tuple.len()].copy_from_slice(tuple);
        let pointer = upper as u32 | 1 << 15 | (tuple.len() as u32) << 17;
        page[*at..at + LINE_POINTER].copy_from_slice(&pointer.to_le_bytes());
    }
    page[4..8].copy_from_slice(&(rng.below(1 << 30) as u32).to_le_bytes());
    page[8..10].copy_from_slice(&(rng.below(1 << 16) as u16).to_le_bytes());
    page[14..16].copy_from_slice(&(upper as u16).to_le_bytes());
    bytes.extend(page);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// A heap page as a server lays it out: header, line pointers, a gap, and tuples from the end down,
/// each with its 24-byte header, an id, a time, a price and a short text.
pub(super) fn of_made_rows(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let mut page = vec![0; PAGE];
    let block = rng.below(1 << 16) as u16;
    let xid = rng.between(700, 90_000) as u32;
    let first_id = rng.below(1 << 24) as u32;
    let (mut lower, mut upper) = (PAGE_HEADER, PAGE);
    for item in 1_u16.. {
        let mut text = String::new();
        for _ in 0..rng.between(2, 9) {
            text.push_str(prose::word(rng));
            text.push(' ');
        }
        text.truncate(120);
        let mut tuple = Vec::with_capacity(128);
        tuple.extend((xid + u32::from(item) / 16).to_le_bytes());
        tuple.extend([0; 8]);
        for part in [0, block, item] {
            tuple.extend(part.to_le_bytes());
        }
        // Four attributes; variable width; xmin committed, xmax invalid; no nulls.
        tuple.extend([4, 0, 0x02, 0x09, 24, 0]);
        tuple.extend((first_id + u32::from(item)).to_le_bytes());
        tuple.extend((rng.between(100, 99_999) as u32).to_le_bytes());
        tuple.extend((750_000_000_000_000 + rng.below(1 << 36) as u64).to_le_bytes());
        tuple.push((text.len() + 1) as u8 * 2 + 1);
        tuple.extend(text.as_bytes());
        let stored = tuple.len().next_multiple_of(8);
        if lower + LINE_POINTER + stored > upper {
            break;
        }
        upper -= stored;
        page[upper..upper + tuple.len()].copy_from_slice(&tuple);
        let pointer = upper as u32 | 1 << 15 | (tuple.len() as u32) << 17;
        page[lower..lower + LINE_POINTER].copy_from_slice(&pointer.to_le_bytes());
        lower += LINE_POINTER;
    }
    let header = [0, rng.below(1 << 30) as u32, rng.below(1 << 16) as u32];
    for (at, word) in header.into_iter().enumerate() {
        page[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
    }
    for (at, half) in [(12, lower), (14, upper), (16, PAGE), (18, PAGE | 4)] {
        page[at..at + 2].copy_from_slice(&(half as u16).to_le_bytes());
    }
    bytes.extend(page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgtoast_page::Page;

    #[test]
    fn every_line_pointer_of_every_page_leads_somewhere() {
        let mut rng = Rng::new(3);
        for made in [of_a_server, of_made_rows] {
            for _ in 0..50 {
                let mut bytes = Vec::new();
                made(&mut rng, &mut bytes);
                let page = Page::parse(&bytes, BlockSize::KIB_8).expect("a page");
                page.verify().expect("a sound header");
                assert!(page.item_count() > 0);
                for (item, _) in page.items() {
                    page.item(item).expect("a line pointer that leads somewhere");
                }
            }
        }
    }
}
