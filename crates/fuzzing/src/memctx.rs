//! Memory contexts against what was put in them: no chunk changes because of another, limits hold, accounts
//! add up, and what is over is refused.
use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use pgtoast_memctx::{
    AllocSet, BlockSizes, Bump, Checkpoint, Chunk, Cohort, Cohorts, Context, ContextBuilder,
    Generation, Kind, MemoryError, Release, ReturnsChunks, Slab, root,
};

use crate::input::Input;

/// A program over one context: its kind, its release and its block sizes from the first three bytes, then
/// operations of four bytes each.
///
/// # Panics
/// When a chunk is not what it should be, or an account not the sum of what it counts.
pub fn memctx_program(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.u8() % 5;
    let releases = [Release::V15, Release::V16, Release::V17, Release::V18, Release::Ours];
    let release = releases[usize::from(input.u8()) % releases.len()];
    let shape = input.u8();
    let top = root("program").release(release);
    match kind {
        0 => run::<AllocSet>(top, shape, input.rest()),
        1 => run::<Generation>(top, shape, input.rest()),
        2 => run::<Slab>(top, shape, input.rest()),
        3 => run::<Bump>(top, shape, input.rest()),
        _ => run::<Cohorts>(top, shape, input.rest()),
    }
}

/// Bytes of an operation.
const OP: usize = 4;
/// Chunks that live at once, so that checking them all stays quick.
const MOST: usize = 48;
/// Open cohorts.
const COHORTS: usize = 4;
/// All chunks are looked at after so many operations.
const LOOK_EVERY: usize = 8;

