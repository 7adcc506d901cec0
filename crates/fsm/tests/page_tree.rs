//! The tree in a page, against the plain version of it and against what the rules say.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small, or cut on purpose")]
use pgtoast_base::BlockSize;
use pgtoast_fsm::twin::TwinPage;
use pgtoast_fsm::{Category, FsmError, FsmPage, FsmPageMut, Geometry};
use proptest::prelude::*;

fn contents(twin: &TwinPage) -> Vec<u8> {
    [&twin.next_slot.to_le_bytes()[..], &twin.nodes].concat()
}

#[derive(Clone, Debug)]
enum Op {
    Set(u32, u8),
    Search(u8, bool),
    NextSlot(i32),
    Rebuild,
    Truncate(u32),
}

fn ops(geometry: Geometry) -> impl Strategy<Value = Vec<Op>> {
    let slot = 0..geometry.slots();
    // Few different values, so that equal maxima and early ends of the walk are common.
    let value = prop_oneof![Just(0u8), Just(1), Just(200), Just(255), any::<u8>()];
    let op = prop_oneof![
        6 => (slot.clone(), value.clone()).prop_map(|(slot, value)| Op::Set(slot, value)),
        6 => (value, any::<bool>()).prop_map(|(min, advance)| Op::Search(min.max(1), advance)),
        1 => any::<i32>().prop_map(Op::NextSlot),
        1 => slot.clone().prop_map(|slot| Op::NextSlot(slot.cast_signed())),
        1 => Just(Op::Rebuild),
        1 => slot.prop_map(Op::Truncate),
    ];
    prop::collection::vec(op, 1..200)
}

fn geometries() -> impl Strategy<Value = Geometry> {
    let real = prop::sample::select(&BlockSize::ALL[..]).prop_map(Geometry::of);
    let small = (1u32..300).prop_map(|slots| Geometry::custom(slots, 1).expect("in range"));
    prop_oneof![real, small]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]
    #[test]
    fn the_page_and_its_plain_twin_stay_equal_byte_for_byte(
        (geometry, ops) in geometries().prop_flat_map(|geometry| (Just(geometry), ops(geometry)))
    ) {
        let mut twin = TwinPage::new(geometry);
        let mut bytes = contents(&twin);
        for op in ops {
            let mut page = FsmPageMut::parse(geometry, &mut bytes).expect("the right length");
            match op {
                Op::Set(slot, value) => {
                    page.set(slot, Category::new(value));
                    twin.set(slot as usize, value);
                }
                Op::Search(min, advance) => {
                    let found = page.search(Category::new(min), advance);
                    prop_assert_eq!(found.map(|slot| slot as usize), twin.search(min, advance));
                }
                Op::NextSlot(next) => {
                    page.set_next_slot(next);
                    twin.next_slot = next;
                }
                Op::Rebuild => prop_assert!(!page.rebuild(), "nothing was wrong"),
                Op::Truncate(slots) => {
                    page.truncate(slots);
                    twin.truncate(slots as usize);
                }
            }
            prop_assert_eq!(&bytes, &contents(&twin));
        }
    }

    #[test]
    fn any_bytes_at_all_are_a_page_that_ends_its_searches_and_mends(
        geometry in geometries(), seed in any::<u64>(), min in 1u8..=255, next in any::<i32>(),
        dense in any::<bool>(),
    ) {
        let mut bytes = noise(seed, geometry.content_bytes(), dense);
        let mut page = FsmPageMut::parse(geometry, &mut bytes).expect("the right length");
        page.set_next_slot(next);
        let min = Category::new(min);
        if let Some(slot) = page.search(min, true) {
            prop_assert!(page.as_page().slot(slot) >= min);
        }
        page.rebuild();
        prop_assert!(!page.rebuild(), "rebuilding twice changes nothing more");
        let any = page.as_page().slots().iter().any(|&slot| slot >= min.get());
        prop_assert_eq!(page.search(min, false).is_some(), any);
    }
}

