//! A map that many threads use at once, in memory, with no lock.
//!
//! The slots are the sequential map's, in atomics, and with them the pages above: at rest, the pages
//! that [`write_to`](SharedMap::write_to) writes are those that the sequential map has after a vacuum.
//! Unlike there, what is recorded is carried upwards at once.
//!
//! **How a maximum is kept without a lock.** A thread that changed a node looks at the maximum above: it
//! works it out anew from the nodes below, puts it there if it differs, *and looks again*, until
//! there is nothing to put. (A node above the maximum is put there first, and then looked after.) Whoever changes a maximum last has looked at all nodes below after
//! that, and whoever changes a node last has looked at the maximum after that; so at rest the two agree.
//! The look is left out where the maximum is above both what the node was and what it is: then some other
//! node holds it up, and whoever lowers that one will look.
//!
//! **Invariant:** no answer is a block at or past the length, as it was at some time during the call.
//! After [`truncate`](SharedMap::truncate) returns, no slot past the new end is set, whatever
//! was being recorded meanwhile.
//!
//! **What a take guarantees:** between a take of a block and the next record of that block, no
//! other take returns it. Nothing more: the map is a hint, the block may have less space than it said,
//! and whoever was sent there must look.
mod cursor;
mod rows;

use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_base::BlockNumber;

pub use self::cursor::Cursor;
use self::rows::{LANES, Line, Node, Row, near_position};
use crate::lanes::Least;
use crate::sync::Length;
#[cfg(pgtoast_loom)]
use crate::sync::mutant;
#[cfg(pgtoast_loom)]
pub use crate::sync::mutant::{Mutant, seed};
use crate::{Access, Category, FreeSpaceMap, FsmPageMut, Geometry, MapPages, PageAddress};

/// A free space map for many threads. See the module for what it promises.
#[derive(Debug)]
pub struct SharedMap {
    geometry: Geometry,
    levels: Vec<Level>,
    capacity: u32,
    nblocks: Length,
}

/// The pages of one level.
#[derive(Debug)]
struct Level {
    slots: Row,
    groups: Row,
}

impl SharedMap {
    /// A map of a relation with `nblocks` blocks that know of no space, and room for `capacity` blocks:
    /// about one byte each. The length is cut to the capacity, and that to what the geometry reaches.
    #[must_use]
    pub fn new(geometry: Geometry, nblocks: u32, capacity: u32) -> Self {
        let reach = geometry.first_block(PageAddress { level: geometry.levels() - 1, page: 1 }, 0);
        let capacity = capacity.min(u32::try_from(reach).unwrap_or(u32::MAX)).max(1);
        let slots = geometry.slots() as usize;
        let mut nodes = capacity as usize;
        let mut levels = Vec::with_capacity(geometry.levels().into());
        for _ in 0..geometry.levels() {
            let pages = nodes.div_ceil(slots);
            let level = Level {
                slots: Row::new(pages, slots),
                groups: Row::new(pages, slots.div_ceil(LANES)),
            };
            levels.push(level);
            nodes = pages;
        }
        Self { geometry, levels, capacity, nblocks: Length::new(nblocks.min(capacity)) }
    }

    /// A map with what the pages of another say of the first `nblocks` blocks. Only the slots of level
    /// 0 are believed.
    ///
    /// # Errors
    /// The storage's.
    pub fn read_from<P: MapPages>(
        map: &mut FreeSpaceMap<P>,
        nblocks: u32,
        capacity: u32,
    ) -> Result<Self, P::Error> {
        let shared = Self::new(map.geometry(), nblocks, capacity.max(nblocks));
        for block in 0..shared.nblocks() {
            shared.record(BlockNumber::new(block), map.category(BlockNumber::new(block))?);
        }
        Ok(shared)
    }

