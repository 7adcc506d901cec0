//! What reading fetches, to the tuple: the figures of the proposal, and the limits of the largest value.
mod common;

use common::{DEFAULTS, RELATION, pattern, store, value};
use pgtoast_base::Oid;
use pgtoast_direct::{DirectRelation, Parameters, SliceTarget};

#[test]
fn the_proposals_slices_fetch_what_the_proposal_says() {
    for (len, offset, slice_len, fetches, tuples) in [
        (1600, 0, 1600, 1, 1),           // tier 1, whole
        (22_400, 0, 500, 2, 12),         // tier 2, a prefix: the root and one of 11 leaves
        (22_400, 0, 22_400, 12, 12),     // whole
        (22_400, 22_300, 100, 1, 12),    // its end is in the root
        (320_000, 150_100, 100, 3, 166), // tier 3: the root, one of 4 nodes, one of 161 leaves
        (320_000, 0, 320_000, 166, 166), // whole
        (199_600, 0, 199_600, 100, 100), // the last of tier 2
        (199_601, 0, 199_601, 105, 105), // the first of tier 3: 101 leaves, 3 nodes, a root
        (241_200, 0, 241_200, 125, 125),
    ] {
        let value = value(len);
        let mut store = store();
        let pointer = RELATION.write(&mut store, &value).unwrap();
        assert_eq!(store.counts().inserts, tuples, "{len}");
        store.reset_counts();
        let mut target = vec![0xee; slice_len];
        let cost = RELATION.slice_into(&store, &pointer, offset, &mut target).unwrap();
        assert_eq!(target, value[offset..offset + slice_len], "{len}");
        assert_eq!(cost.fetches(), fetches, "{len}: {cost}");
        assert_eq!(store.counts().fetches, u64::from(fetches), "{len}");
    }
}

#[test]
fn a_full_read_fetches_each_tuple_once() {
    for len in [1, 1996, 1997, 3992, 3993, 199_600, 199_601, 1_000_000, 5_000_000] {
        let value = value(len);
        let mut store = store();
        let pointer = RELATION.write(&mut store, &value).unwrap();
        let tuples = store.counts().inserts;
        store.reset_counts();
        assert_eq!(RELATION.read(&store, &pointer).unwrap(), value);
        assert_eq!(store.counts().fetches, tuples);
        store.reset_counts();
        let mut target = vec![0xee; len];
        let cost = RELATION.read_into(&store, &pointer, &mut target).unwrap();
        assert_eq!((target == value, u64::from(cost.fetches())), (true, tuples));
        assert_eq!((store.counts().fetches, cost.leaf_bytes), (tuples, len as u64));
        store.reset_counts();
        let leaves = RELATION.leaves(&store, &pointer).unwrap();
        let pieces: Vec<_> = leaves.map(|leaf| leaf.unwrap().to_vec()).collect();
        assert_eq!((pieces.concat() == value, store.counts().fetches), (true, tuples));
    }
}

#[test]
fn many_slices_at_once_fetch_nothing_twice() {
    let value = value(700_000);
    let mut store = store();
    let pointer = RELATION.write(&mut store, &value).unwrap();
    let wanted = [(500_000, 10), (3, 5), (500_100, 10), (9, 4000), (0, 0), (699_999, 1), (4, 2)];
    let mut targets: Vec<_> = wanted.iter().map(|(_, len)| vec![0xee; *len]).collect();
    let mut slices: Vec<_> = (wanted.iter().zip(&mut targets))
        .map(|((offset, _), bytes)| SliceTarget { offset: *offset, bytes })
        .collect();
    let cost = RELATION.slices_into(&store, &pointer, &mut slices).unwrap();
    for ((offset, len), target) in wanted.iter().zip(&targets) {
        assert_eq!(*target, value[*offset..offset + len]);
    }
    // The root, three nodes; leaves 0, 1, 2 for the first three, one for each other place.
    assert_eq!(cost.fetches(), 1 + 3 + 3 + 1 + 1, "{cost}");
}

#[test]
fn the_largest_value_has_four_levels_of_nodes() {
    // A gigabyte takes long in a debug build; the small twin has as many levels.
    let small = Parameters::default().with_chunk_bytes(16).unwrap();
    let relation = DirectRelation::new(Oid::new(1), small);
    let len = 16 * 137_947;
    let mut store = store();
    let mut writer = relation.writer(&mut store);
    for start in (0..len).step_by(10_000) {
        writer.write(&pattern(start, 10_000.min(len - start))).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.tuples, 137_947 + 2759 + 56 + 2 + 1);
    let pointer = relation.pointer(written.root, len).unwrap();
    for offset in [0, 16, 137_947 / 2 * 16, len - 16] {
        let mut target = [0; 16];
        let cost = relation.slice_into(&store, &pointer, offset, &mut target).unwrap();
        assert_eq!(target[..], pattern(offset, 16));
        assert_eq!((cost.fetches(), cost.depth()), (5, 5));
    }
    assert_eq!(DEFAULTS.chunk_count((1 << 30) - 5), 537_947);
}
