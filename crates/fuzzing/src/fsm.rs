//! The free space map under any pages and any program of operations.
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::shared::{Cursor, SharedMap};
use pgtoast_fsm::twin::TwinMap;
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};

use crate::input::Input;

/// Any bytes are the pages of a map: searches end soon, with a block of the relation that has what was
/// asked for, and one vacuum leaves nothing wrong.
pub fn fsm_image(data: &[u8]) {
    let [slots, levels, low, high, min, pages @ ..] = data else { return };
    let geometry = match levels >> 4 {
        0 => Geometry::of(BlockSize::KIB_1),
        1 => Geometry::of(BlockSize::KIB_8),
        _ => Geometry::custom(1 + u32::from(slots % 100), 1 + levels % 4).expect("in range"),
    };
    let reach = u64::from(geometry.slots()).pow(geometry.levels().into());
    let nblocks = u16::from_le_bytes([*low, *high]);
    let nblocks = u32::from(nblocks).min(u32::try_from(reach).unwrap_or(u32::MAX));
    let pages = pages.chunks(geometry.content_bytes());
    let pages = VecPages::from_pages(geometry, pages.take(MOST_PAGES));
    let mut map = FreeSpaceMap::new(geometry, pages);
    let needed_pages = geometry.page_count(nblocks).max(geometry.levels().into());
    for min in [*min, 1, 255].map(|min| Category::new(min.max(1))) {
        let Ok(report) = map.search(min, nblocks);
        assert!(u64::from(report.restarts) <= 2 * needed_pages, "{report:?}");
        if let Some(block) = report.block {
            assert!(block.get() < nblocks);
            let Ok(category) = map.category(block);
            assert!(category >= min);
        }
    }
    let Ok(()) = map.vacuum_all(nblocks);
    let Ok(()) = map.check(nblocks, |finding| panic!("after a vacuum: {finding}"));
    let highest = (0..nblocks).map(|block| {
        let Ok(category) = map.category(BlockNumber::new(block));
        category
    });
    let highest = highest.max().unwrap_or_default();
    let Ok(report) = map.search(highest, nblocks);
    assert_eq!(report.block.is_some(), highest > Category::NONE);
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Record { block: u16, category: u8 },
    RecordAndSearch { block: u16, category: u8, min: u8 },
    Search { min: u8 },
    Take { min: u8 },
    Vacuum { start: u16, end: u16 },
    Truncate { nblocks: u16 },
    Extend { nblocks: u16 },
}

impl Op {
    /// The operation that some bytes stand for: which one, then two bytes, then one more.
    fn of(bytes: &[u8]) -> Self {
        let mut input = Input::new(bytes);
        let (kind, number, byte) = (input.u8(), input.u16(), input.u8());
        let block = number >> 6;
        match kind % 10 {
            0..=2 => Self::Record { block, category: byte },
            3..=4 => Self::RecordAndSearch { block, category: byte, min: kind ^ byte },
            5 => Self::Search { min: byte },
            6 => Self::Take { min: byte },
            7 => Self::Vacuum { start: block, end: block.saturating_add(byte.into()) },
            8 => Self::Truncate { nblocks: block },
            _ => Self::Extend { nblocks: block },
        }
    }
}

/// A program of operations: the map as the server does it equals its plain twin in each byte, the map
/// that also sweeps and the shared one know exactly what was recorded, and at rest all write the same.
pub fn fsm_ops(data: &[u8]) {
    let mut input = Input::new(data);
    let (slots, levels) = (1 + u32::from(input.u8() % 100), 1 + input.u8() % 4);
    let writer = u32::from(input.u16()) << 16;
    let geometry = Geometry::custom(slots, levels).expect("in range");
    // The twin must be able to locate the block behind the last one.
    let most = slots.pow(levels.into()).min(MOST_BLOCKS) - 1;
    let mut maps = Maps::new(geometry, most, writer);
    for bytes in input.rest().chunks(OP_BYTES) {
        maps.apply(Op::of(bytes));
    }
    maps.settle();
}

struct Maps {
    geometry: Geometry,
    most: u32,
    model: Vec<u8>,
    twin: TwinMap,
    exact: FreeSpaceMap<VecPages>,
    sweeping: FreeSpaceMap<VecPages>,
    shared: SharedMap,
    cursor: Cursor,
}

impl Maps {
    fn new(geometry: Geometry, most: u32, writer: u32) -> Self {
        let empty = || FreeSpaceMap::new(geometry, VecPages::new(geometry));
        Self {
            geometry,
            most,
            model: Vec::new(),
            twin: TwinMap::new(geometry),
            exact: empty().without_sweep(),
            sweeping: empty(),
            shared: SharedMap::new(geometry, 0, most),
            cursor: Cursor::new(writer),
        }
    }

    fn nblocks(&self) -> u32 {
        u32::try_from(self.model.len()).expect("few blocks")
    }

