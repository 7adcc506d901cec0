//! The free space map against the plain version of it, a mutex, and memory copied.
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_fsm::shared::{Cursor, SharedMap};
use pgtoast_fsm::twin::{TwinMap, TwinPage};
use pgtoast_fsm::{Category, FreeSpaceMap, FsmPageMut, Geometry, VecPages};
use pgtoast_testkit::Rng;
use pgtoast_testkit::fsm_fork::heap_free_bytes;
use rustix::time::{ClockId, clock_gettime};

use super::Suite;
use crate::peers::TWIN;
use crate::processors::stay_on;
use crate::row::Better;
use crate::{Bench, Comparison, Effort, Row, Timings, check};

const NAME: &str = "fsm";
const MUTEX: &str = "behind a mutex";
const MEMCPY: &str = "memcpy";
const TWIN_FLOOR: f64 = 1.0;
const THREADS_FLOOR: f64 = 1.3;
const REBUILD_FLOOR: f64 = 0.5;
const BLOCK: BlockSize = BlockSize::KIB_8;
/// Operations of one sample: about a millisecond, so that most samples are over before the system
/// takes the processor away.
const OPERATIONS: usize = 10_000;
/// Operations of each thread in one sample, for the same reason.
const THREAD_OPERATIONS: usize = 10_000;
/// A pass of operations is not repeated before so many: a processor learns short ones by heart.
const DISTINCT: usize = 1 << 18;
const THREADS: u32 = 2;

/// The suite `fsm`.
#[derive(Debug)]
pub(super) struct FsmSuite;

impl Suite for FsmSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "free space map: search, take and release, two threads, rebuild, cost against size"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        let largest = match bench.effort() {
            Effort::Quick => 7,
            Effort::Full => 8,
        };
        bench.expect_steps(4 + (largest - 2));
        let mut rows = one_page(bench)?;
        bench.step("two threads");
        rows.extend(two_threads(bench)?);
        bench.step("rebuild");
        rows.extend(rebuild(bench)?);
        for exponent in 3..=largest {
            bench.step(format!("10^{exponent} blocks"));
            let cells = 2 * (largest + 1 - exponent);
            rows.extend(by_size(u32::try_from(exponent)?, bench.share(cells))?);
        }
        for metric in [SEARCH, TAKE] {
            let summaries = Row::summaries(&rows, metric, TWIN);
            rows.extend(summaries.into_iter().map(|row| row.floor(TWIN_FLOOR)));
        }
        Ok(rows)
    }
}

const SEARCH: &str = "search";
const TAKE: &str = "take and release";

/// Categories as a busy table has them: most blocks full, the others with anything.
fn categories(rng: &mut Rng, count: usize) -> Vec<Category> {
    let category = |rng: &mut Rng| if rng.below(3) == 0 { rng.below(255) } else { 0 };
    (0..count).map(|_| Category::new(u8::try_from(category(rng)).unwrap_or(0))).collect()
}

/// Requests from a small tuple to most of a page; seldom more than any block has.
fn requests(rng: &mut Rng) -> Vec<Category> {
    let request = |rng: &mut Rng| Category::new(u8::try_from(1 + rng.below(253)).unwrap_or(1));
    (0..DISTINCT).map(|_| request(rng)).collect()
}

/// Goes round a list, so many at a time.
struct Turns<'a> {
    requests: &'a [Category],
    next: usize,
}

impl<'a> Turns<'a> {
    fn new(requests: &'a [Category]) -> Self {
        Self { requests, next: 0 }
    }

    fn take(&mut self) -> impl Iterator<Item = Category> + use<'a> {
        let from = self.next;
        self.next = (from + OPERATIONS) % self.requests.len();
        self.requests.iter().cycle().skip(from).take(OPERATIONS).copied()
    }
}

fn per_operation(case: &str, metric: &str, timings: &Timings) -> Row {
    let nanoseconds = |seconds: f64| seconds * 1e9 / OPERATIONS as f64;
    let row = Row::new(NAME, case, metric, "ns", nanoseconds(timings.ours));
    match timings.peer(TWIN) {
        Some(twin) => row.against(TWIN, nanoseconds(twin), Better::Lower).floor(TWIN_FLOOR),
        None => row,
    }
}

