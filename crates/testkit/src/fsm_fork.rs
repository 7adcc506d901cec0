//! A relation's free space map fork as a file, and the heap pages it speaks of, in plain bytes.
//!
//! ```text
//! page of the fork:  | header, 24 bytes: empty page, no special space | contents ...             |
//!                                                                     `- what `pgtoast-fsm` knows
//! ```
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The path of the fork that belongs to a relation's main file.
#[must_use]
pub fn fsm_path(main: &Path) -> PathBuf {
    let mut name = main.as_os_str().to_owned();
    name.push("_fsm");
    name.into()
}

/// The contents of each page, headers left out; none if the relation has no such fork.
///
/// # Errors
/// When the file cannot be read or ends within a page.
pub fn read_fsm(main: &Path) -> Result<Vec<Vec<u8>>> {
    let path = fsm_path(main);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    ensure!(bytes.len() % BLOCK_BYTES == 0, "{} ends within a page", path.display());
    Ok(bytes.chunks(BLOCK_BYTES).map(|page| page[HEADER_BYTES..].to_vec()).collect())
}

/// Writes the fork in place, behind page headers as a server makes them. `checksum` is handed each
/// page with its number and gives what goes into the header: zero where checksums are off.
///
/// # Errors
/// When the file cannot be written.
///
/// # Panics
/// If contents are longer than a page has room for.
pub fn write_fsm<'a>(
    main: &Path,
    contents: impl IntoIterator<Item = &'a [u8]>,
    checksum: impl Fn(&[u8], u32) -> u16,
) -> Result<()> {
    let mut bytes = Vec::new();
    for (number, contents) in (0..).zip(contents) {
        let mut page = vec![0; BLOCK_BYTES];
        for (offset, field) in
            [(12, HEADER_BYTES), (14, BLOCK_BYTES), (16, BLOCK_BYTES), (18, BLOCK_BYTES | 4)]
        {
            let field = u16::try_from(field).context("two bytes")?;
            page[offset..offset + 2].copy_from_slice(&field.to_le_bytes());
        }
        page[HEADER_BYTES..][..contents.len()].copy_from_slice(contents);
        let checksum = checksum(&page, number);
        page[8..10].copy_from_slice(&checksum.to_le_bytes());
        bytes.extend(page);
    }
    let path = fsm_path(main);
    // Written over the server's own file, if there is one, so that it keeps its owner.
    fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
}

/// The bytes that a heap page has for one more tuple, as the server counts them when it vacuums.
///
/// Source: `PageGetHeapFreeSpace`, `lazy_scan_heap` (REL_18).
#[must_use]
pub fn heap_free_bytes(page: &[u8]) -> usize {
    let field = |offset| usize::from(u16::from_le_bytes([page[offset], page[offset + 1]]));
    let (flags, lower, upper) = (field(10), field(12), field(14));
    if upper == 0 {
        // Never used: all but the header.
        return page.len() - HEADER_BYTES;
    }
    let free = upper.saturating_sub(lower).saturating_sub(LINE_POINTER_BYTES);
    let pointers = &page[HEADER_BYTES..lower];
    let most = (page.len() - HEADER_BYTES) / (LINE_POINTER_BYTES + SHORTEST_TUPLE_BYTES);
    if pointers.len() / LINE_POINTER_BYTES < most {
        return free;
    }
    // No more line pointers may be made: one must be free, and the page must know of it.
    let unused =
        |pointer: &[u8]| (u32::from_le_bytes(pointer.try_into().expect("4")) >> 15) & 3 == 0;
    let any_unused = flags & HAS_FREE_LINES != 0 && pointers.chunks_exact(4).any(unused);
    if any_unused { free } else { 0 }
}

/// Only servers compiled with the usual block size are at hand.
const BLOCK_BYTES: usize = 8192;
const HEADER_BYTES: usize = 24;
const LINE_POINTER_BYTES: usize = 4;
const SHORTEST_TUPLE_BYTES: usize = 24;
const HAS_FREE_LINES: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_page_keeps_room_for_the_line_pointer_and_may_run_out_of_them() {
        let page = |flags: u8, pointers: u16, pointer: u32| {
            let mut page = vec![0; 8192];
            page[10] = flags;
            page[12..14].copy_from_slice(&(24 + 4 * pointers).to_le_bytes());
            page[14..16].copy_from_slice(&8192u16.to_le_bytes());
            for at in 0..usize::from(pointers) {
                page[24 + 4 * at..][..4].copy_from_slice(&pointer.to_le_bytes());
            }
            page
        };
        let dead = 3 << 15;
        assert_eq!(heap_free_bytes(&[0; 8192]), 8168, "a page never used");
        assert_eq!(heap_free_bytes(&page(0, 0, 0)), 8164, "an empty page");
        assert_eq!(heap_free_bytes(&page(0, 290, dead)), 8168 - 4 * 291);
        assert_eq!(heap_free_bytes(&page(0, 291, 0)), 0, "unused ones it does not know of");
        assert_eq!(heap_free_bytes(&page(1, 291, 0)), 8168 - 4 * 292);
        assert_eq!(heap_free_bytes(&page(1, 291, dead)), 0);
    }
}