fn noise(seed: u64, len: usize, dense: bool) -> Vec<u8> {
    let mut state = seed | 1;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let word = state >> 33;
        if dense || word.is_multiple_of(97) { (word >> 8) as u8 } else { 0 }
    };
    (0..len).map(byte).collect()
}

#[test]
fn a_page_starts_with_the_next_slot_and_the_slots_come_after_4095_nodes() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let mut bytes = vec![0; 8168];
    let mut page = FsmPageMut::parse(geometry, &mut bytes).unwrap();
    page.set(3, Category::new(77));
    page.set_next_slot(0x0102_0304);
    // Counted from the start of the whole page these are 24, 28 and 4123 + slot.
    assert_eq!(bytes[..4], [4, 3, 2, 1]);
    assert_eq!(bytes[4], 77, "the root");
    assert_eq!(bytes[4123 - 24 + 3], 77);
    assert_eq!(bytes.iter().filter(|&&byte| byte == 77).count(), 13, "one a row");
}

#[test]
fn contents_of_another_length_are_an_error_that_gives_both() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    for found in [0, 3, 4, 8167, 8169, 8192] {
        let mut bytes = vec![0; found];
        let error = FsmError::ContentLength { expected: 8168, found };
        assert_eq!(FsmPage::parse(geometry, &bytes).unwrap_err(), error);
        assert_eq!(FsmPageMut::parse(geometry, &mut bytes).unwrap_err(), error);
    }
}

#[test]
fn a_search_goes_round_from_where_the_last_one_left_off() {
    let geometry = Geometry::custom(6, 1).unwrap();
    let mut bytes = vec![0; geometry.content_bytes()];
    let mut page = FsmPageMut::parse(geometry, &mut bytes).unwrap();
    for slot in [1, 2, 5] {
        page.set(slot, Category::new(9));
    }
    let nine = Category::new(9);
    let turns: Vec<_> = (0..5).map(|_| page.search(nine, true)).collect();
    assert_eq!(turns, [Some(1), Some(2), Some(5), Some(1), Some(2)]);
    assert_eq!(page.search(nine, false), Some(5), "and stays there without advancing");
    assert_eq!(page.search(nine, false), Some(5));
    assert_eq!(page.search(Category::new(10), true), None);
    assert_eq!(page.as_page().next_slot(), 5, "a search that finds nothing moves nothing");
}

#[test]
fn a_next_slot_out_of_range_means_the_first() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    for nonsense in [2_000_000_000, -1, i32::MIN, 4069, i32::MAX] {
        let mut bytes = vec![0; geometry.content_bytes()];
        let mut page = FsmPageMut::parse(geometry, &mut bytes).unwrap();
        page.set(17, Category::new(100));
        page.set_next_slot(nonsense);
        assert_eq!(page.search(Category::new(100), true), Some(17), "{nonsense}");
        assert_eq!(page.as_page().next_slot(), 18);
    }
}

#[test]
fn a_parent_that_promises_too_much_is_set_right_by_the_search_that_believed_it() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let mut bytes = vec![0; geometry.content_bytes()];
    // The slots are gone, the nodes above still say 255: as after a half-written page.
    bytes[4..4 + 4095].fill(255);
    let mut page = FsmPageMut::parse(geometry, &mut bytes).unwrap();
    page.set(4000, Category::new(3));
    assert_eq!(page.search(Category::new(200), true), None);
    assert_eq!(page.root(), Category::new(3), "and the root says so from now on");
    assert!(!page.rebuild());
}

#[test]
fn a_parent_that_promises_too_little_is_set_right_when_a_slot_below_is_set() {
    let geometry = Geometry::of(BlockSize::KIB_8);
    let mut bytes = vec![0; geometry.content_bytes()];
    bytes[4 + 4095 + 100] = 250; // a slot, and zeros above it
    let mut page = FsmPageMut::parse(geometry, &mut bytes).unwrap();
    assert_eq!(page.search(Category::new(250), true), None, "the root does not know");
    page.set(101, Category::new(1));
    assert_eq!(page.search(Category::new(250), true), Some(100));
}
