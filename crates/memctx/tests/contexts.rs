//! What contexts promise their users, whichever kind they are of.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use pgtoast_memctx::{
    Account, BlockSizes, Cohort, Context, Kind, MemoryError, Release, ReturnsChunks, root,
};

const SIZES: BlockSizes = BlockSizes::DEFAULT;

/// Chunks keep what was put in them while others come and go.
fn churn<K: ReturnsChunks>(mut context: Context<'_, K>) {
    let mut held = Vec::new();
    for round in 0..2000_usize {
        let len = round * 7 % 81;
        let bytes = vec![u8::try_from(round % 256).expect("it works"); len];
        held.push((context.take(&bytes).expect("it works"), bytes));
        if round % 3 == 0 {
            let (chunk, bytes) = held.swap_remove(round * 13 % held.len());
            assert_eq!(context.bytes(&chunk).expect("it works"), bytes);
            context.give_back(chunk).expect("it works");
        }
    }
    for (chunk, bytes) in &held {
        assert_eq!(context.bytes(chunk).expect("it works"), bytes);
    }
    let account = context.account();
    let (allocated, live) = (account.mem_allocated(), account.live_bytes());
    assert!(live <= allocated && live > 0, "{live} of {allocated}");
    for (chunk, _) in held.drain(1..) {
        context.give_back(chunk).expect("it works");
    }
    let (stale, _) = held.pop().expect("it works");
    context.reset();
    assert_eq!(context.bytes(&stale), Err(MemoryError::Foreign));
    assert_eq!(context.give_back(stale), Err(MemoryError::Foreign));
    assert_eq!(context.account().live_bytes(), 0);
    let account = context.account().clone();
    drop(context);
    assert_eq!(account.mem_allocated(), 0);
}

#[test]
fn chunks_keep_their_bytes_until_they_are_given_back() {
    for release in [Release::V15, Release::V16, Release::V17, Release::V18, Release::Ours] {
        churn(root("a").release(release).alloc_set(SIZES).unwrap());
        churn(root("g").release(release).generation(SIZES).unwrap());
        churn(root("s").release(release).slab(8192, 80).unwrap());
        churn(root("c").release(release).cohorts().unwrap());
    }
}

#[test]
fn collections_live_in_every_kind_of_context() {
    fn collect<K: Kind>(context: &Context<'_, K>) {
        let mut map = hashbrown::HashMap::new_in(context);
        let mut list = VecIn::new_in(context);
        for number in 0..3000_u32 {
            map.insert(number, number * 2);
            list.push(u64::from(number));
        }
        assert!((0..3000).all(|number| map[&number] == number * 2));
        assert!((0..3000).zip(&list).all(|(at, number)| at == *number));
        list.truncate(10);
        list.shrink_to_fit();
        assert_eq!(list.iter().sum::<u64>(), 45);
    }
    collect(&root("a").alloc_set(SIZES).unwrap());
    collect(&root("g").generation(BlockSizes::fixed(8192)).unwrap());
    collect(&root("b").bump(SIZES).unwrap());
    collect(&root("c").cohorts().unwrap());
    collect(&root("s").slab(1 << 20, 1 << 18).unwrap());
}

#[test]
fn a_boxed_value_is_dropped_once_and_a_placed_one_needs_no_drop() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = AtomicUsize::new(0);
    let context = root("a").alloc_set(SIZES).unwrap();
    let boxed = BoxIn::new_in(Counted(&drops), &context);
    drop(boxed);
    let mut list = VecIn::new_in(&context);
    list.extend((0..5).map(|_| Counted(&drops)));
    drop(list);
    assert_eq!(drops.into_inner(), 6);
    assert_eq!(context.alloc_array(3, |at| at * 2).unwrap(), [0, 2, 4]);
    assert_eq!(context.alloc(()).unwrap(), &());
}

