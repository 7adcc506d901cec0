//! A processor for each thread.

/// Keeps the calling thread on one of the processors it may use: threads with different numbers have
/// one each, as long as there are enough.
///
/// Threads that start together often start on one processor, and the system takes milliseconds to
/// part them: as long as a short sample lasts. Where a thread cannot be kept, it runs where it is put.
#[cfg(target_os = "linux")]
pub(crate) fn stay_on(number: u32) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let nth = number as usize % (allowed.count() as usize).max(1);
    let mut processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    if let Some(processor) = processors.nth(nth) {
        let mut one = CpuSet::new();
        one.set(processor);
        // A hint: the samples say whether a thread lost its core.
        let _ = sched_setaffinity(None, &one);
    }
}

/// See the Linux one: elsewhere threads run where they are put.
#[cfg(not(target_os = "linux"))]
pub(crate) const fn stay_on(_number: u32) {}
