//! One page is vacuumed, under its exclusive latch.
use pgtoast_base::{OffsetNumber, Xid};
use pgtoast_page::{
    Infomask, LineState, Page, PageError, PageMut, TransactionStatus, TupleHeader, VacuumState,
    VisibilityBits, XidStatus,
};

use crate::heap::chain::tuple_at;
use crate::heap::hints;

/// What is older than what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoffs {
    /// Older transactions are over for everybody.
    pub(super) horizon: Xid,
    /// Tuples of older transactions are frozen.
    pub(super) freeze: Xid,
}

/// What a page holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contents {
    pub(super) tuples: u32,
    pub(super) recently_dead: u32,
    pub(super) dead_items: u32,
    /// Whether there is anything but unused and dead line pointers.
    pub(super) has_tuples: bool,
    /// What may be promised of the page, dead line pointers apart.
    pub(super) bits: VisibilityBits,
    /// The oldest id that is not frozen, or the one given.
    pub(super) oldest: Xid,
}

impl Contents {
    /// What there is to say of a page, whose hints are as good as can be.
    #[doc(alias = "heap_page_is_all_visible")]
    pub(super) fn of(
        page: Page<'_>,
        horizon: Xid,
        oldest: Xid,
        status: &impl TransactionStatus,
    ) -> Self {
        let mut contents = Self {
            tuples: 0,
            recently_dead: 0,
            dead_items: 0,
            has_tuples: false,
            bits: VisibilityBits::all(),
            oldest,
        };
        for (item, pointer) in page.items() {
            match pointer.state() {
                LineState::Unused => {}
                LineState::Redirect => contents.has_tuples = true,
                LineState::Dead => contents.dead_items += 1,
                LineState::Normal => match tuple_at(page, item) {
                    Some(tuple) => contents.count(tuple.header(), horizon, status),
                    None => contents.bits = VisibilityBits::empty(),
                },
            }
        }
        contents
    }

    fn count(&mut self, header: &TupleHeader, horizon: Xid, status: &impl TransactionStatus) {
        self.has_tuples = true;
        self.tuples += 1;
        match header.vacuum_state(horizon, status) {
            VacuumState::Live => {
                if !header.is_frozen() && !header.xmin().precedes(horizon) {
                    self.bits = VisibilityBits::empty();
                }
            }
            state => {
                self.bits = VisibilityBits::empty();
                let is_dead = matches!(state, VacuumState::RecentlyDead | VacuumState::Dead);
                self.recently_dead += u32::from(is_dead);
            }
        }
        for xid in unfrozen(header).into_iter().flatten() {
            self.bits.remove(VisibilityBits::ALL_FROZEN);
            if xid.precedes(self.oldest) {
                self.oldest = xid;
            }
        }
    }
}

/// The ids in a tuple's header that a wrap of the counter would hurt.
fn unfrozen(header: &TupleHeader) -> [Option<Xid>; 2] {
    let xmin = (!header.is_frozen() && header.xmin().is_normal()).then(|| header.xmin());
    let xmax = header.xmax().is_normal().then(|| header.xmax());
    [xmin, xmax]
}

/// Freezes what is old enough on a page, and says in how many tuples.
#[doc(alias = "heap_prepare_freeze_tuple")]
pub(super) fn freeze(
    page: &mut PageMut<'_>,
    limit: Xid,
    status: &impl TransactionStatus,
) -> Result<u32, PageError> {
    let mut frozen = 0;
    for item in 1..=page.page().item_count() {
        let item = OffsetNumber::new(item);
        let Some(tuple) = tuple_at(page.page(), item) else { continue };
        let header = tuple.header();
        let freezes = |xid: Xid| xid.is_normal() && xid.precedes(limit);
        let xmin = !header.is_frozen()
            && freezes(header.xmin())
            && over(header.xmin(), header.infomask(), Infomask::XMIN_COMMITTED, status)
                == XidStatus::Committed;
        let xmax = freezes(header.xmax())
            && (header.infomask().contains(Infomask::XMAX_INVALID)
                || over(header.xmax(), header.infomask(), Infomask::XMAX_COMMITTED, status)
                    == XidStatus::Aborted);
        if !xmin && !xmax {
            continue;
        }
        let mut tuple = page.tuple_mut(item)?;
        if xmax {
            hints::forget_end(tuple.header_mut());
        }
        if xmin {
            tuple.header_mut().set_frozen();
        }
        frozen += 1;
    }
    Ok(frozen)
}

fn over(
    xid: Xid,
    known: Infomask,
    committed: Infomask,
    status: &impl TransactionStatus,
) -> XidStatus {
    if known.contains(committed) { XidStatus::Committed } else { status.status(xid) }
}

/// Frees the dead line pointers of a page, and says how many there were.
#[doc(alias = "lazy_vacuum_heap_page")]
pub(super) fn free_dead(page: &mut PageMut<'_>) -> Result<u32, PageError> {
    let mut freed = 0;
    for item in 1..=page.page().item_count() {
        let item = OffsetNumber::new(item);
        let state = page.page().line_pointer(item).map(pgtoast_page::LinePointer::state);
        if state == Some(LineState::Dead) {
            page.set_unused(item)?;
            freed += 1;
        }
    }
    if freed > 0 {
        page.truncate_line_pointers()?;
    }
    Ok(freed)
}