#[test]
fn sizes_that_wrap_are_errors() {
    let context = root("a").alloc_set(SIZES).unwrap();
    let over = |result: Result<usize, MemoryError>| {
        assert!(matches!(result, Err(MemoryError::TooLarge { .. })), "{result:?}");
    };
    over(context.alloc_array::<u64>(usize::MAX / 8 + 1, |_| 0).map(|list| list.len()));
    #[cfg(target_pointer_width = "64")]
    over(context.alloc_array::<u64>(10_995_706_271_387_654_244, |_| 0).map(|list| list.len()));
    over(context.alloc_array::<u8>(usize::MAX - 7, |_| 0).map(|list| list.len()));
    over(context.alloc_array::<u8>(1 << 30, |_| 0).map(|list| list.len()));
    over(context.take_zeroed(1 << 30).map(|chunk| chunk.len()));
    let mut list = VecIn::<u8, _>::new_in(&context);
    assert!(list.try_reserve(usize::MAX / 2 - 7).is_err());
    assert_eq!(context.mem_allocated(), 8192, "nothing was had for them");
}

#[test]
fn a_limit_is_an_error_and_never_exceeded() {
    let group = Account::group("all");
    group.set_subtree_limit(Some(100_000));
    let first = root("first").account(&group).generation(BlockSizes::fixed(8192)).unwrap();
    let second =
        root("second").account(&group).limit(20_000).bump(BlockSizes::fixed(8192)).unwrap();
    let filled = |context: &dyn Fn() -> Result<(), MemoryError>| {
        loop {
            if let Err(error) = context() {
                return error;
            }
        }
    };
    let error = filled(&|| second.take(&[0; 100]).map(drop));
    assert_eq!(error, MemoryError::Limit { requested: 8192, allocated: 16_384, limit: 20_000 });
    let error = filled(&|| first.take(&[0; 100]).map(drop));
    assert_eq!(error, MemoryError::Limit { requested: 8192, allocated: 98_304, limit: 100_000 });
    assert_eq!(group.subtree_allocated(), first.mem_allocated() + second.mem_allocated());
    assert_eq!(group.subtree_peak(), group.subtree_allocated());
    drop(second);
    first.take(&[0; 100]).map(drop).unwrap();
    drop(first);
    assert_eq!(group.subtree_allocated(), 0);
}

#[test]
fn a_reset_keeps_as_much_as_it_is_told() {
    fn keep<K: Kind>(mut context: Context<'_, K>, least: usize) {
        let fill = |context: &Context<'_, K>| {
            (0..5000).for_each(|_| drop(context.take(&[7; 60]).unwrap()));
        };
        fill(&context);
        let full = context.mem_allocated();
        context.reset_keeping(full);
        let kept = context.mem_allocated();
        assert!(kept > full / 2, "{kept} of {full}");
        fill(&context);
        assert_eq!(context.mem_allocated(), full, "what was kept is used");
        context.reset();
        assert_eq!(context.mem_allocated(), least);
    }
    keep(root("a").alloc_set(SIZES).unwrap(), 8192);
    keep(root("g").generation(BlockSizes::fixed(8192)).unwrap(), 8192);
    keep(root("b").bump(BlockSizes::fixed(8192)).unwrap(), 8192);
    keep(root("s").slab(8192, 64).unwrap(), 0);
    keep(root("c").cohorts().unwrap(), 0);
}

#[test]
fn callbacks_run_at_a_reset_the_latest_first() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut context = root("a").bump(SIZES).unwrap();
    for number in 0..3 {
        let order = order.clone();
        context.on_reset(move || order.lock().unwrap().push(number));
    }
    context.reset();
    assert_eq!(*order.lock().unwrap(), [2, 1, 0]);
    context.reset();
    let again = order.clone();
    context.on_reset(move || again.lock().unwrap().push(9));
    drop(context);
    assert_eq!(*order.lock().unwrap(), [2, 1, 0, 9]);
}