/// One page of the map, without a map around it.
fn one_page(bench: &Bench) -> Result<Vec<Row>> {
    let geometry = Geometry::of(BLOCK);
    let mut rng = Rng::new(6);
    let truth = categories(&mut rng, geometry.slots() as usize);
    let requests = requests(&mut rng);
    let mut bytes = vec![0; geometry.content_bytes()];
    let mut page = FsmPageMut::parse(geometry, &mut bytes)?;
    let mut twin = TwinPage::new(geometry);
    for (slot, category) in (0..).zip(&truth) {
        page.set(slot, *category);
        twin.set(slot as usize, category.get());
    }
    let case = "one page of 4069 slots";
    let share = bench.share(12);
    let mut rows = Vec::new();

    bench.step(format!("{SEARCH}, {case}"));
    let (mut ours, mut theirs) = (Turns::new(&requests), Turns::new(&requests));
    let (mut our_sum, mut their_sum) = (0, 0);
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            for min in ours.take() {
                our_sum += u64::from(page.search(min, true).unwrap_or(0));
            }
        })
    })
    .against_timed(TWIN, || {
        on_processor(|| {
            for min in theirs.take() {
                their_sum += twin.search(min.get(), true).unwrap_or(0) as u64;
            }
        })
    })
    .run(share)?;
    check(our_sum == their_sum, || format!("{case}: found {our_sum} and {their_sum} in sum"))?;
    rows.push(per_operation(case, SEARCH, &timings));

    bench.step(format!("{TAKE}, {case}"));
    let (mut ours, mut theirs) = (Turns::new(&requests), Turns::new(&requests));
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            for min in ours.take() {
                if let Some(slot) = page.search(min, true) {
                    page.set(slot, Category::NONE);
                    page.set(black_box(slot), truth[slot as usize]);
                }
            }
        })
    })
    .against_timed(TWIN, || {
        on_processor(|| {
            for min in theirs.take() {
                if let Some(slot) = twin.search(min.get(), true) {
                    twin.set(slot, 0);
                    twin.set(black_box(slot), truth[slot].get());
                }
            }
        })
    })
    .run(share)?;
    let view = page.as_page();
    check(view.nodes() == twin.nodes && view.next_slot() == twin.next_slot, || {
        format!("{case}: the pages differ in the end")
    })?;
    rows.push(per_operation(case, TAKE, &timings));
    Ok(rows)
}

/// Whole maps of more and more blocks.
fn by_size(exponent: u32, share: Duration) -> Result<Vec<Row>> {
    let geometry = Geometry::of(BLOCK);
    let nblocks = 10u32.pow(exponent);
    let mut rng = Rng::new(exponent.into());
    let truth = categories(&mut rng, nblocks as usize);
    let requests = requests(&mut rng);
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry)).without_sweep();
    let blocks = (0..).map(BlockNumber::new).zip(truth.iter().copied());
    let Ok(()) = map.rebuild(nblocks, blocks);
    let mut twin = twin_of(geometry, &map);
    let case = format!("10^{exponent} blocks");

    let (mut ours, mut theirs) = (Turns::new(&requests), Turns::new(&requests));
    let (mut our_sum, mut their_sum) = (0, 0);
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            for min in ours.take() {
                let Ok(report) = map.search(min, nblocks);
                our_sum += report.block.map_or(0, |block| u64::from(block.get()));
            }
        })
    })
    .against_timed(TWIN, || {
        on_processor(|| {
            for min in theirs.take() {
                their_sum += twin.search(min, nblocks).map_or(0, u64::from);
            }
        })
    })
    .run(share)?;
    check(our_sum == their_sum, || format!("{case}: found {our_sum} and {their_sum} in sum"))?;
    let mut rows = vec![per_operation(&case, SEARCH, &timings)];

    let (mut ours, mut theirs) = (Turns::new(&requests), Turns::new(&requests));
    let timings = Comparison::of_timed(|| {
        on_processor(|| {
            for min in ours.take() {
                let Ok(report) = map.search(min, nblocks);
                if let Some(block) = report.block {
                    let Ok(()) = map.record(block, Category::NONE);
                    let Ok(()) = map.record(black_box(block), truth[block.get() as usize]);
                }
            }
        })
    })
    .against_timed(TWIN, || {
        on_processor(|| {
            for min in theirs.take() {
                if let Some(block) = twin.search(min, nblocks) {
                    twin.record(block, Category::NONE);
                    twin.record(black_box(block), truth[block as usize]);
                }
            }
        })
    })
    .run(share)?;
    let same = map.pages().iter().zip(&twin.pages).all(|(ours, theirs)| {
        ours[..4] == theirs.next_slot.to_le_bytes() && ours[4..] == theirs.nodes
    });
    check(same, || format!("{case}: the maps differ in the end"))?;
    rows.push(per_operation(&case, TAKE, &timings));
    Ok(rows)
}

