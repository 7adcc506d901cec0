//! The chunks of one page of a TOAST relation.
use pgtoast_base::{BlockNumber, ItemPointer, Xid};
use pgtoast_page::{HeapTuple, Item, Page, TransactionStatus, XidStatus};

use crate::{Chunk, ToastError, ValueIdWidth};

/// The plain chunks of `page`, which is block `block`, in the order of their line pointers: what a scan
/// of a TOAST relation from front to back is made of.
///
/// Chunks that were deleted are among them, for as long as vacuum leaves them: a reader of TOAST looks
/// at no deletion, since it comes from a row that it may see. Those of an insertion that was undone, by
/// the tuple's hint bits, are not, and neither are tuples of direct values: see
/// [`TupleHeader::is_toast_visible`](pgtoast_page::TupleHeader::is_toast_visible).
///
/// An error speaks of one item; the iterator goes on behind it.
pub fn page_chunks<'a>(
    page: &Page<'a>,
    block: BlockNumber,
    width: ValueIdWidth,
) -> impl Iterator<Item = Result<Chunk<'a>, ToastError>> + use<'a> {
    let page = *page;
    page.items().filter_map(move |(item, _)| match page.item(item) {
        Ok(Item::Normal(tuple)) if is_visible(tuple) => {
            Chunk::parse(tuple, width, Some(ItemPointer::new(block, item))).transpose()
        }
        Ok(_) => None,
        Err(error) => Some(Err(ToastError::Page { block, error })),
    })
}

/// Too short for a header counts as visible, to be reported as no chunk.
#[inline]
fn is_visible(tuple: &[u8]) -> bool {
    HeapTuple::new(tuple).map_or(true, |tuple| tuple.header().is_toast_visible(&LongOver))
}

/// What became of the transactions that TOAST's rule asks for: none but a vacuum that moved tuples, in
/// a release before 9.0.
struct LongOver;

impl TransactionStatus for LongOver {
    fn status(&self, _xid: Xid) -> XidStatus {
        XidStatus::Committed
    }

    fn update_xid(&self, _multi: Xid) -> Option<Xid> {
        None
    }
}
