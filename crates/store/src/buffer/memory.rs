//! The memory of the frames: asked for in large regions, as pages are used, and cut into pages.
//!
//! ```text
//! region   | ... | page | page | page | ...     starts where a huge page of the processor may
//! ```
//! A pool goes through far more memory than a processor remembers the places of, if it is in pages of 4 kB:
//! so the system is asked for huge ones. Reading large values takes a fifth less time then.
use std::sync::{Mutex, PoisonError};

use bytes::BytesMut;

/// A page's bytes, in a region that it shares. A frame that was not used yet has none.
pub(super) type PageBytes = BytesMut;

/// What a region takes, in bytes, if the pool needs as much.
const REGION: usize = 64 << 20;
/// What a huge page takes, of the size that systems make by themselves.
const HUGE_PAGE: usize = 2 << 20;

/// Gives each frame its bytes, once.
///
/// Its mutex is none of those that the model checker watches: nothing is waited for while it is held.
#[derive(Debug)]
pub(super) struct PageMemory {
    page_len: usize,
    left: Mutex<Left>,
}

#[derive(Debug)]
struct Left {
    region: BytesMut,
    pages: usize,
}

impl PageMemory {
    /// For so many pages.
    pub(super) fn new(page_len: usize, pages: usize) -> Self {
        Self { page_len, left: Mutex::new(Left { region: BytesMut::new(), pages }) }
    }

    /// A page of zeros.
    pub(super) fn page(&self) -> PageBytes {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.region.len() < self.page_len {
            let pages = left.pages.clamp(1, (REGION / self.page_len).max(1));
            left.region = region(pages * self.page_len, self.page_len);
        }
        left.pages = left.pages.saturating_sub(1);
        left.region.split_to(self.page_len)
    }
}

/// So many zeros, which start at a multiple of the page's length, or of a huge page's.
fn region(len: usize, page_len: usize) -> BytesMut {
    let align = if len < HUGE_PAGE { page_len } else { HUGE_PAGE };
    let mut region = BytesMut::zeroed(len + align);
    let offset = region.as_ptr().align_offset(align).min(align);
    let mut region = region.split_off(offset);
    region.truncate(len);
    advise_huge_pages(&mut region);
    region
}

/// Tells the system that huge pages are welcome. Whether there are any is its own affair.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "a system call that takes an address")]
fn advise_huge_pages(region: &mut [u8]) {
    if region.len() < HUGE_PAGE {
        return;
    }
    // SAFETY: the range is that of a slice that is ours alone, and the advice changes neither what its
    // memory holds nor what may be done with it. A range that the system does not like is an error.
    let _ = unsafe {
        rustix::mm::madvise(
            region.as_mut_ptr().cast(),
            region.len(),
            rustix::mm::Advice::LinuxHugepage,
        )
    };
}

#[cfg(any(not(target_os = "linux"), miri))]
fn advise_huge_pages(_: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeros_and_each_is_its_own() {
        for (page_len, pages) in [(1024, 3), (8192, 1), (8192, 20_000), (32_768, 70)] {
            let memory = PageMemory::new(page_len, pages);
            let mut given: Vec<_> = (0..pages + 1).map(|_| memory.page()).collect();
            for (number, page) in given.iter_mut().enumerate() {
                assert_eq!(page.len(), page_len);
                assert!(page.iter().all(|byte| *byte == 0), "page {number} of {page_len} bytes");
                page.fill(1);
            }
            assert_eq!(given[0].as_ptr().align_offset(page_len), 0);
        }
    }
}