    /// Writes the map as the pages of another, in place of what they hold. Exact when nobody changes
    /// the map meanwhile; else each slot is what it was at some time during the call.
    ///
    /// # Errors
    /// The storage's.
    pub fn write_to<P: MapPages>(&self, map: &mut FreeSpaceMap<P>) -> Result<(), P::Error> {
        let (geometry, nblocks) = (self.geometry, self.nblocks());
        map.rebuild(nblocks, [])?;
        for number in 0..geometry.page_count(nblocks) {
            let Some(address) = geometry.address_of(number) else { break };
            let lines = self.level(address.level).slots.page(address.page as usize);
            let within = geometry.slots_within(address, nblocks) as usize;
            map.with(address, Access::Change, |page: &mut FsmPageMut<'_>| {
                for (at, slot) in page.slots_mut().iter_mut().enumerate().take(within) {
                    *slot = lines[at / LANES].load(at % LANES);
                }
                page.rebuild();
            })?;
        }
        Ok(())
    }

    /// The relation's length in blocks.
    pub fn nblocks(&self) -> u32 {
        self.nblocks.load()
    }

    /// The most blocks there is room for; [`grow`](Self::grow) makes more.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// What the map says of a block.
    pub fn category(&self, block: BlockNumber) -> Category {
        match self.slot_of(block) {
            Some((page, slot)) => Category::new(self.slot(0, page, slot).load()),
            None => Category::NONE,
        }
    }

    /// Records what a block has. Says whether it could: a block past the end is not recorded.
    pub fn record(&self, block: BlockNumber, category: Category) -> bool {
        let Some((page, slot)) = self.slot_of(block) else { return false };
        if block.get() >= self.nblocks() {
            return false;
        }
        self.set(page, slot, category);
        #[cfg(pgtoast_loom)]
        if mutant::is(Mutant::LengthBeforeSlot) {
            return true;
        }
        // The relation may have become shorter after the first look; whoever cut it has then either
        // seen what was just set, or published the length before this look.
        let past_end = block.get() >= self.nblocks();
        if past_end {
            self.set(page, slot, Category::NONE);
        }
        !past_end
    }

    /// A block with at least `min`, and what the map says of it. Others may be told the same.
    pub fn search(&self, cursor: &mut Cursor, min: Category) -> Option<(BlockNumber, Category)> {
        let min = min.max(Category::new(1));
        for _ in 0..ATTEMPTS {
            let (page, slot) = self.find(cursor, min.get())?;
            let block = self.block(page, slot);
            cursor.move_past(block);
            let category = self.slot(0, page, slot).load();
            if category >= min.get() && block < self.nblocks() {
                return Some((BlockNumber::new(block), Category::new(category)));
            }
        }
        None
    }

    /// A block with at least `min`, kept from other takes until it is recorded again, and what the map
    /// said of it.
    pub fn take(&self, cursor: &mut Cursor, min: Category) -> Option<(BlockNumber, Category)> {
        let min = min.max(Category::new(1)).get();
        for _ in 0..ATTEMPTS {
            let (page, slot) = self.find(cursor, min)?;
            let block = self.block(page, slot);
            cursor.move_past(block);
            let node = self.slot(0, page, slot);
            let Some(old) = node.line.replace_if(node.lane, |seen| seen >= min, 0) else {
                continue;
            };
            self.carry_up(page, slot, old, 0);
            if block < self.nblocks() {
                return Some((BlockNumber::new(block), Category::new(old)));
            }
        }
        None
    }

    /// The relation got longer; says whether there is room for so many blocks.
    ///
    /// Only one thread may change the length at a time: whoever holds the lock on extending the
    /// relation.
    pub fn extend(&self, nblocks: u32) -> bool {
        if nblocks > self.capacity {
            return false;
        }
        if nblocks > self.nblocks() {
            self.nblocks.store(nblocks);
        }
        true
    }

    /// Makes room for more blocks.
    pub fn grow(&mut self, capacity: u32) {
        if capacity <= self.capacity {
            return;
        }
        let grown = Self::new(self.geometry, self.nblocks(), capacity);
        for block in (0..self.nblocks()).map(BlockNumber::new) {
            grown.record(block, self.category(block));
        }
        *self = grown;
    }

    /// The relation got shorter: forgets the blocks from `nblocks` on.
    ///
    /// Only one thread may change the length at a time.
    pub fn truncate(&self, nblocks: u32) {
        let before = self.nblocks();
        if nblocks >= before {
            return;
        }
        #[cfg(pgtoast_loom)]
        if mutant::is(Mutant::ClearBeforeLength) {
            self.clear(nblocks..before);
            self.nblocks.store(nblocks);
            return;
        }
        self.nblocks.store(nblocks);
        self.clear(nblocks..before);
    }

    /// Works out the maxima above the blocks of a range. There is nothing to do for it but after a
    /// fault in this code: it is the sequential map's vacuum, for those who want to be sure.
    pub fn vacuum(&self, blocks: Range<BlockNumber>) {
        let end = blocks.end.get().min(self.nblocks());
        let mut block = blocks.start.get();
        while block < end {
            let Some((page, slot)) = self.slot_of(BlockNumber::new(block)) else { return };
            self.settle(page, slot);
            let group_end = (slot / LANES + 1) * LANES;
            let next_slot = group_end.min(self.geometry.slots() as usize);
            block = self.block(page, next_slot);
        }
    }

    /// Maxima that are not those of the nodes below: none at rest.
    #[must_use]
    pub fn disagreements(&self) -> usize {
        let mut wrong = 0;
        for (number, level) in (0..).zip(&self.levels) {
            for page in 0..level.slots.pages() {
                for (group, line) in level.slots.page(page).iter().enumerate() {
                    wrong += usize::from(self.group(number, page, group).load() != line.max());
                }
                if let Some(above) = self.above(number, page) {
                    wrong += usize::from(above.load() != max_of(level.groups.page(page)));
                }
            }
        }
        wrong
    }

    /// A slot of level 0 with `min`, beginning where the cursor is.
    #[inline]
    fn find(&self, cursor: &Cursor, min: u8) -> Option<(usize, usize)> {
        let start = cursor.start(self.nblocks());
        let (page, slot) = self.slot_of(BlockNumber::new(start))?;
        let least = Least::new(min);
        if let Some(slot) = self.find_in_page(0, page, slot, least) {
            return Some((page, slot));
        }
        self.find_elsewhere(cursor, page, least)
    }

    /// The same when that page has none: over the pages above, up and down again.
    #[cold]
    fn find_elsewhere(
        &self,
        cursor: &Cursor,
        start: usize,
        least: Least,
    ) -> Option<(usize, usize)> {
        let slots = self.geometry.slots() as usize;
        let share = cursor.share_of(self.geometry.slots()) as usize;
        for _ in 0..ATTEMPTS {
            let (mut level, mut below) = (0, start);
            let (mut page, mut slot) = loop {
                level += 1;
                if level == self.geometry.levels() {
                    return None;
                }
                let (page, slot) = (below / slots, below % slots);
                // Behind the page that had none, and round to it.
                let next = if slot + 1 < slots { slot + 1 } else { 0 };
                match self.find_in_page(level, page, next, least) {
                    Some(slot) => break (page, slot),
                    None => below = page,
                }
            };
            // A page may have lost, meanwhile, what the one above promised: then begin again.
            loop {
                page = page * slots + slot;
                level -= 1;
                match self.find_in_page(level, page, share, least) {
                    Some(found) if level == 0 => return Some((page, found)),
                    Some(found) => slot = found,
                    None => break,
                }
            }
        }
        None
    }

    /// The first slot of a page with `least`, from `from` on and round.
    #[inline]
    fn find_in_page(&self, level: u8, page: usize, from: usize, least: Least) -> Option<usize> {
        let lines = self.level(level).slots.page(page);
        near_position(lines, from, least).or_else(|| self.find_far(level, page, from, least))
    }

    /// The same when the next few slots do not have it.
    fn find_far(&self, level: u8, page: usize, from: usize, least: Least) -> Option<usize> {
        let rows = self.level(level);
        let lines = rows.slots.page(page);
        let own = from / LANES;
        if let Some(lane) = lines[own].position(from % LANES, least) {
            return Some(own * LANES + lane);
        }
        let groups = rows.groups.page(page);
        // Groups behind this one, then those before it, then the part of it before `from`.
        for (mut next, end) in [(own + 1, lines.len()), (0, own + 1)] {
            while let Some(group) = position(groups, next, least).filter(|&group| group < end) {
                if let Some(lane) = lines[group].position(0, least) {
                    return Some(group * LANES + lane);
                }
                next = group + 1;
            }
        }
        None
    }

    #[inline]
    fn set(&self, page: usize, slot: usize, category: Category) {
        let node = self.slot(0, page, slot);
        let old = node.line.swap(node.lane, category.get());
        if old != category.get() {
            self.carry_up(page, slot, old, category.get());
        }
    }

    /// Makes the maxima above a slot agree with it, after it was changed from `old` to `new`.
    #[inline]
    fn carry_up(&self, mut page: usize, mut slot: usize, mut old: u8, mut new: u8) {
        for level in 0..self.geometry.levels() {
            let group = slot / LANES;
            let rows = self.level(level);
            let line = &rows.slots.page(page)[group..=group];
            let Some(change) = agree(self.group(level, page, group), line, old, new) else {
                return;
            };
            (old, new) = change;
            let Some(above) = self.above(level, page) else { return };
            let Some(change) = agree(above, rows.groups.page(page), old, new) else { return };
            (old, new) = change;
            let slots = self.geometry.slots() as usize;
            (page, slot) = (page / slots, page % slots);
        }
    }

    /// Looks at every maximum above a slot, whatever was found below.
    fn settle(&self, mut page: usize, mut slot: usize) {
        let slots = self.geometry.slots() as usize;
        for level in 0..self.geometry.levels() {
            let (rows, group) = (self.level(level), slot / LANES);
            // As if the highest there can be had gone from below.
            let line = &rows.slots.page(page)[group..=group];
            agree(self.group(level, page, group), line, u8::MAX, 0);
            let Some(above) = self.above(level, page) else { return };
            agree(above, rows.groups.page(page), u8::MAX, 0);
            (page, slot) = (page / slots, page % slots);
        }
    }

    fn clear(&self, blocks: Range<u32>) {
        let mut block = blocks.start;
        while block < blocks.end {
            let Some((page, slot)) = self.slot_of(BlockNumber::new(block)) else { return };
            let line = &self.level(0).slots.page(page)[slot / LANES];
            if slot.is_multiple_of(LANES) && line.is_clear() {
                let next = (slot + LANES).min(self.geometry.slots() as usize);
                block = self.block(page, next);
                continue;
            }
            self.set(page, slot, Category::NONE);
            block += 1;
        }
    }

    fn level(&self, level: u8) -> &Level {
        &self.levels[usize::from(level)]
    }

    /// The page of level 0 and its slot that stand for a block there is room for.
    #[inline]
    fn slot_of(&self, block: BlockNumber) -> Option<(usize, usize)> {
        let slots = self.geometry.slots();
        let block = block.get();
        (block < self.capacity).then_some(((block / slots) as usize, (block % slots) as usize))
    }

    /// The block a slot of level 0 stands for; [`u32::MAX`], which is none, past the last one.
    #[inline]
    fn block(&self, page: usize, slot: usize) -> u32 {
        u32::try_from(page * self.geometry.slots() as usize + slot).unwrap_or(u32::MAX)
    }

    #[inline]
    fn slot(&self, level: u8, page: usize, slot: usize) -> Node<'_> {
        let line = &self.level(level).slots.page(page)[slot / LANES];
        Node { line, lane: slot % LANES }
    }

    #[inline]
    fn group(&self, level: u8, page: usize, group: usize) -> Node<'_> {
        let line = &self.level(level).groups.page(page)[group / LANES];
        Node { line, lane: group % LANES }
    }

    /// The slot that stands for a page; `None` for the root.
    #[inline]
    fn above(&self, level: u8, page: usize) -> Option<Node<'_>> {
        let slots = self.geometry.slots() as usize;
        (level + 1 < self.geometry.levels())
            .then(|| self.slot(level + 1, page / slots, page % slots))
    }
}

