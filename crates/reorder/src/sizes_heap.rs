//! Which transaction is the largest, asked whenever the limit is reached and changed with every change.
//!
//! A binary heap with the largest on top that also knows where each number is. A transaction that grows is
//! compared with its parent, and mostly stays where it is.
use alloc::vec::Vec;

/// Sizes by number; what has size 0 is not in it.
#[derive(Debug, Default)]
pub(crate) struct SizesHeap {
    heap: Vec<(usize, u32)>,
    /// Where each number is in the heap.
    places: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl SizesHeap {
    /// The largest size, and whose it is.
    pub(crate) fn largest(&self) -> Option<(usize, u32)> {
        self.heap.first().copied()
    }

    /// Number `number` has that size from now on.
    pub(crate) fn set(&mut self, number: u32, size: usize) {
        let index = number as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        let at = match (self.places[index], size) {
            (NOWHERE, 0) => return,
            (NOWHERE, _) => {
                self.heap.push((size, number));
                self.heap.len() - 1
            }
            (at, 0) => {
                let at = at as usize;
                self.heap.swap_remove(at);
                self.places[index] = NOWHERE;
                if at == self.heap.len() {
                    return;
                }
                at
            }
            (at, _) => {
                self.heap[at as usize].0 = size;
                at as usize
            }
        };
        let at = self.up(at);
        self.down(at);
    }

    fn put(&mut self, at: usize, entry: (usize, u32)) {
        self.heap[at] = entry;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "numbers are u32, and each is in it once"
        )]
        let place = at as u32;
        self.places[entry.1 as usize] = place;
    }

    /// Lets an entry rise, and says where it is then.
    fn up(&mut self, mut at: usize) -> usize {
        let entry = self.heap[at];
        while at > 0 && self.heap[(at - 1) / 2] < entry {
            self.put(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.put(at, entry);
        at
    }

    fn down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let larger = match (self.heap.get(left), self.heap.get(right)) {
                (Some(l), Some(r)) if r > l => right,
                (Some(_), _) => left,
                (None, _) => break,
            };
            if self.heap[larger] <= entry {
                break;
            }
            self.put(at, self.heap[larger]);
            at = larger;
        }
        self.put(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use pgtoast_testkit::Rng;

    #[test]
    fn the_largest_is_the_one_that_a_search_through_all_finds() {
        let (mut heap, mut all, mut rng) = (SizesHeap::default(), BTreeMap::new(), Rng::new(1));
        for _ in 0..20_000 {
            let number = u32::try_from(rng.below(50)).expect("small");
            let size = if rng.chance(30) { 0 } else { rng.below(40) };
            heap.set(number, size);
            all.insert(number, size);
            let largest = all.iter().map(|(number, size)| (*size, *number)).max();
            assert_eq!(heap.largest(), largest.filter(|(size, _)| *size > 0));
        }
    }
}
