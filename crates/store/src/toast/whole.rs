//! A whole value that is not compressed, straight to its place.
//!
//! ```text
//! index    tid tid tid tid | tid tid tid tid | tid …      a piece at a time: where the chunks are
//! page     copied out as a whole, then let go             8 kB in one stream
//! chunks   each the one that is expected                  or the reader gives up
//! target   | chunk 0 | chunk 1 | chunk 2 | chunk 3 | …
//! ```
//! Chunks lie in a page from its end to its beginning, each behind a header that has to be looked at: memory
//! that nothing foresees, and that is waited for again and again. A page that is copied as a whole is waited
//! for once. So the second copy, which is made in the processor's cache, pays many times over.
//!
//! This way has no surprises, and answers no questions: whoever reads the chunks
//! [in order](super::ChunkReader) says what is wrong with a value that is not as it should be.
use core::ops::ControlFlow;

use pgtoast_base::{BlockSize, ItemPointer};
use pgtoast_nbtree::Key;
use pgtoast_page::{Item, Page};
use pgtoast_toast::{Chunk, ChunkPlan};
use smallvec::SmallVec;

use super::ToastStore;
use super::reader::{is_undone, read_ahead};
use crate::StoreError;

/// How many entries are read from the index at a time: half a megabyte of value.
const BATCH: usize = 256;
/// A page of the usual size, without asking for memory.
const USUAL_PAGE: usize = BlockSize::KIB_8.bytes();

/// Where a chunk is.
#[derive(Clone, Copy)]
struct Place {
    number: i32,
    tid: ItemPointer,
}

impl ToastStore {
    /// Fills `target`, which is as long as the value of the plan. Whether that went well: if not, what it
    /// holds means nothing.
    ///
    /// # Errors
    /// Those of files and pages.
    pub(crate) fn read_whole(
        &self,
        plan: &ChunkPlan,
        target: &mut [u8],
    ) -> Result<bool, StoreError> {
        let mut found = SmallVec::<[Place; BATCH]>::new();
        let mut copy = SmallVec::<[u8; USUAL_PAGE]>::new();
        let (mut next, mut read) = (0, 0);
        loop {
            found.clear();
            if !self.find_chunks(plan, &mut next, &mut found)? {
                return Ok(false);
            }
            read_ahead(&self.heap, found.iter().map(|place| place.tid));
            for of_page in found.chunk_by(|one, other| one.tid.block == other.tid.block) {
                let block = of_page[0].tid.block;
                let page = self.heap.read_page(block)?;
                let placed = if of_page.len() == 1 {
                    self.place_chunks(self.heap.view_page(&page, block)?, of_page, plan, target)
                } else {
                    copy.clear();
                    copy.extend_from_slice(&page);
                    drop(page);
                    self.place_chunks(self.heap.view_page(&copy, block)?, of_page, plan, target)
                };
                let Some(placed) = placed else { return Ok(false) };
                read += placed;
            }
            if found.len() < BATCH {
                return Ok(read == plan.len());
            }
        }
    }

    /// Where the chunks from `next` on are, as many as are read at a time. Whether none is missing before
    /// another, and none is there twice.
    fn find_chunks(
        &self,
        plan: &ChunkPlan,
        next: &mut i32,
        found: &mut SmallVec<[Place; BATCH]>,
    ) -> Result<bool, StoreError> {
        // From the lowest number there is to the highest, so that no chunk too many goes unnoticed.
        let from = if *next == 0 { i32::MIN } else { *next };
        let range = Key::new(plan.value_id(), from)..=Key::new(plan.value_id(), i32::MAX);
        let mut is_regular = true;
        let visited = self.index.visit(range, |entry, tid| {
            is_regular = entry.chunk_seq == *next;
            if !is_regular || found.len() == BATCH {
                return ControlFlow::Break(());
            }
            found.push(Place { number: *next, tid });
            *next += 1;
            ControlFlow::Continue(())
        });
        visited.map_err(|error| self.index_error(error))?;
        Ok(is_regular)
    }

    /// Copies chunks of a page to their places. How many bytes they have in all; `None` if one is not as it
    /// should be.
    fn place_chunks(
        &self,
        page: Page<'_>,
        places: &[Place],
        plan: &ChunkPlan,
        target: &mut [u8],
    ) -> Option<usize> {
        let mut placed = 0;
        for place in places {
            let (at, data) = plan.place_of(&self.chunk_at(page, *place)?).ok()??;
            target[at..at + data.len()].copy_from_slice(data);
            placed += data.len();
        }
        Some(placed)
    }

    /// The chunk at a place, if it has the number that the index has.
    #[inline]
    fn chunk_at<'p>(&self, page: Page<'p>, Place { number, tid }: Place) -> Option<Chunk<'p>> {
        let Item::Normal(tuple) = page.item(tid.item).ok()? else { return None };
        if is_undone(tuple) {
            return None;
        }
        let chunk = Chunk::parse(tuple, self.width, Some(tid)).ok()??;
        (chunk.seq == number).then_some(chunk)
    }
}
