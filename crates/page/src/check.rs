//! What a server that is well writes, where [`Page::verify`] is what it puts up with on reading.
use core::ops::Range;

use pgtoast_base::{BlockSize, MAXALIGN, OffsetNumber, maxalign};

use crate::{LinePointer, LineState, Page, PageError, PageHeader, TupleHeader};

impl Page<'_> {
    /// The structure of the page, beyond what reading asks for: the first fault that
    /// [`check_each`](Self::check_each) finds.
    ///
    /// # Errors
    /// Any [`PageError`] but `Checksum`, `ItemMissing` and `Length`.
    pub fn check(&self) -> Result<(), PageError> {
        let mut first = Ok(());
        self.check_each(|error| first = first.and(Err(error)));
        first
    }

    /// Every fault in the structure of the page.
    ///
    /// - The header passes [`verify`](Self::verify), names this block size and layout version 4, and
    ///   `lower` leaves it whole.
    /// - In a page without special space, which is a heap's, line pointers are whole, stored items
    ///   are aligned, at least as long as a tuple header, inside the tuple space and apart from each
    ///   other; redirects lead to stored items; the rest name no bytes.
    ///
    /// Pages with special space belong to an index: what is between header and special space is not
    /// looked at, because only the index knows whether these are line pointers. The checksum is
    /// [`verify_checksum`](Self::verify_checksum)'s question, tuples are not looked into.
    ///
    /// Faults come in the order of the page. An item is reported once at most, and as overlapping
    /// only when it is sound by itself.
    pub fn check_each(&self, mut report: impl FnMut(PageError)) {
        if self.is_new() {
            if let Err(error) = self.verify() {
                report(error);
            }
        } else if self.check_header(&mut report) && self.is_heap() {
            self.check_items(&mut report);
        }
    }

    /// Every fault in the structure of the page, collected.
    #[cfg(feature = "alloc")]
    #[must_use]
    pub fn findings(&self) -> alloc::vec::Vec<PageError> {
        let mut findings = alloc::vec::Vec::new();
        self.check_each(|error| findings.push(error));
        findings
    }

    fn page_bytes(&self) -> u16 {
        self.block_size().bytes_u16()
    }

    /// Whether the header can be trusted so far that looking at the line pointers makes sense.
    fn check_header(&self, report: &mut impl FnMut(PageError)) -> bool {
        let header = self.header();
        let (lower, found) = (header.lower(), header.size_version());
        let expected = PageHeader::size_version_of(self.block_size());
        if found != expected {
            report(PageError::SizeVersion { expected, found });
        }
        if let Err(error) = self.verify_flags() {
            report(error);
        }
        let bounds = self.verify_bounds();
        if let Err(error) = bounds {
            report(error);
        }
        let pointer_bytes = usize::from(lower).checked_sub(PageHeader::LEN);
        // Index pages may keep anything of any length between header and `lower`.
        let whole = |bytes: usize| bytes.is_multiple_of(LinePointer::LEN) || !self.is_heap();
        if !pointer_bytes.is_some_and(whole) {
            report(PageError::LinePointers { lower });
        }
        bounds.is_ok() && pointer_bytes.is_some()
    }

    /// Whether there is no special space, which all other kinds of pages with items have.
    fn is_heap(&self) -> bool {
        self.header().special() == self.page_bytes()
    }

    /// The line pointers of a heap page whose header is sound.
    fn check_items(&self, report: &mut impl FnMut(PageError)) {
        // Items are placed from the end of the page down, so in most pages each ends where the one
        // before starts, and nothing need be remembered. `end` is where the last one started.
        let mut end = self.page_bytes();
        let mut in_order = true;
        for (item, pointer) in self.items() {
            if self.is_sound_tuple(pointer) {
                in_order &= pointer.offset() + pointer.len() <= end;
                end = pointer.offset();
            } else if let Err(error) = self.check_item(item, pointer) {
                report(error);
            }
        }
        if !in_order {
            self.check_overlaps(report);
        }
    }

    /// Whether a line pointer leads to a tuple that is sound by itself: what
    /// [`check_item`](Self::check_item) has nothing to say about.
    #[inline]
    fn is_sound_tuple(&self, pointer: LinePointer) -> bool {
        let (offset, len) = (pointer.offset(), pointer.len());
        pointer.state() == LineState::Normal
            && usize::from(offset).is_multiple_of(MAXALIGN)
            && offset >= self.header().upper()
            && offset + len <= self.header().special()
            && len >= TupleHeader::MIN_TUPLE_LEN
    }

    /// What is wrong with one line pointer by itself.
    fn check_item(&self, number: OffsetNumber, pointer: LinePointer) -> Result<(), PageError> {
        let item = number.get();
        let (offset, len) = (pointer.offset(), pointer.len());
        if pointer.state() != LineState::Normal && len != 0 {
            return Err(PageError::ItemStored { item, len });
        }
        match pointer.state() {
            LineState::Unused | LineState::Dead => Ok(()),
            LineState::Normal => {
                let (start, end) = (self.header().upper(), self.header().special());
                let needed = TupleHeader::MIN_TUPLE_LEN;
                if !usize::from(offset).is_multiple_of(MAXALIGN) {
                    Err(PageError::ItemMisaligned { item, offset })
                } else if offset < start || offset + len > end {
                    Err(PageError::ItemOutside { item, offset, len, start, end })
                } else if len < needed {
                    Err(PageError::ItemTooShort { item, len, needed })
                } else {
                    Ok(())
                }
            }
            LineState::Redirect => {
                let target = pointer.target();
                match self.line_pointer(target).map(LinePointer::state) {
                    Some(LineState::Normal) => Ok(()),
                    Some(_) => Err(PageError::ItemEmptyTarget { item, target: target.get() }),
                    None => {
                        let count = self.item_count();
                        Err(PageError::ItemBadTarget { item, target: target.get(), count })
                    }
                }
            }
        }
    }

    /// Items that share bytes with an earlier one, among those that are sound by themselves.
    fn check_overlaps(&self, report: &mut impl FnMut(PageError)) {
        let mut taken = Taken::default();
        for (item, pointer) in self.sound_tuples() {
            if let Some(unit) = taken.take(units(pointer)) {
                let mut earlier = self.sound_tuples().take_while(|(other, _)| *other < item);
                let other = earlier.find(|(_, other)| units(*other).contains(&unit));
                let other = other.map_or(item, |(other, _)| other).get();
                report(PageError::ItemOverlap { item: item.get(), other });
            }
        }
    }

    /// The items of an index page, all of which are stored: aligned, inside the tuple space and apart
    /// from each other.
    pub(crate) fn check_index_items(&self) -> Result<(), PageError> {
        let (start, end) = (self.header().upper(), self.header().special());
        let mut taken = Taken::default();
        for (number, pointer) in self.items() {
            let (item, offset, len) = (number.get(), pointer.offset(), pointer.len());
            if !usize::from(offset).is_multiple_of(MAXALIGN) {
                return Err(PageError::ItemMisaligned { item, offset });
            }
            if offset < start || len == 0 || offset + len > end {
                return Err(PageError::ItemOutside { item, offset, len, start, end });
            }
            if let Some(unit) = taken.take(units(pointer)) {
                let other = self.items().find(|(_, other)| units(*other).contains(&unit));
                let other = other.map_or(number, |(other, _)| other).get();
                return Err(PageError::ItemOverlap { item, other });
            }
        }
        Ok(())
    }

    fn sound_tuples(&self) -> impl Iterator<Item = (OffsetNumber, LinePointer)> {
        self.items().filter(|(_, pointer)| self.is_sound_tuple(*pointer))
    }
}

/// What an item takes up, in units of [`MAXALIGN`] bytes from the start of the page.
fn units(pointer: LinePointer) -> Range<usize> {
    let offset = usize::from(pointer.offset());
    offset / MAXALIGN..maxalign(offset + usize::from(pointer.len())) / MAXALIGN
}

/// One bit for each unit of the largest page.
struct Taken([u64; Self::WORDS]);

impl Default for Taken {
    fn default() -> Self {
        Self([0; Self::WORDS])
    }
}

impl Taken {
    const WORDS: usize = BlockSize::KIB_32.bytes() / MAXALIGN / 64;

    /// Takes some units, and returns one that was taken before.
    fn take(&mut self, units: Range<usize>) -> Option<usize> {
        let mut clash = None;
        let mut start = units.start;
        while start < units.end {
            // The part of the range that lies in one word.
            let word = start / 64;
            let end = units.end.min((word + 1) * 64);
            let mask = (u64::MAX >> (64 - (end - start))) << (start % 64);
            let both = self.0[word] & mask;
            if both != 0 && clash.is_none() {
                clash = Some(word * 64 + both.trailing_zeros() as usize);
            }
            self.0[word] |= mask;
            start = end;
        }
        clash
    }
}
