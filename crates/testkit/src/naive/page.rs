//! A page that is changed, written from the rules and from nothing else: a list of line pointers, and
//! for each stored item where it starts.
//!
//! Source: `bufpage.c` (REL_18).

/// What a line pointer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Free for use.
    Unused,
    /// An item: its bytes, where it starts in the page, and whether an index marked it dead.
    Stored {
        /// The item.
        bytes: Vec<u8>,
        /// In bytes from the start of the page.
        offset: usize,
        /// Only in an index.
        dead: bool,
    },
    /// Leads to another item, counted from 1.
    Redirect(usize),
    /// Gone.
    Dead,
}

/// A page. Items are counted from 1; a refused change gives `None` and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Item 1 first.
    pub slots: Vec<Slot>,
    /// Where items end: the start of the special space.
    pub special: usize,
    /// Where the lowest item starts.
    pub upper: usize,
    /// The hint that a line pointer may be unused.
    pub has_free_lines: bool,
    /// The bytes of the whole page.
    pub size: usize,
}

const HEADER: usize = 24;
const POINTER: usize = 4;
const LEAST_TUPLE: usize = 24;

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(size: usize, special_len: usize) -> Self {
        let special = size - special_len.next_multiple_of(8);
        Self { slots: Vec::new(), special, upper: special, has_free_lines: false, size }
    }

    /// Bytes between line pointers and items.
    #[must_use]
    pub fn free(&self) -> usize {
        self.upper - HEADER - POINTER * self.slots.len()
    }

    /// Bytes for one more tuple.
    #[must_use]
    pub fn heap_free(&self) -> usize {
        let reusable = self.has_free_lines && self.slots.contains(&Slot::Unused);
        if self.slots.len() >= self.most_tuples() && !reusable {
            return 0;
        }
        self.free().saturating_sub(POINTER)
    }

    fn most_tuples(&self) -> usize {
        (self.size - HEADER) / (LEAST_TUPLE + POINTER)
    }

    /// Adds a tuple, and gives its number.
    pub fn add(&mut self, tuple: &[u8]) -> Option<usize> {
        let unused = self.slots.iter().position(|slot| *slot == Slot::Unused);
        let reused = unused.filter(|_| self.has_free_lines);
        let item = reused.unwrap_or(self.slots.len()) + 1;
        self.place(item, tuple)?;
        self.has_free_lines &= reused.is_some();
        Some(item)
    }

    /// Adds a tuple as that item.
    pub fn place(&mut self, item: usize, tuple: &[u8]) -> Option<()> {
        let is_next = item == self.slots.len() + 1;
        let is_unused = item > 0 && self.slots.get(item - 1) == Some(&Slot::Unused);
        let needed = tuple.len().next_multiple_of(8) + if is_next { POINTER } else { 0 };
        if !(is_next || is_unused)
            || tuple.len() < LEAST_TUPLE
            || item > self.most_tuples()
            || needed > self.free()
        {
            return None;
        }
        self.upper -= tuple.len().next_multiple_of(8);
        let slot = Slot::Stored { bytes: tuple.to_vec(), offset: self.upper, dead: false };
        if is_next {
            self.slots.push(slot);
        } else {
            self.slots[item - 1] = slot;
        }
        Some(())
    }

    /// Leads one item to another.
    pub fn redirect(&mut self, item: usize, target: usize) -> Option<()> {
        let to_tuple = target != item && matches!(self.slot(target)?, Slot::Stored { .. });
        let from = matches!(self.slot(item)?, Slot::Stored { .. } | Slot::Redirect(_));
        (to_tuple && from && !self.is_target(item)).then(|| {
            self.slots[item - 1] = Slot::Redirect(target);
        })
    }

    /// Marks an item as gone.
    pub fn set_dead(&mut self, item: usize) -> Option<()> {
        let allowed = matches!(self.slot(item)?, Slot::Stored { .. } | Slot::Redirect(_));
        (allowed && !self.is_target(item)).then(|| self.slots[item - 1] = Slot::Dead)
    }

    /// Frees an item.
    pub fn set_unused(&mut self, item: usize) -> Option<()> {
        let allowed = *self.slot(item)? != Slot::Unused;
        (allowed && !self.is_target(item)).then(|| self.slots[item - 1] = Slot::Unused)
    }

    /// Moves all items together; drops unused line pointers at the end if that is the rule.
    pub fn compact(&mut self, drop_trailing: bool) {
        self.move_together();
        while drop_trailing && self.slots.last() == Some(&Slot::Unused) {
            self.slots.pop();
        }
        self.has_free_lines = self.slots.contains(&Slot::Unused);
    }

    /// Drops unused line pointers at the end, but for the first of all.
    pub fn truncate(&mut self) {
        while self.slots.len() > 1 && self.slots.last() == Some(&Slot::Unused) {
            self.slots.pop();
        }
        self.has_free_lines = self.slots.contains(&Slot::Unused);
    }

    /// Adds an index item as that number.
    pub fn insert(&mut self, item: usize, bytes: &[u8]) -> Option<()> {
        let len = bytes.len().next_multiple_of(8);
        if item == 0 || item > self.slots.len() + 1 || len == 0 || len + POINTER > self.free() {
            return None;
        }
        self.upper -= len;
        let slot = Slot::Stored { bytes: bytes.to_vec(), offset: self.upper, dead: false };
        self.slots.insert(item - 1, slot);
        Some(())
    }

    /// Marks an index item as dead.
    pub fn mark_dead(&mut self, item: usize) -> Option<()> {
        self.slot(item)?;
        match &mut self.slots[item - 1] {
            Slot::Stored { dead: dead @ false, .. } => {
                *dead = true;
                Some(())
            }
            _ => None,
        }
    }

    /// Deletes index items, which come in ascending order.
    pub fn delete(&mut self, items: &[usize]) -> Option<()> {
        let ascending = items.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || items.iter().any(|item| self.slot(*item).is_none()) {
            return None;
        }
        for item in items.iter().rev() {
            let Slot::Stored { bytes, offset: gone, .. } = self.slots.remove(item - 1) else {
                return None;
            };
            let len = bytes.len().next_multiple_of(8);
            for slot in &mut self.slots {
                match slot {
                    Slot::Stored { offset, .. } if *offset < gone => *offset += len,
                    _ => {}
                }
            }
            self.upper += len;
        }
        if items.len() > 2 {
            self.move_together();
        }
        Some(())
    }

    fn slot(&self, item: usize) -> Option<&Slot> {
        self.slots.get(item.checked_sub(1)?)
    }

    fn is_target(&self, item: usize) -> bool {
        self.slots.contains(&Slot::Redirect(item))
    }

    /// Item 1 ends where the special space starts, and each next one ends where the one before starts.
    fn move_together(&mut self) {
        self.upper = self.special;
        for slot in &mut self.slots {
            if let Slot::Stored { bytes, offset, .. } = slot {
                self.upper -= bytes.len().next_multiple_of(8);
                *offset = self.upper;
            }
        }
    }
}