/// What a kind can do beside what all can.
trait Player: Kind + Sized {
    fn make(builder: ContextBuilder<'_>, shape: u8) -> Result<Context<'_, Self>, MemoryError>;

    fn take(
        context: &Context<'_, Self>,
        _cohort: &mut Cohort,
        bytes: &[u8],
    ) -> Result<Chunk<Self>, MemoryError> {
        context.take(bytes)
    }

    fn give_back(context: &Context<'_, Self>, chunk: Chunk<Self>) -> Result<(), MemoryError>;

    fn close(_context: &Context<'_, Self>, _cohort: Cohort) -> Result<(), MemoryError> {
        Ok(())
    }

    fn checkpoint(_context: &Context<'_, Self>) -> Option<Checkpoint> {
        None
    }

    fn rewind(_context: &mut Context<'_, Self>, _to: Checkpoint) -> Result<(), MemoryError> {
        Ok(())
    }
}

fn sizes(shape: u8) -> BlockSizes {
    match shape % 4 {
        0 => BlockSizes::DEFAULT,
        1 => BlockSizes::SMALL,
        2 => BlockSizes::fixed(8 << 10),
        _ => BlockSizes { min: 2048, init: 1024, max: 64 << 10 },
    }
}

fn give<K: ReturnsChunks>(context: &Context<'_, K>, chunk: Chunk<K>) -> Result<(), MemoryError> {
    context.give_back(chunk)
}

impl Player for AllocSet {
    fn make(builder: ContextBuilder<'_>, shape: u8) -> Result<Context<'_, Self>, MemoryError> {
        builder.alloc_set(sizes(shape))
    }

    fn give_back(context: &Context<'_, Self>, chunk: Chunk<Self>) -> Result<(), MemoryError> {
        give(context, chunk)
    }
}

impl Player for Generation {
    fn make(builder: ContextBuilder<'_>, shape: u8) -> Result<Context<'_, Self>, MemoryError> {
        builder.generation(sizes(shape))
    }

    fn give_back(context: &Context<'_, Self>, chunk: Chunk<Self>) -> Result<(), MemoryError> {
        give(context, chunk)
    }
}

impl Player for Slab {
    fn make(builder: ContextBuilder<'_>, shape: u8) -> Result<Context<'_, Self>, MemoryError> {
        builder.slab(8 << 10, [1, 3, 7, 8, 12, 80, 1000, 4000][usize::from(shape % 8)])
    }

    fn give_back(context: &Context<'_, Self>, chunk: Chunk<Self>) -> Result<(), MemoryError> {
        give(context, chunk)
    }
}

impl Player for Bump {
    fn make(builder: ContextBuilder<'_>, shape: u8) -> Result<Context<'_, Self>, MemoryError> {
        builder.bump(sizes(shape))
    }

    fn give_back(_context: &Context<'_, Self>, _chunk: Chunk<Self>) -> Result<(), MemoryError> {
        Ok(())
    }

    fn checkpoint(context: &Context<'_, Self>) -> Option<Checkpoint> {
        Some(context.checkpoint())
    }

    fn rewind(context: &mut Context<'_, Self>, to: Checkpoint) -> Result<(), MemoryError> {
        context.rewind(to)
    }
}

impl Player for Cohorts {
    fn make(builder: ContextBuilder<'_>, _shape: u8) -> Result<Context<'_, Self>, MemoryError> {
        builder.cohorts()
    }

    fn take(
        context: &Context<'_, Self>,
        cohort: &mut Cohort,
        bytes: &[u8],
    ) -> Result<Chunk<Self>, MemoryError> {
        context.take_for(cohort, bytes)
    }

    fn give_back(context: &Context<'_, Self>, chunk: Chunk<Self>) -> Result<(), MemoryError> {
        give(context, chunk)
    }

    fn close(context: &Context<'_, Self>, cohort: Cohort) -> Result<(), MemoryError> {
        context.close(cohort)
    }
}

/// Chunks that are held by value, and what must be in them: by the number they were made as.
struct Held<K> {
    chunks: Vec<(Chunk<K>, u64)>,
    cohorts: [Cohort; COHORTS],
    made: u64,
}

/// What a borrower of the context has; it goes before a reset.
enum Borrowed<'c, K: Kind> {
    List(VecIn<u8, &'c Context<'c, K>>, u64),
    Line(BoxIn<Line, &'c Context<'c, K>>, u64),
    Page(BoxIn<Page, &'c Context<'c, K>>, u64),
    Slice(&'c mut [u8], u64),
}

#[repr(align(64))]
struct Line([u8; 64]);
#[repr(align(4096))]
struct Page([u8; 128]);

/// The bytes that a chunk made as such a number has.
fn content(number: u64, len: usize) -> impl Iterator<Item = u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    mixed.into_iter().cycle().zip((0..=u8::MAX).cycle()).map(|(mixed, at)| mixed ^ at).take(len)
}

fn assert_content(bytes: &[u8], number: u64) {
    let same = bytes.iter().copied().eq(content(number, bytes.len()));
    assert!(same, "chunk {number} of {} bytes was changed", bytes.len());
}

fn run<K: Player>(builder: ContextBuilder<'static>, shape: u8, program: &[u8]) {
    let context = K::make(builder, shape).expect("there is memory for a block");
    let account = context.account().clone();
    let mut context = context;
    let mut held = Held { chunks: Vec::new(), cohorts: Default::default(), made: 0 };
    let mut checkpoints: Vec<(Checkpoint, usize)> = Vec::new();
    let mut ops = program.chunks_exact(OP);
    loop {
        // References into the context live between two operations that need it whole.
        let whole = borrow(&context, &mut held, &mut checkpoints, &mut ops);
        let Some([op, a, b, c]) = whole else { break };
        let number = usize::from(u16::from_le_bytes([a, b]));
        match op % 2 {
            0 => reset(
                &mut context,
                &mut held,
                &mut checkpoints,
                if c % 2 == 0 { 0 } else { number * 16 },
            ),
            _ => rewind(&mut context, &mut held, &mut checkpoints, number),
        }
    }
    check(&context, &held);
    for (chunk, number) in held.chunks.drain(..) {
        assert_content(context.bytes(&chunk).expect("it lives"), number);
        K::give_back(&context, chunk).expect("it lives");
    }
    for cohort in held.cohorts {
        K::close(&context, cohort).expect("they are of this epoch");
    }
    drop(context);
    assert_eq!((account.mem_allocated(), account.subtree_allocated()), (0, 0));
}

/// Operations up to one that needs the context whole, which is returned.
fn borrow<'p, K: Player>(
    context: &Context<'p, K>,
    held: &mut Held<K>,
    checkpoints: &mut Vec<(Checkpoint, usize)>,
    ops: &mut std::slice::ChunksExact<'_, u8>,
) -> Option<[u8; OP]> {
    let mut borrowed: Vec<Borrowed<'_, K>> = Vec::new();
    let mut whole = None;
    for (step, op) in ops.enumerate() {
        let [op, a, b, c] = *op else { break };
        let number = usize::from(u16::from_le_bytes([a, b]));
        // Mostly small, now and then larger than any block.
        let size = if c < 240 { number % 600 } else { number };
        match op % 16 {
            0..=3 => take(context, held, size, usize::from(c) % COHORTS),
            4..=6 => give_one(context, held, number),
            7 => close(context, held, usize::from(c) % COHORTS),
            8 => lend(context, held, &mut borrowed, size, c),
            9 => change(&mut borrowed, held, number, size),
            10 => return_one(&mut borrowed, number, c),
            11 => child(context, size),
            12 => limit(context, size),
            13 if c % 4 == 0 => {
                if let Some(checkpoint) = K::checkpoint(context) {
                    checkpoints.push((checkpoint, held.chunks.len()));
                }
            }
            14 if c % 8 == 0 => {
                whole = Some([0, a, b, c / 8]);
                break;
            }
            15 if c % 4 == 0 => {
                whole = Some([1, a, b, c]);
                break;
            }
            _ => {}
        }
        if step % LOOK_EVERY == 0 {
            check(context, held);
            borrowed.iter().for_each(assert_borrowed);
        }
    }
    borrowed.iter().for_each(assert_borrowed);
    for borrowed in borrowed {
        // What is not given back is the reset's, and no leak; without one it stays until the end.
        if whole.is_some_and(|op| op[0] == 0) {
            core::mem::forget(borrowed);
        }
    }
    context.account().set_limit(None);
    whole
}

fn take<K: Player>(context: &Context<'_, K>, held: &mut Held<K>, size: usize, cohort: usize) {
    if held.chunks.len() >= MOST {
        return;
    }
    let before = context.mem_allocated();
    let bytes: Vec<u8> = content(held.made, size).collect();
    match K::take(context, &mut held.cohorts[cohort], &bytes) {
        Ok(chunk) => {
            held.chunks.push((chunk, held.made));
            held.made += 1;
        }
        Err(error) => refused(context, error, before),
    }
}

/// A request was refused: because of the limit, or because a slab has no such chunks.
fn refused<K: Kind>(context: &Context<'_, K>, error: MemoryError, before: usize) {
    match error {
        MemoryError::Limit { requested, allocated, limit } => {
            assert!(allocated + requested > limit)
        }
        MemoryError::TooLarge { requested, limit } => {
            assert!(requested > limit && K::NAME == pgtoast_memctx::KindName::Slab);
        }
        other => panic!("{other}"),
    }
    assert!(context.mem_allocated() >= before, "nothing was given back for it");
}

fn give_one<K: Player>(context: &Context<'_, K>, held: &mut Held<K>, number: usize) {
    // A rewind knows chunks by their place in the list, so that only the last may go.
    if held.chunks.is_empty() || K::NAME == pgtoast_memctx::KindName::Bump {
        return;
    }
    let (mut chunk, made) = held.chunks.swap_remove(number % held.chunks.len());
    assert_content(context.bytes_mut(&mut chunk).expect("it lives"), made);
    K::give_back(context, chunk).expect("it lives");
}

fn close<K: Player>(context: &Context<'_, K>, held: &mut Held<K>, cohort: usize) {
    let closed = core::mem::take(&mut held.cohorts[cohort]);
    K::close(context, closed).expect("it is of this epoch");
}

fn lend<'c, K: Player>(
    context: &'c Context<'c, K>,
    held: &mut Held<K>,
    borrowed: &mut Vec<Borrowed<'c, K>>,
    size: usize,
    which: u8,
) {
    if borrowed.len() >= MOST {
        return;
    }
    let made = held.made;
    held.made += 1;
    match which % 4 {
        0 => {
            let mut list = VecIn::new_in(context);
            if list.try_reserve_exact(size).is_ok() {
                list.extend(content(made, size));
                borrowed.push(Borrowed::List(list, made));
            }
        }
        1 => {
            let mut line = Line([0; 64]);
            line.0.iter_mut().zip(content(made, 64)).for_each(|(to, from)| *to = from);
            if let Ok(line) = BoxIn::try_new_in(line, context) {
                borrowed.push(Borrowed::Line(line, made));
            }
        }
        2 => {
            let mut page = Page([0; 128]);
            page.0.iter_mut().zip(content(made, 128)).for_each(|(to, from)| *to = from);
            if let Ok(page) = BoxIn::try_new_in(page, context) {
                borrowed.push(Borrowed::Page(page, made));
            }
        }
        _ => {
            let bytes: Vec<u8> = content(made, size).collect();
            if let Ok(slice) = context.alloc_slice(&bytes) {
                borrowed.push(Borrowed::Slice(slice, made));
            }
        }
    }
}

fn assert_borrowed<K: Kind>(borrowed: &Borrowed<'_, K>) {
    match borrowed {
        Borrowed::List(list, made) => assert_content(list, *made),
        Borrowed::Line(line, made) => {
            assert_eq!(line.0.as_ptr().addr() % 64, 0);
            assert_content(&line.0, *made);
        }
        Borrowed::Page(page, made) => {
            assert_eq!(page.0.as_ptr().addr() % 4096, 0);
            assert_content(&page.0, *made);
        }
        Borrowed::Slice(slice, made) => assert_content(slice, *made),
    }
}

/// Grows or shrinks a list.
fn change<K: Kind>(
    borrowed: &mut [Borrowed<'_, K>],
    held: &mut Held<K>,
    number: usize,
    size: usize,
) {
    let count = borrowed.len().max(1);
    let Some(Borrowed::List(list, made)) = borrowed.get_mut(number % count) else { return };
    assert_content(list, *made);
    if size < list.len() {
        list.truncate(size);
        list.shrink_to_fit();
    } else if list.try_reserve_exact(size - list.len()).is_ok() {
        let from = list.len();
        list.extend(content(*made, size).skip(from));
    }
    assert_content(list, *made);
    held.made += 1;
}

fn return_one<K: Kind>(borrowed: &mut Vec<Borrowed<'_, K>>, number: usize, forget: u8) {
    if borrowed.is_empty() {
        return;
    }
    let gone = borrowed.swap_remove(number % borrowed.len());
    assert_borrowed(&gone);
    if forget.is_multiple_of(8) {
        core::mem::forget(gone);
    }
}

fn child<K: Kind>(context: &Context<'_, K>, size: usize) {
    let alone = context.account().subtree_allocated();
    let limit = context.account().subtree_limit();
    context.account().set_subtree_limit(Some(alone + 20_000));
    if let Ok(child) = context.child("child").bump(BlockSizes::SMALL) {
        let _ = child.alloc_slice(&[7_u8; 40]).map(|slice| slice.fill(9));
        let _ = child.take_zeroed(size);
        let both = context.mem_allocated() + child.mem_allocated();
        assert_eq!(context.account().subtree_allocated(), both);
        assert!(both <= alone + 20_000);
    }
    context.account().set_subtree_limit(limit);
    assert_eq!(context.account().subtree_allocated(), alone);
}

fn limit<K: Kind>(context: &Context<'_, K>, size: usize) {
    let limit = (!size.is_multiple_of(5)).then(|| context.mem_allocated() + 4 * size);
    context.account().set_limit(limit);
}

fn check<K: Kind>(context: &Context<'_, K>, held: &Held<K>) {
    let mut sum = 0;
    for (chunk, made) in &held.chunks {
        assert_content(context.bytes(chunk).expect("it lives"), *made);
        sum += chunk.len();
    }
    let account = context.account();
    let (live, allocated) = (account.live_bytes(), account.mem_allocated());
    assert!(sum <= live && live <= allocated, "{sum} bytes in {live} live of {allocated}");
    assert!(account.peak() >= allocated && account.subtree_allocated() == allocated);
    let stats = context.stats();
    assert!(stats.free_bytes <= stats.total_bytes && stats.total_bytes >= allocated);
}

fn reset<K: Player>(
    context: &mut Context<'_, K>,
    held: &mut Held<K>,
    checkpoints: &mut Vec<(Checkpoint, usize)>,
    keep: usize,
) {
    context.reset_keeping(keep);
    assert_eq!(context.account().live_bytes(), 0);
    for (chunk, _) in held.chunks.drain(..) {
        assert_eq!(context.bytes(&chunk), Err(MemoryError::Foreign));
        if K::NAME != pgtoast_memctx::KindName::Bump {
            assert_eq!(K::give_back(context, chunk), Err(MemoryError::Foreign));
        }
    }
    for cohort in &mut held.cohorts {
        *cohort = Cohort::new();
    }
    for (checkpoint, _) in checkpoints.drain(..) {
        if K::NAME == pgtoast_memctx::KindName::Bump {
            assert_eq!(K::rewind(context, checkpoint), Err(MemoryError::Foreign));
        }
    }
}

fn rewind<K: Player>(
    context: &mut Context<'_, K>,
    held: &mut Held<K>,
    checkpoints: &mut Vec<(Checkpoint, usize)>,
    number: usize,
) {
    if checkpoints.is_empty() {
        return;
    }
    let index = number % checkpoints.len();
    let (checkpoint, chunks) = checkpoints[index];
    K::rewind(context, checkpoint).expect("it was not gone back beyond");
    for (chunk, _) in held.chunks.drain(chunks..) {
        assert_eq!(context.bytes(&chunk), Err(MemoryError::Foreign));
    }
    for (later, _) in checkpoints.drain(index + 1..) {
        assert_eq!(K::rewind(context, later), Err(MemoryError::Foreign));
    }
    check(context, held);
}
