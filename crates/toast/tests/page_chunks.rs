//! Which tuples of a page a reader of TOAST looks at: those whose insertion was not undone, deleted or
//! not, since only a row that may be seen leads to them.
mod common;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{Infomask, Page, PageError};
use pgtoast_toast::{ToastError, ValueIdWidth, page_chunks};

const FILE: &[u8] = include_bytes!("data/external.toast");

/// The first page of a server's, and where its first tuple is.
fn page() -> (Vec<u8>, usize) {
    let bytes = FILE[..BlockSize::default().bytes()].to_vec();
    let (_, page) = common::pages(&bytes).next().expect("a page");
    let (_, pointer) = page.items().next().expect("a tuple");
    let at = usize::from(pointer.offset());
    (bytes, at)
}

/// The numbers of the page's chunks.
fn seqs(bytes: &[u8]) -> Vec<Result<i32, ToastError>> {
    let page = Page::parse(bytes, BlockSize::default()).expect("a page");
    let chunks = page_chunks(&page, BlockNumber::new(7), ValueIdWidth::Oid);
    chunks.map(|chunk| chunk.map(|chunk| chunk.seq)).collect()
}

#[test]
fn an_undone_insertion_is_left_out_and_a_deletion_is_not() {
    let all = [Ok(0), Ok(1), Ok(2), Ok(3)];
    for (infomask, xmin, is_read) in [
        (Infomask::XMIN_COMMITTED | Infomask::XMAX_INVALID, 700, true),
        (Infomask::XMIN_COMMITTED | Infomask::XMAX_COMMITTED, 700, true),
        (Infomask::XMIN_FROZEN, 700, true),
        (Infomask::empty(), 700, true),
        (Infomask::XMIN_INVALID, 700, false),
        (Infomask::empty(), 0_u32, false),
    ] {
        let (mut bytes, at) = page();
        bytes[at..at + 4].copy_from_slice(&xmin.to_le_bytes());
        let infomask = infomask | Infomask::HAS_VARWIDTH;
        bytes[at + 20..at + 22].copy_from_slice(&infomask.bits().to_le_bytes());
        let expected = if is_read { &all[..] } else { &all[1..] };
        assert_eq!(seqs(&bytes), expected, "{infomask:?}");
    }
}

#[test]
fn a_broken_item_is_an_error_with_its_block_and_the_others_are_read() {
    let (mut bytes, _) = page();
    // The line pointer of item 1 names bytes behind the page.
    bytes[24..28].copy_from_slice(&(8000_u32 | 1 << 15 | 500 << 17).to_le_bytes());
    let found = seqs(&bytes);
    let Err(ToastError::Page { block, error: PageError::ItemOutside { item: 1, .. } }) = found[0]
    else {
        panic!("{found:?}")
    };
    assert_eq!((block, &found[1..]), (BlockNumber::new(7), &[Ok(1), Ok(2), Ok(3)][..]));
}

#[test]
fn a_page_that_was_never_used_has_no_chunks() {
    assert_eq!(seqs(&[0; 8192]), []);
}