    fn apply(&mut self, op: Op) {
        let nblocks = self.nblocks();
        match op {
            Op::Record { block, category } if nblocks > 0 => {
                self.record(u32::from(block) % nblocks, category);
            }
            Op::RecordAndSearch { block, category, min } if nblocks > 0 => {
                let (number, min) = (u32::from(block) % nblocks, Category::new(min.max(1)));
                let (block, category) = (BlockNumber::new(number), Category::new(category));
                let expected = self.twin.record_and_search(number, category, min, nblocks);
                let Ok(exact) = self.exact.record_and_search(block, category, min, nblocks);
                assert_eq!(exact.block.map(BlockNumber::get), expected);
                self.model[number as usize] = category.get();
                assert!(self.shared.record(block, category));
                let Ok(found) = self.sweeping.record_and_search(block, category, min, nblocks);
                self.judge(found.block, min);
            }
            Op::Record { .. } | Op::RecordAndSearch { .. } => {}
            Op::Search { min } => {
                let min = Category::new(min.max(1));
                let expected = self.twin.search(min, nblocks);
                let Ok(exact) = self.exact.search(min, nblocks);
                assert_eq!(exact.block.map(BlockNumber::get), expected);
                let Ok(found) = self.sweeping.search(min, nblocks);
                self.judge(found.block, min);
                let found = self.shared.search(&mut self.cursor, min);
                self.judge(found.map(|(block, _)| block), min);
            }
            Op::Take { min } => {
                let min = Category::new(min.max(1));
                let found = self.shared.take(&mut self.cursor, min);
                self.judge(found.map(|(block, _)| block), min);
                if let Some((block, category)) = found {
                    assert_eq!(category.get(), self.model[block.get() as usize]);
                    self.record(block.get(), 0);
                }
            }
            Op::Vacuum { start, end } => {
                let (start, end) =
                    (u32::from(start) % self.most.max(1), u32::from(end) % self.most.max(1));
                let blocks = || BlockNumber::new(start)..BlockNumber::new(end);
                self.twin.vacuum(start..end);
                let Ok(()) = self.exact.vacuum(blocks(), nblocks);
                let Ok(()) = self.sweeping.vacuum(blocks(), nblocks);
                self.shared.vacuum(blocks());
            }
            Op::Truncate { nblocks: to } => {
                let nblocks = nblocks.min(to.into());
                self.model.truncate(nblocks as usize);
                self.twin.truncate(nblocks);
                let Ok(()) = self.exact.truncate(nblocks);
                let Ok(()) = self.sweeping.truncate(nblocks);
                self.shared.truncate(nblocks);
            }
            Op::Extend { nblocks: to } => {
                let nblocks = nblocks.max(u32::from(to).min(self.most));
                self.model.resize(nblocks as usize, 0);
                assert!(self.shared.extend(nblocks));
            }
        }
        assert!(image(&self.exact) == self.twin.image(), "the twin's bytes differ");
    }

    fn record(&mut self, number: u32, category: u8) {
        let (block, category) = (BlockNumber::new(number), Category::new(category));
        self.model[number as usize] = category.get();
        self.twin.record(number, category);
        let Ok(()) = self.exact.record(block, category);
        let Ok(()) = self.sweeping.record(block, category);
        assert!(self.shared.record(block, category));
    }

    /// An answer of a map that knows everything: there is one exactly when there can be.
    fn judge(&self, found: Option<BlockNumber>, min: Category) {
        match found {
            Some(block) => assert!(self.model[block.get() as usize] >= min.get()),
            None => {
                // A sweep looks at a limited number of pages of level 0; these are fewer.
                let swept = self.nblocks().div_ceil(self.geometry.slots()) <= 64;
                assert!(!swept || self.model.iter().all(|&category| category < min.get()));
            }
        }
    }

    fn settle(&mut self) {
        let nblocks = self.nblocks();
        assert_eq!(self.shared.disagreements(), 0);
        for map in [&mut self.exact, &mut self.sweeping] {
            let Ok(()) = map.vacuum_all(nblocks);
        }
        assert!(image(&self.exact) == image(&self.sweeping));
        let mut written = FreeSpaceMap::new(self.geometry, VecPages::new(self.geometry));
        let Ok(()) = self.shared.write_to(&mut written);
        let mut rebuilt = FreeSpaceMap::new(self.geometry, VecPages::new(self.geometry));
        let blocks = (0..).map(BlockNumber::new).zip(self.model.iter().map(|&c| Category::new(c)));
        let Ok(()) = rebuilt.rebuild(nblocks, blocks);
        assert!(image(&written) == image(&rebuilt));
    }
}

fn image(map: &FreeSpaceMap<VecPages>) -> Vec<u8> {
    map.pages().iter().flatten().copied().collect()
}

/// The input decides how many pages there are; beyond this it is not worth the time.
const MOST_PAGES: usize = 200;
const MOST_BLOCKS: u32 = 1000;
const OP_BYTES: usize = 4;
