//! Sizes that have led other arenas astray: none at all, fewer bytes than a word, counts whose product wraps, and
//! values without a size that still have to be dropped as often as they were made.
use std::cell::Cell;

use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use pgtoast_memctx::{
    AllocSet, BlockSizes, Cohorts, Context, Generation, Kind, MemoryError, ReturnsChunks, Slab,
    root,
};

fn empty_chunks<K: ReturnsChunks>(context: Context<'_, K>) {
    let (one, other) = (context.take(b"").expect("nothing"), context.take(b"").expect("nothing"));
    assert!(one.is_empty() && other.is_empty());
    assert_eq!(context.bytes(&one), Ok(&b""[..]));
    context.give_back(one).expect("it lives");
    assert_eq!(context.bytes(&other), Ok(&b""[..]), "the other is another");
    context.give_back(other).expect("it lives");
    assert_eq!(context.account().live_bytes(), 0);
}

#[test]
fn chunks_without_a_byte_are_chunks() {
    empty_chunks::<AllocSet>(root("set").alloc_set(BlockSizes::SMALL).expect("a block"));
    empty_chunks::<Generation>(root("generation").generation(BlockSizes::SMALL).expect("a block"));
    empty_chunks::<Slab>(root("slab").slab(8 << 10, 8).expect("it fits"));
    empty_chunks::<Cohorts>(root("cohorts").cohorts().expect("it holds nothing"));
    let bump = root("bump").bump(BlockSizes::SMALL).expect("a block");
    let empty = bump.take(b"").expect("nothing");
    assert_eq!(bump.bytes(&empty), Ok(&b""[..]));
}

#[test]
fn a_slab_of_tiny_chunks_keeps_them_apart() {
    for size in [1, 3, 7, 8, 12] {
        let slab = root("slab").slab(8 << 10, size).expect("it fits");
        // Several blocks of the smallest, under Miri too.
        let count = if cfg!(miri) { 700 } else { 3000 };
        let content = |number: usize| vec![number.to_le_bytes()[0]; size];
        let chunks: Vec<_> =
            (0..count).map(|number| slab.take(&content(number)).expect("small")).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            let bytes = slab.bytes(chunk).expect("it lives");
            assert_eq!(bytes, content(number));
            assert_eq!(bytes.as_ptr().addr() % 8, 0, "chunks of {size}");
        }
        let larger = slab.take(&vec![0; slab.chunk_size() + 1]);
        assert!(matches!(larger, Err(MemoryError::TooLarge { .. })));
    }
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_count_whose_bytes_wrap_to_few_is_an_error() {
    // Times 24 it wraps to a small number.
    const COUNT: usize = 10_995_706_271_387_654_244;
    let set = root("set").alloc_set(BlockSizes::SMALL).expect("a block");
    assert!(matches!(set.alloc_array(COUNT, |_| [0_u64; 3]), Err(MemoryError::TooLarge { .. })));
    let mut list: VecIn<[u64; 3], _> = VecIn::new_in(&set);
    assert!(list.try_reserve(COUNT).is_err());
    assert_eq!(set.mem_allocated(), 1024);
}

#[test]
fn values_without_a_size_are_dropped_as_often_as_they_were_made() {
    thread_local!(static DROPPED: Cell<u32> = const { Cell::new(0) });
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPPED.set(DROPPED.get() + 1);
        }
    }
    fn make<K: Kind>(context: &Context<'_, K>) {
        DROPPED.set(0);
        let mut list = VecIn::new_in(context);
        (0..5).for_each(|_| list.push(Nothing));
        drop(list.pop());
        assert_eq!(DROPPED.get(), 1);
        drop(list);
        assert_eq!(DROPPED.get(), 5);
        drop(BoxIn::new_in(Nothing, context));
        assert_eq!(DROPPED.get(), 6);
    }
    make(&root("set").alloc_set(BlockSizes::SMALL).expect("a block"));
    make(&root("bump").bump(BlockSizes::SMALL).expect("a block"));
    make(&root("cohorts").cohorts().expect("it holds nothing"));
}
