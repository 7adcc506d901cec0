//! The pages of a fork, whatever they hold: read, verified, and held to their structure.
use core::ops::Range;

use pgtoast_base::BlockNumber;
use pgtoast_page::{HeapTuple, Item, Page, PageError};

use super::report::Report;
use super::target::Target;
use super::{Coverage, FindingKind, Readable};
use crate::Blocks;

/// What was told of a page that goes to a visitor all the same.
#[derive(Clone, Copy, Default)]
pub(super) struct PageFaults<'a> {
    /// Items that do not bear looking at.
    pub(super) items: &'a [u16],
    /// Whether the checksum is wrong.
    pub(super) is_distrusted: bool,
}

/// Reads ranges of blocks and tells what is wrong with their pages. Those whose header leads to items
/// go to `visit`, together with what was told. Returns how many blocks there are
/// whose items nobody can look at.
pub(super) fn each_page(
    target: &Target,
    ranges: impl IntoIterator<Item = Range<u32>>,
    buffer: &mut Vec<u8>,
    report: &Report<'_>,
    coverage: &mut Coverage,
    mut visit: impl FnMut(BlockNumber, Page<'_>, PageFaults<'_>, &mut Coverage),
) -> u64 {
    let mut checker = PageChecker {
        target,
        report,
        shift: Shift::new(target),
        again: Vec::new(),
        errors: Vec::new(),
        bad_items: Vec::new(),
        told: 0,
    };
    let mut closed = 0;
    for range in ranges {
        let mut blocks = target.fork.blocks_into(range, core::mem::take(buffer));
        closed += checker.blocks(&mut blocks, coverage, &mut visit);
        *buffer = blocks.into_buffer();
    }
    report.progress(checker.told);
    closed
}

/// How often a taker of findings hears of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

struct PageChecker<'a, 'r> {
    target: &'a Target,
    report: &'a Report<'r>,
    shift: Shift,
    /// A page that was read again.
    again: Vec<u8>,
    errors: Vec<PageError>,
    bad_items: Vec<u16>,
    /// Bytes that were read since the taker of findings last heard of progress.
    told: u64,
}

impl PageChecker<'_, '_> {
    /// All blocks of a range; how many of them have items that nobody can look at.
    fn blocks(
        &mut self,
        blocks: &mut Blocks<'_>,
        coverage: &mut Coverage,
        visit: &mut impl FnMut(BlockNumber, Page<'_>, PageFaults<'_>, &mut Coverage),
    ) -> u64 {
        let (target, report) = (self.target, self.report);
        let block_bytes = target.fork.block_size().bytes() as u64;
        let mut closed = 0;
        let mut number = blocks.number();
        while let Some(next) = blocks.next() {
            let block = BlockNumber::new(number);
            number += 1;
            coverage.blocks += 1;
            coverage.bytes += block_bytes;
            self.told += block_bytes;
            if self.told >= PROGRESS_BYTES {
                report.progress(core::mem::take(&mut self.told));
            }
            let bytes = match next {
                Ok((_, bytes)) => bytes,
                Err(error) => {
                    let kind = FindingKind::BlockUnreadable { error };
                    report.tell(target.of_block(block, kind, Readable::OtherBlocks));
                    closed += 1;
                    continue;
                }
            };
            let Ok(page) = Page::new(bytes, target.fork.block_size()) else { continue };
            if self.is_sound(block, page, coverage) {
                visit(block, page, PageFaults::default(), coverage);
            } else {
                closed += u64::from(!self.look_closer(block, page, coverage, visit));
            }
        }
        closed
    }

    /// Whether there is nothing to say about the page, and tuples to look into: the usual case.
    #[inline]
    fn is_sound(&self, block: BlockNumber, page: Page<'_>, coverage: &mut Coverage) -> bool {
        if page.is_new() {
            return false;
        }
        if self.target.has_checksums {
            coverage.checksums += 1;
            if page.verify_checksum(block).is_err() {
                return false;
            }
        }
        if self.target.is_heap && page.header().special() != page.block_size().bytes_u16() {
            return false;
        }
        let mut is_sound = true;
        page.check_each(|_| is_sound = false);
        is_sound
    }

    /// Tells what is wrong with a page that is not sound, or new, and whether it has items to look at or
    /// rightly none.
    #[cold]
    fn look_closer(
        &mut self,
        block: BlockNumber,
        page: Page<'_>,
        coverage: &mut Coverage,
        visit: &mut impl FnMut(BlockNumber, Page<'_>, PageFaults<'_>, &mut Coverage),
    ) -> bool {
        if page.is_zero() {
            coverage.zero_blocks += 1;
            return true;
        }
        let mut again = core::mem::take(&mut self.again);
        let page = if self.target.is_online {
            again.resize(page.bytes().len(), 0);
            match self.target.fork.read_block(block, &mut again) {
                Ok(()) => Page::new(&again, page.block_size()).unwrap_or(page),
                Err(_) => page,
            }
        } else {
            page
        };
        let bad_before = coverage.bad_checksums;
        let is_open = self.tell(block, page, coverage);
        if is_open {
            let is_distrusted = coverage.bad_checksums != bad_before;
            let faults = PageFaults { items: &self.bad_items, is_distrusted };
            visit(block, page, faults, coverage);
        }
        self.again = again;
        is_open
    }

