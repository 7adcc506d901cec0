//! Several threads at one piece of work.
use super::Coverage;
use super::report::Report;

/// Runs `work` on so many threads, this one among them, each with a buffer of its own.
pub(super) fn crew<R: Send>(
    threads: usize,
    buffer: &mut Vec<u8>,
    report: &Report<'_>,
    coverage: &mut Coverage,
    work: impl Fn(&mut Vec<u8>, &mut Coverage) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let help = move || {
            let mut coverage = Coverage::default();
            let result = work(&mut Vec::new(), &mut coverage);
            report.add(&coverage);
            result
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(help)).collect();
        let mut results = vec![work(buffer, coverage)];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                // The taker of findings panicked, or we did: either way not here.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}
