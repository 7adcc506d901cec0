//! What is wrong with a map: a page with itself, and with the slot above it.
use crate::pages::{Access, MapPages};
use crate::{Finding, FreeSpaceMap, FsmPageMut, Geometry};

impl<P: MapPages> FreeSpaceMap<P> {
    /// Tells everything that is wrong with the map of a relation with `nblocks` blocks, page by page.
    ///
    /// # Errors
    /// The storage's.
    pub fn check(&mut self, nblocks: u32, mut tell: impl FnMut(Finding)) -> Result<(), P::Error> {
        let geometry = self.geometry();
        for number in 0..self.pages_mut().page_count()? {
            let Some(address) = geometry.address_of(number.into()) else { break };
            let within = geometry.slots_within(address, nblocks);
            let root = self.with(address, Access::Read, |page| {
                check_page(number, page, geometry, within, &mut tell);
                page.root()
            })?;
            let (Some(expected), Some((parent, slot))) = (root, geometry.parent(address)) else {
                continue;
            };
            let found = self.with(parent, Access::Read, |page| page.as_page().slot(slot))?;
            if let Some(found) = found.filter(|&found| found != expected) {
                let page = u32::try_from(geometry.physical(parent)).unwrap_or(u32::MAX);
                let (found, expected) = (found.get(), expected.get());
                tell(Finding::ParentSlot { page, slot, found, expected });
            }
        }
        Ok(())
    }
}

/// Tells what is wrong with a page of its own, of which the first `within` slots are those of blocks.
fn check_page(
    number: u32,
    page: &FsmPageMut<'_>,
    geometry: Geometry,
    within: u32,
    tell: &mut impl FnMut(Finding),
) {
    let view = page.as_page();
    let (inner_nodes, slots) = (geometry.inner_nodes(), geometry.slots());
    // Nearly all nodes are right, and whether all are takes a few vector operations. Those at the end lack
    // children and are looked at one by one in any case.
    let nodes = view.nodes();
    let pairs = nodes.get(1..).unwrap_or_default().as_chunks().0;
    let difference =
        |both: u8, (&found, &[left, right]): (&u8, &[u8; 2])| both | (found ^ left.max(right));
    let is_even = nodes.iter().take(inner_nodes).zip(pairs).fold(0, difference) == 0;
    let right = if is_even { pairs.len().min(inner_nodes) } else { 0 };
    for (node, &found) in (0..).zip(nodes).take(inner_nodes).skip(right) {
        let expected = view.expected(node as usize);
        if found != expected {
            tell(Finding::InnerNode { page: number, node, found, expected });
        }
    }
    // One past the last slot is where a search that took the last one leaves off.
    if !u32::try_from(view.next_slot()).is_ok_and(|next| next <= slots) {
        tell(Finding::NextSlot { page: number, found: view.next_slot() });
    }
    let past_end = nodes.get(inner_nodes..).and_then(|slots| slots.get(within as usize..));
    if past_end.is_some_and(|slots| slots.iter().fold(0, |any, slot| any | slot) == 0) {
        return;
    }
    for slot in within..slots {
        let found = view.slot(slot).get();
        if found != 0 {
            tell(Finding::PastEnd { page: number, slot, found });
        }
    }
}
