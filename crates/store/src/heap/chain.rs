//! The versions of a row in one page, from the line pointer that is the row's address.
//!
//! ```text
//! line pointer   1 redirect -> 3      3 tuple, HOT updated -> 4      4 tuple, heap only
//!                `- the address       `- its xmax is the xmin of ----^
//! ```
//! A link counts only if both ends agree on the transaction: else the line pointer was freed and
//! taken by another row meanwhile. Source: `heapam.c`, `heap_hot_search_buffer`; `pruneheap.c`,
//! `heap_get_root_tuples` (REL_18).
use pgtoast_base::{BlockNumber, OffsetNumber, Xid};
use pgtoast_page::{HeapTuple, LinePointer, LineState, Page};

/// The versions of a row that one page has, oldest first.
pub(super) struct Chain<'a> {
    page: Page<'a>,
    block: BlockNumber,
    next: Option<OffsetNumber>,
    /// What the next version's xmin has to be.
    inserted_by: Option<Xid>,
    at_address: bool,
    /// Links that may still be followed: there are no more versions than items.
    left: u16,
}

impl<'a> Chain<'a> {
    /// The versions from `item` of a page on, which is block `block`.
    #[inline]
    pub(super) fn new(page: Page<'a>, block: BlockNumber, item: OffsetNumber) -> Self {
        let left = page.item_count().saturating_add(1);
        Self { page, block, next: Some(item), inserted_by: None, at_address: true, left }
    }

    /// The same, if the version that begins the chain was inserted by `xmin`.
    pub(super) fn inserted_by(mut self, xmin: Xid) -> Self {
        self.inserted_by = Some(xmin);
        self
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = (OffsetNumber, HeapTuple<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let item = self.next.take()?;
            self.left = self.left.checked_sub(1)?;
            let pointer = self.page.line_pointer(item)?;
            match pointer.state() {
                LineState::Redirect if self.at_address => {
                    self.at_address = false;
                    self.next = Some(pointer.target());
                }
                LineState::Normal => {
                    let tuple = tuple_of(self.page, pointer)?;
                    let header = tuple.header();
                    match self.inserted_by {
                        Some(xmin) if xmin != header.xmin() => return None,
                        // No row has this address: the item is in the middle of a chain.
                        None if self.at_address && header.is_heap_only() => return None,
                        _ => {}
                    }
                    self.at_address = false;
                    let next = header.ctid();
                    if header.is_hot_updated() && next.block == self.block {
                        self.next = Some(next.item);
                        self.inserted_by = Some(header.xmax());
                    }
                    return Some((item, tuple));
                }
                _ => return None,
            }
        }
    }
}

/// The tuple that a line pointer leads to; `None` if there is none, or none that is whole.
#[inline]
pub(super) fn tuple_at(page: Page<'_>, item: OffsetNumber) -> Option<HeapTuple<'_>> {
    let pointer = page.line_pointer(item)?;
    if pointer.state() == LineState::Normal { tuple_of(page, pointer) } else { None }
}

/// The tuple that a line pointer names, if it is one.
#[inline]
fn tuple_of(page: Page<'_>, pointer: LinePointer) -> Option<HeapTuple<'_>> {
    let start = usize::from(pointer.offset());
    let bytes = page.bytes().get(start..start + usize::from(pointer.len()))?;
    HeapTuple::new(bytes).ok()
}

/// For each item of a page, the address that its chain begins at; 0 for those that are on none.
pub(super) fn addresses(page: Page<'_>, block: BlockNumber, target: &mut Vec<u16>) {
    target.clear();
    target.resize(page.item_count().into(), 0);
    for (address, pointer) in page.items() {
        let begins = match pointer.state() {
            LineState::Redirect => true,
            LineState::Normal => {
                tuple_at(page, address).is_some_and(|tuple| !tuple.header().is_heap_only())
            }
            LineState::Unused | LineState::Dead => false,
        };
        if !begins {
            continue;
        }
        for (item, _) in Chain::new(page, block, address) {
            if let Some(slot) = item.index().and_then(|index| target.get_mut(index)) {
                *slot = address.get();
            }
        }
    }
}