/// The plain map with the same pages.
fn twin_of(geometry: Geometry, map: &FreeSpaceMap<VecPages>) -> TwinMap {
    let mut twin = TwinMap::new(geometry);
    let page = |contents: &[u8]| {
        let mut page = TwinPage::new(geometry);
        page.nodes.copy_from_slice(&contents[4..]);
        page
    };
    twin.pages = map.pages().iter().map(page).collect();
    twin
}

/// The shared map against the sequential one behind a mutex.
fn two_threads(bench: &Bench) -> Result<Vec<Row>> {
    let geometry = Geometry::of(BLOCK);
    let nblocks = 100_000;
    let mut rng = Rng::new(2);
    let truth = categories(&mut rng, nblocks as usize);
    let requests = requests(&mut rng);
    let shared = SharedMap::new(geometry, nblocks, nblocks);
    let mut sequential = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let blocks = || (0..).map(BlockNumber::new).zip(truth.iter().copied());
    let Ok(()) = sequential.rebuild(nblocks, blocks());
    for (block, category) in blocks() {
        shared.record(block, category);
    }
    let locked = Mutex::new(sequential);
    let mut rows = Vec::new();
    for threads in [1, THREADS] {
        let samples = Samples::default();
        let ours = || {
            let (time, preempted) = timed(threads, &requests, &|writer, requests| {
                let mut cursor = Cursor::new(writer);
                for min in requests {
                    if let Some((block, category)) = shared.take(&mut cursor, *min) {
                        shared.record(black_box(block), category);
                    }
                }
            })?;
            samples.count(preempted);
            Ok(time)
        };
        let theirs = || {
            let (time, _) = timed(threads, &requests, &|_, requests| {
                for min in requests {
                    // Two critical sections: the insert comes between them.
                    let taken = {
                        let mut map = locked.lock().expect("nobody panics");
                        let Ok(report) = map.search(*min, nblocks);
                        if let Some(block) = report.block {
                            let Ok(()) = map.record(block, Category::NONE);
                        }
                        report.block
                    };
                    if let Some(block) = black_box(taken) {
                        let mut map = locked.lock().expect("nobody panics");
                        let Ok(()) = map.record(block, truth[block.get() as usize]);
                    }
                }
            })?;
            Ok(time)
        };
        let timings =
            Comparison::of_timed(ours).against_timed(MUTEX, theirs).run(bench.share(6))?;
        let rate = |seconds: f64| f64::from(threads) * THREAD_OPERATIONS as f64 / 1e6 / seconds;
        let theirs = timings.peer(MUTEX).unwrap_or(f64::NAN);
        let case = format!("10^5 blocks, {threads} thread{}", if threads == 1 { "" } else { "s" });
        let row = Row::new(NAME, case, "take and release, threads", "M/s", rate(timings.ours))
            .against(MUTEX, rate(theirs), Better::Higher);
        rows.push(match threads {
            THREADS if samples.undisturbed() => row.floor(THREADS_FLOOR),
            THREADS => row.noted("no floor: the threads did not have a core each"),
            _ => row,
        });
    }
    check(shared.disagreements() == 0, || "a maximum of the shared map is wrong".into())?;
    let same = blocks().all(|(block, category)| shared.category(block) == category);
    check(same, || "the shared map does not say what was released last".into())?;
    Ok(rows)
}

/// The processor time that some work takes: it touches nothing but memory, so what else runs on the
/// machine is not its business.
fn on_processor(work: impl FnOnce()) -> Result<Duration> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Ok::<_, std::num::TryFromIntError>(Duration::new(
            time.tv_sec.try_into()?,
            time.tv_nsec.try_into()?,
        ))
    };
    let started = now()?;
    work();
    Ok(now()? - started)
}

