//! The chunks of one page of a TOAST relation.
use pgtoast_base::{BlockNumber, ItemPointer};
use pgtoast_page::{Item, Page};

use crate::{Chunk, ToastError, ValueIdWidth};

const INFOMASK_AT: usize = 20;
/// Both bits together mean frozen, the second alone that the inserting transaction failed.
const XMIN_COMMITTED: u16 = 0x0100;
const XMIN_INVALID: u16 = 0x0200;

/// The plain chunks of `page`, which is block `block`, in the order of their line pointers: what a scan
/// of a TOAST relation from front to back is made of.
///
/// Chunks that were deleted are among them, for as long as vacuum leaves them: a reader of TOAST looks
/// at no deletion, since it comes from a row that it may see. Those whose inserting transaction is
/// known to have failed, by the tuple's hint bits, are not, and neither are tuples of direct values.
///
/// An error speaks of one item; the iterator goes on behind it.
pub fn page_chunks<'a>(
    page: &Page<'a>,
    block: BlockNumber,
    width: ValueIdWidth,
) -> impl Iterator<Item = Result<Chunk<'a>, ToastError>> + use<'a> {
    let page = *page;
    page.items().filter_map(move |(item, _)| match page.item(item) {
        Ok(Item::Normal(tuple)) if !inserter_failed(tuple) => {
            Chunk::parse(tuple, width, Some(ItemPointer::new(block, item))).transpose()
        }
        Ok(_) => None,
        Err(error) => Some(Err(ToastError::Page { block, error })),
    })
}

fn inserter_failed(tuple: &[u8]) -> bool {
    tuple.get(INFOMASK_AT..INFOMASK_AT + 2).is_some_and(|bytes| {
        u16::from_le_bytes([bytes[0], bytes[1]]) & (XMIN_COMMITTED | XMIN_INVALID) == XMIN_INVALID
    })
}