/// Makes a maximum agree with the nodes below, one of which was changed from `old` to `new`. Gives the
/// highest that this thread found there and the last it put there; `None` if it put nothing.
#[inline]
fn agree(maximum: Node<'_>, below: &[Line], old: u8, new: u8) -> Option<(u8, u8)> {
    let seen = maximum.load();
    if seen > old && seen >= new {
        return None;
    }
    #[cfg(pgtoast_loom)]
    if mutant::is(Mutant::StopAtHigher) && seen >= new {
        return None;
    }
    let mut change = None;
    // What was raised above the maximum is the next one, unless others changed more: that will show.
    if new > seen && maximum.replace(seen, new) {
        change = Some((seen, new));
    }
    loop {
        let expected = max_of(below);
        let seen = maximum.load();
        if seen == expected {
            return change;
        }
        if maximum.replace(seen, expected) {
            let highest = change.map_or(seen, |(highest, _): (u8, u8)| highest.max(seen));
            change = Some((highest, expected));
        }
        #[cfg(pgtoast_loom)]
        if mutant::is(Mutant::NoSecondLook) {
            return change;
        }
    }
}

#[inline]
fn max_of(lines: &[Line]) -> u8 {
    lines.iter().map(Line::max).max().unwrap_or(0)
}

/// The first node of some lines with `least`, from `from` on.
#[inline]
fn position(lines: &[Line], from: usize, least: Least) -> Option<usize> {
    let mut lane = from % LANES;
    for (at, line) in lines.iter().enumerate().skip(from / LANES) {
        if let Some(found) = line.position(lane, least) {
            return Some(at * LANES + found);
        }
        lane = 0;
    }
    None
}

impl Node<'_> {
    #[inline]
    fn load(&self) -> u8 {
        self.line.load(self.lane)
    }

    /// Puts `new` where `current` is; says whether it was.
    #[inline]
    fn replace(&self, current: u8, new: u8) -> bool {
        self.line.replace_if(self.lane, |found| found == current, new).is_some()
    }
}

/// Times that a search goes on after others took what it found.
const ATTEMPTS: usize = 64;