#[test]
fn a_bump_goes_back_to_its_checkpoints() {
    let mut bump = root("b").bump(BlockSizes::fixed(1024)).unwrap();
    let first = bump.take(b"first").unwrap();
    let outer = bump.checkpoint();
    let at_outer = bump.stats();
    let second = bump.take(&[2; 700]).unwrap();
    let inner = bump.checkpoint();
    let third = bump.take(&[3; 5000]).unwrap();
    let fourth = bump.take(&[4; 100]).unwrap();
    bump.rewind(inner).unwrap();
    assert_eq!(bump.bytes(&third), Err(MemoryError::Foreign));
    assert_eq!(bump.bytes(&fourth), Err(MemoryError::Foreign));
    assert_eq!(bump.bytes(&second).unwrap(), [2; 700]);
    let fifth = bump.take(&[5; 900]).unwrap();
    bump.rewind(outer).unwrap();
    assert_eq!(bump.bytes(&first).unwrap(), b"first");
    assert_eq!(bump.bytes(&second), Err(MemoryError::Foreign));
    assert_eq!(bump.bytes(&fifth), Err(MemoryError::Foreign));
    assert_eq!(bump.stats(), at_outer);
    assert_eq!(bump.rewind(inner), Err(MemoryError::Foreign), "it was gone back beyond");
    bump.rewind(outer).unwrap();
    bump.reset();
    assert_eq!(bump.rewind(outer), Err(MemoryError::Foreign));
}

#[test]
fn a_chunk_of_another_context_is_refused() {
    let (ours, theirs) = (root("a").cohorts().unwrap(), root("b").cohorts().unwrap());
    let mut chunk = ours.take(b"ours").unwrap();
    assert_eq!(theirs.bytes(&chunk), Err(MemoryError::Foreign));
    assert_eq!(theirs.bytes_mut(&mut chunk), Err(MemoryError::Foreign));
    let mut cohort = Cohort::new();
    let _ = ours.take_for(&mut cohort, b"ours").unwrap();
    let _ = theirs.take_for(&mut cohort, b"a small cohort has nothing of its own").unwrap();
    // With some kilobytes it has a leaf, and is of one context.
    while cohort.placed_bytes() < 10_000 {
        let _ = ours.take_for(&mut cohort, &[7; 500]).unwrap();
    }
    let refused = theirs.take_for(&mut cohort, b"theirs").map(drop);
    assert_eq!(refused, Err(MemoryError::Foreign));
    assert_eq!(theirs.close(cohort), Err(MemoryError::Foreign));
}

#[test]
fn alignment_is_held_whatever_the_kind() {
    #[repr(align(4096))]
    #[derive(Clone, Copy)]
    struct Page([u8; 64]);
    fn align<K: Kind>(context: &Context<'_, K>) {
        for at in 0..20_u8 {
            let _ = context.alloc(at).unwrap();
            let page = context.alloc(Page([at; 64])).unwrap();
            assert_eq!(std::ptr::from_ref(page).addr() % 4096, 0);
            assert_eq!(page.0, [at; 64]);
            let boxed = BoxIn::new_in(Page([1; 64]), context);
            assert_eq!(std::ptr::from_ref(&*boxed).addr() % 4096, 0);
        }
    }
    align(&root("a").alloc_set(SIZES).unwrap());
    align(&root("g").generation(SIZES).unwrap());
    align(&root("b").bump(SIZES).unwrap());
    align(&root("s").slab(1 << 16, 8200).unwrap());
    align(&root("c").cohorts().unwrap());
}

#[test]
fn a_context_may_move_to_another_thread_and_be_counted_here() {
    let parent = root("parent").alloc_set(SIZES).unwrap();
    std::thread::scope(|scope| {
        let child = parent.child("child").generation(BlockSizes::fixed(8192)).unwrap();
        scope.spawn(move || {
            (0..1000).for_each(|_| drop(child.take(&[0; 100]).unwrap()));
            assert_eq!(child.mem_allocated(), child.account().subtree_allocated());
        });
    });
    assert_eq!(parent.account().subtree_allocated(), 8192);
    assert!(parent.account().subtree_peak() > 100_000);
}
