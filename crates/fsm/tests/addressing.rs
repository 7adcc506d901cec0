//! Which page and slot stand for a block, and where that page lies in the fork.
//! Source: `freespace.c` (REL_18), `fsm_logical_to_physical`.
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::{Geometry, PageAddress};

const F: u32 = 4069;

fn at(level: u8, page: u32) -> PageAddress {
    PageAddress { level, page }
}

#[test]
fn pages_of_8_kib_lie_where_the_server_puts_them() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    for (address, physical) in [
        (at(2, 0), 0),
        (at(1, 0), 1),
        (at(0, 0), 2),
        (at(0, 1), 3),
        (at(0, 4068), 4070),
        (at(1, 1), 4071),
        (at(0, 4069), 4072),
    ] {
        assert_eq!(geometry.physical(address), physical, "{address:?}");
        assert_eq!(geometry.address_of(physical), Some(address));
    }
    assert_eq!(geometry.page_count(0), 0);
    assert_eq!(geometry.page_count(1), 3, "no map is shorter than one page a level");
    assert_eq!(geometry.page_count(F), 3);
    assert_eq!(geometry.page_count(F + 1), 4);
    assert_eq!(geometry.page_count(9000), 5);
}

#[test]
fn slots_levels_and_lengths_follow_from_the_block_size() {
    for (size, slots, levels) in [
        (BlockSize::KIB_1, 485, 4),
        (BlockSize::KIB_2, 997, 4),
        (BlockSize::KIB_4, 2021, 3),
        (BlockSize::KIB_8, 4069, 3),
        (BlockSize::KIB_16, 8165, 3),
        (BlockSize::KIB_32, 16_357, 3),
    ] {
        let geometry = Geometry::of(size);
        assert_eq!((geometry.slots(), geometry.levels()), (slots, levels), "{size}");
        assert_eq!(geometry.content_bytes(), size.bytes() - 24, "{size}");
        assert_eq!(geometry.inner_nodes(), size.bytes() / 2 - 1, "{size}");
    }
}

#[test]
fn every_block_size_reaches_every_block_number_and_finds_its_way_back() {
    for size in BlockSize::ALL {
        let geometry = Geometry::of(size);
        let f = geometry.slots();
        let edges = [0, 1, f - 1, f, f + 1, f * f - 1, f * f, f * f + 1, u32::MAX / 2];
        for number in edges.into_iter().chain([BlockNumber::MAX.get()]) {
            let (mut address, slot) = geometry.locate(BlockNumber::new(number)).unwrap();
            assert_eq!(geometry.first_block(address, slot), number.into(), "{size}");
            assert_eq!(geometry.page_count(number + 1), geometry.physical(address) + 1);
            loop {
                let physical = geometry.physical(address);
                assert_eq!(geometry.address_of(physical), Some(address), "{size} {number}");
                let Some((parent, slot)) = geometry.parent(address) else { break };
                assert_eq!(geometry.child(parent, slot), Some(address), "{size} {number}");
                assert!(geometry.physical(parent) < physical, "a parent lies before its children");
                address = parent;
            }
            assert_eq!(address, geometry.root());
        }
        assert_eq!(geometry.locate(BlockNumber::INVALID), None);
    }
}

#[test]
fn the_pages_of_a_fork_are_all_different_and_leave_no_gap() {
    for (slots, levels) in [(1, 1), (1, 4), (2, 3), (3, 3), (5, 2), (7, 3)] {
        let geometry = Geometry::custom(slots, levels).unwrap();
        let mut pages = 0;
        while let Some(address) = geometry.address_of(pages) {
            assert_eq!(geometry.physical(address), pages);
            pages += 1;
        }
        let expected: u32 = (0..u32::from(levels)).map(|level| slots.pow(level)).sum();
        assert_eq!(pages, expected.into());
        let reach = slots.pow(levels.into());
        assert!(geometry.locate(BlockNumber::new(reach - 1)).is_some());
        assert_eq!(geometry.locate(BlockNumber::new(reach)), None);
    }
}

#[test]
fn a_page_number_past_every_map_is_no_page() {
    for size in BlockSize::ALL {
        let geometry = Geometry::of(size);
        let last = geometry.page_count(u32::MAX) - 1;
        assert!(geometry.address_of(last).is_some(), "{size}");
        assert_eq!(geometry.address_of(last + 1), None, "{size}");
        assert_eq!(geometry.address_of(u64::MAX), None, "{size}");
    }
    assert_eq!(Geometry::custom(0, 1), None);
    assert_eq!(Geometry::custom(8, 0), None);
    assert_eq!(Geometry::custom(8, 5), None);
}