    /// Tells all there is to tell, and whether the items can be looked at.
    fn tell(&mut self, block: BlockNumber, page: Page<'_>, coverage: &mut Coverage) -> bool {
        let (target, report) = (self.target, self.report);
        if target.has_checksums
            && let Err(PageError::Checksum { expected, found }) = page.verify_checksum(block)
        {
            match self.shift.of(target, block) {
                Shifted::Found(by) => {
                    let kind = FindingKind::BytesShifted { by };
                    report.tell(target.of_block(block, kind, Readable::All));
                    return false;
                }
                Shifted::Known => return false,
                Shifted::No => {}
            }
            coverage.bad_checksums += 1;
            coverage.zero_checksums += u64::from(found == 0);
            let torn_at = if target.is_heap { torn_at(page) } else { None };
            let kind = FindingKind::Checksum { expected, found, torn_at };
            report.tell(target.of_block(block, kind, Readable::OtherBlocks));
        }
        let (errors, bad_items) = (&mut self.errors, &mut self.bad_items);
        errors.clear();
        bad_items.clear();
        page.check_each(|error| errors.push(error));
        let special = page.header().special();
        let is_special = !page.is_new() && special != page.block_size().bytes_u16();
        if errors.is_empty() && target.is_heap && is_special {
            errors.push(PageError::NotHeap { special });
        }
        let mut leads_to_items = !page.is_new();
        for error in errors {
            let kind = FindingKind::Page(*error);
            if let Some(item) = item_of(error) {
                if !matches!(error, PageError::ItemOverlap { .. }) {
                    bad_items.push(item);
                }
                report.tell(target.of_item_number(block, item, kind, Readable::OtherItems));
            } else {
                leads_to_items &= !matches!(
                    error,
                    PageError::Bounds { .. }
                        | PageError::LinePointers { .. }
                        | PageError::NewNotZero { .. }
                );
                report.tell(target.of_block(block, kind, Readable::OtherBlocks));
            }
        }
        leads_to_items
    }
}

const fn item_of(error: &PageError) -> Option<u16> {
    match error {
        PageError::ItemBadTarget { item, .. }
        | PageError::ItemEmptyTarget { item, .. }
        | PageError::ItemMisaligned { item, .. }
        | PageError::ItemOutside { item, .. }
        | PageError::ItemOverlap { item, .. }
        | PageError::ItemStored { item, .. }
        | PageError::ItemTooShort { item, .. } => Some(*item),
        _ => None,
    }
}

/// Where a heap page with a wrong checksum seems to be put together of two versions of itself: all
/// tuples on one side are possible, and all on the other are not.
fn torn_at(page: Page<'_>) -> Option<u16> {
    let (mut good, mut bad) = (None, None);
    let widen = |range: &mut Option<Range<u16>>, offset: u16| {
        let old = range.clone().unwrap_or(offset..offset);
        *range = Some(old.start.min(offset)..old.end.max(offset));
    };
    for (item, pointer) in page.items() {
        let Ok(Item::Normal(bytes)) = page.item(item) else { continue };
        let is_possible = HeapTuple::parse(bytes).is_ok_and(|tuple| {
            tuple.header().xmin().is_valid() && tuple.header().natts() <= MOST_ATTRIBUTES
        });
        widen(if is_possible { &mut good } else { &mut bad }, pointer.offset());
    }
    let (good, bad) = (good?, bad?);
    let (low, high) = if good.end < bad.start { (good, bad) } else { (bad, good) };
    if low.end >= high.start {
        return None;
    }
    // Disks write sectors, operating systems pages of their own: the larger unit is the likelier one.
    let units = [SYSTEM_PAGE, SECTOR];
    units.into_iter().find_map(|unit| {
        let boundary = high.start / unit * unit;
        (boundary > low.end).then_some(boundary)
    })
}

const MOST_ATTRIBUTES: u16 = 1664;
const SYSTEM_PAGE: u16 = 4096;
const SECTOR: u16 = 512;

/// Looks whether pages verify at another place, in a file whose length says that bytes were inserted
/// or removed.
struct Shift {
    is_possible: bool,
    known: Option<i32>,
    tries_left: u32,
}

enum Shifted {
    /// The page verifies so many bytes later, and is the first that does.
    Found(i32),
    /// It verifies where those before did.
    Known,
    No,
}

/// How far away a page is looked for.
const MOST_SHIFT: i32 = 512;

impl Shift {
    const fn new(target: &Target) -> Self {
        Self { is_possible: target.fork.trailing_bytes() != 0, known: None, tries_left: 16 }
    }

    fn of(&mut self, target: &Target, block: BlockNumber) -> Shifted {
        if !self.is_possible {
            return Shifted::No;
        }
        if let Some(by) = self.known {
            return if verifies(target, block, by..by + 1).is_some() {
                Shifted::Known
            } else {
                Shifted::No
            };
        }
        let Some(left) = self.tries_left.checked_sub(1) else { return Shifted::No };
        self.tries_left = left;
        match verifies(target, block, -MOST_SHIFT..MOST_SHIFT + 1) {
            Some(by) => {
                self.known = Some(by);
                Shifted::Found(by)
            }
            None => Shifted::No,
        }
    }
}

/// The first of the shifts with which the block verifies.
fn verifies(target: &Target, block: BlockNumber, shifts: Range<i32>) -> Option<i32> {
    let size = target.fork.block_size();
    let (file, offset) = target.fork.place(block);
    let start = offset.checked_add_signed(shifts.start.into())?;
    let span = usize::try_from(shifts.end - shifts.start - 1).ok()?;
    let mut bytes = vec![0; span + size.bytes()];
    let found = target.source.read_at(file, start, &mut bytes).ok()?;
    shifts.zip(bytes[..found].windows(size.bytes())).find_map(|(by, bytes)| {
        let page = Page::new(bytes, size).ok()?;
        let is_whole = !page.is_new() && page.verify_checksum(block).is_ok();
        is_whole.then_some(by)
    })
}