/// How long so many threads take for [`THREAD_OPERATIONS`] requests each, side by side, from when the
/// first begins to when the last is done; and whether one of them lost its core meanwhile. Each has a core of its own where there are enough, and none begins before
/// all are running.
fn timed(
    threads: u32,
    requests: &[Category],
    work: &(impl Fn(u32, &[Category]) + Sync),
) -> Result<(Duration, bool)> {
    let (begun, ready) = (AtomicU32::new(0), AtomicU32::new(0));
    let all_at = |meeting: &AtomicU32| {
        meeting.fetch_add(1, Ordering::SeqCst);
        while meeting.load(Ordering::SeqCst) < threads {
            std::hint::spin_loop();
        }
    };
    let times = thread::scope(|scope| {
        let start = |writer| {
            let (begun, ready, all_at) = (&begun, &ready, &all_at);
            let from = writer as usize * THREAD_OPERATIONS;
            let requests = &requests[from..from + THREAD_OPERATIONS];
            scope.spawn(move || {
                stay_on(writer);
                // Whoever starts the threads needs a core too. When all run, it waits for them.
                all_at(begun);
                // Counted from here: one that loses its core when all are ready begins late.
                let before = preemptions();
                all_at(ready);
                let started = Instant::now();
                work(writer, requests);
                let ended = Instant::now();
                (started, ended, preemptions() != before)
            })
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        handles.into_iter().map(thread::ScopedJoinHandle::join).collect::<Result<Vec<_>, _>>()
    });
    let times = times.map_err(|_| anyhow!("a thread panicked"))?;
    let first = times.iter().map(|(started, ..)| *started).min();
    let last = times.iter().map(|(_, ended, _)| *ended).max();
    let time = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
    Ok((time, times.iter().any(|(.., preempted)| *preempted)))
}

/// How often the system took the core from the calling thread; 0 where it does not say.
fn preemptions() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// How many samples of ours were taken, and in how many of them a thread lost its core.
///
/// Ours alone, because threads at a mutex hand each other the core and the system counts that too. As
/// the two sides take turns, what disturbs the one disturbs the other.
#[derive(Default)]
struct Samples {
    all: Cell<u32>,
    preempted: Cell<u32>,
}

impl Samples {
    fn count(&self, preempted: bool) {
        self.all.set(self.all.get() + 1);
        self.preempted.set(self.preempted.get() + u32::from(preempted));
    }

    /// Whether the threads had a core each most of the time, so that the medians say so too.
    fn undisturbed(&self) -> bool {
        4 * self.preempted.get() <= self.all.get()
    }
}

/// The map of heap pages in memory, against a copy of those.
fn rebuild(bench: &Bench) -> Result<Vec<Row>> {
    let geometry = Geometry::of(BLOCK);
    let nblocks = 16_384;
    let mut rng = Rng::new(3);
    let mut heap = vec![0x5a; nblocks as usize * BLOCK.bytes()];
    for page in heap.chunks_exact_mut(BLOCK.bytes()) {
        page[..24].fill(0);
        let items = rng.between(1, 200);
        let lower = 24 + 4 * items;
        let upper = rng.between(lower, BLOCK.bytes() + 1);
        for (offset, word) in
            [(12, lower), (14, upper), (16, BLOCK.bytes()), (18, BLOCK.bytes() | 4)]
        {
            page[offset..offset + 2].copy_from_slice(&u16::try_from(word)?.to_le_bytes());
        }
    }
    let category = |page: &[u8]| Category::of_free(heap_free_bytes(page), BLOCK);
    let mut map = FreeSpaceMap::new(geometry, VecPages::new(geometry));
    let mut copy = vec![0; heap.len()];
    let timings = Comparison::of(|| {
        let pages = black_box(&heap).chunks_exact(BLOCK.bytes());
        let Ok(()) = map.rebuild(nblocks, (0..).map(BlockNumber::new).zip(pages.map(category)));
    })
    .against(MEMCPY, || black_box(&mut copy).copy_from_slice(black_box(&heap)))
    .run(bench.share(8))?;
    let blocks = (0..).map(BlockNumber::new).zip(heap.chunks_exact(BLOCK.bytes()).map(category));
    let Ok(counts) = map.diff(blocks, |_| ());
    check(counts.equal == u64::from(nblocks), || format!("rebuilt: {counts:?}"))?;
    check(copy == heap, || "the copy differs".into())?;
    let rows = Row::throughput(NAME, "128 MiB of heap pages", "rebuild", heap.len(), &timings);
    Ok(rows.into_iter().map(|row| row.floor(REBUILD_FLOOR)).collect())
}
