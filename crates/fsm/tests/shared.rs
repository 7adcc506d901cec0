//! The shared map on one thread, against the sequential one, and on many threads, at rest.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small, or cut on purpose")]
#![cfg(not(pgtoast_loom))]
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::shared::{Cursor, SharedMap};
use pgtoast_fsm::{Category, FreeSpaceMap, Geometry, VecPages};
use proptest::prelude::*;

fn pages(geometry: Geometry, map: &SharedMap) -> VecPages {
    let mut written = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let Ok(()) = map.write_to(&mut written);
    written.into_pages()
}

fn sequential(geometry: Geometry, map: &SharedMap) -> VecPages {
    let mut sequential = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    for block in (0..map.nblocks()).map(BlockNumber::new) {
        let Ok(()) = sequential.record(block, map.category(block));
    }
    let Ok(()) = sequential.vacuum_all(map.nblocks());
    sequential.into_pages()
}

#[derive(Clone, Debug)]
enum Op {
    Record(u32, u8),
    Take(u8),
    Search(u8),
    Truncate(u32),
    Extend(u32),
    Vacuum(u32, u32),
    Grow(u32),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let block = 0..2000u32;
    let op = prop_oneof![
        8 => (block.clone(), any::<u8>()).prop_map(|(block, free)| Op::Record(block, free)),
        4 => (1u8..).prop_map(Op::Take),
        4 => (1u8..).prop_map(Op::Search),
        1 => block.clone().prop_map(Op::Truncate),
        2 => block.clone().prop_map(Op::Extend),
        1 => (block.clone(), block.clone()).prop_map(|(a, b)| Op::Vacuum(a, b)),
        1 => block.prop_map(Op::Grow),
    ];
    prop::collection::vec(op, 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
    #[test]
    fn on_one_thread_it_finds_what_there_is_and_nothing_else(
        slots in prop_oneof![1u32..9, Just(70u32), Just(300)], levels in 1u8..=4, ops in ops(),
        writer in any::<u32>()
    ) {
        let geometry = Geometry::custom(slots, levels).expect("in range");
        let mut map = SharedMap::new(geometry, 100, 500);
        let mut model = vec![0u8; map.nblocks() as usize];
        let mut cursor = Cursor::new(writer);
        for op in ops {
            match op {
                Op::Record(number, free) => {
                    let recorded = map.record(BlockNumber::new(number), Category::new(free));
                    prop_assert_eq!(recorded, (number as usize) < model.len());
                    if recorded {
                        model[number as usize] = free;
                    }
                }
                Op::Take(min) | Op::Search(min) => {
                    let taking = matches!(op, Op::Take(_));
                    let min = Category::new(min);
                    let found =
                        if taking { map.take(&mut cursor, min) } else { map.search(&mut cursor, min) };
                    let any = model.iter().any(|&free| free >= min.get());
                    prop_assert_eq!(found.is_some(), any);
                    if let Some((block, free)) = found {
                        let slot = &mut model[block.get() as usize];
                        prop_assert_eq!(*slot, free.get());
                        prop_assert!(free >= min);
                        if taking {
                            *slot = 0;
                        }
                    }
                }
                Op::Truncate(nblocks) => {
                    map.truncate(nblocks);
                    model.truncate(nblocks as usize);
                }
                Op::Extend(nblocks) => {
                    let fits = map.extend(nblocks);
                    prop_assert_eq!(fits, nblocks <= map.capacity());
                    if fits && nblocks as usize > model.len() {
                        model.resize(nblocks as usize, 0);
                    }
                }
                Op::Vacuum(a, b) => map.vacuum(BlockNumber::new(a)..BlockNumber::new(b)),
                Op::Grow(capacity) => map.grow(capacity),
            }
            prop_assert_eq!(map.nblocks() as usize, model.len());
        }
        prop_assert_eq!(map.disagreements(), 0);
        for (number, &free) in (0..).zip(&model) {
            prop_assert_eq!(map.category(BlockNumber::new(number)).get(), free);
        }
        let written = pages(geometry, &map);
        prop_assert_eq!(&written, &sequential(geometry, &map));
        let mut written = FreeSpaceMap::new(geometry, written);
        let Ok(again) = SharedMap::read_from(&mut written, map.nblocks(), 0);
        prop_assert_eq!(pages(geometry, &again), written.into_pages());
    }
}

/// The owner of each block is written down outside of the map, so that a block handed out twice
/// shows, whatever the map itself says.
#[test]
fn at_rest_after_threads_took_released_and_truncated_the_map_is_the_sequential_one() {
    let geometry = Geometry::of(BlockSize::KIB_1);
    for round in 0..20 {
        let map = SharedMap::new(geometry, 3000, 3000);
        let owners: Vec<_> = (0..3000).map(|_| AtomicBool::new(false)).collect();
        for block in 0..3000 {
            map.record(BlockNumber::new(block), Category::new((block % 250) as u8 + 1));
        }
        thread::scope(|scope| {
            for writer in 0..3 {
                let (map, owners) = (&map, &owners);
                scope.spawn(move || {
                    let mut cursor = Cursor::new(writer);
                    let mut random = u64::from(writer * 100 + round) | 1;
                    for _ in 0..20_000 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let min = Category::new((random >> 56) as u8);
                        let free = Category::new((random >> 48) as u8);
                        let Some((block, _)) = map.take(&mut cursor, min) else { continue };
                        let owner = &owners[block.get() as usize];
                        assert!(
                            !owner.swap(true, Ordering::SeqCst),
                            "{block} was handed out twice"
                        );
                        owner.store(false, Ordering::SeqCst);
                        map.record(block, free);
                    }
                });
            }
            scope.spawn(|| {
                for nblocks in (1000..3000).rev().step_by(50) {
                    map.truncate(nblocks);
                    let found = map.search(&mut Cursor::new(9), Category::new(1));
                    assert!(found.is_none_or(|(block, _)| block.get() < nblocks));
                    map.vacuum(BlockNumber::new(0)..BlockNumber::INVALID);
                }
            });
        });
        assert_eq!(map.disagreements(), 0, "round {round}");
        assert_eq!(pages(geometry, &map), sequential(geometry, &map), "round {round}");
    }
}

#[test]
fn writers_begin_far_from_each_other() {
    let geometry = Geometry::default();
    let map = SharedMap::new(geometry, 4000, 4000);
    for block in 0..4000 {
        map.record(BlockNumber::new(block), Category::new(100));
    }
    let first = |writer| map.take(&mut Cursor::new(writer), Category::new(1)).unwrap().0.get();
    let mut blocks: Vec<_> = (0..8).map(first).collect();
    blocks.sort_unstable();
    let closest = blocks.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    assert!(closest >= 64, "two of eight writers share a cache line: {blocks:?}");
}
