//! Timing several ways of doing one piece of work against each other.
//!
//! A machine that is shared, hot or throttled changes its speed while it is measured. So nothing is
//! timed on its own: all contenders take turns inside one run, the turn order rotates from round to
//! round, and the medians of what each took are compared.
//!
//! What one thread computes is timed by the processor time it uses. On the clock, a busy machine would
//! favour the fast: a short sample slips through between two interruptions, a long one never does.
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// One timed pass over the work.
type Sample<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// The same work done by us and by others, to be timed in turns.
#[allow(missing_debug_implementations, reason = "it holds closures")]
pub struct Comparison<'a> {
    contenders: Vec<(&'static str, Sample<'a>)>,
    least_rounds: usize,
}

impl<'a> Comparison<'a> {
    /// Rounds that are run whatever the budget says; a median of fewer says nothing.
    const MIN_ROUNDS: usize = 3;
    /// Rounds after which more would not change a median worth printing.
    const MAX_ROUNDS: usize = 301;

    /// Our way, computed by the calling thread alone. One call should take a millisecond or more.
    pub fn of(ours: impl FnMut() + 'a) -> Self {
        Self::of_sample(processor_time(ours))
    }

    /// Our way, where the work itself knows how long it took.
    pub fn of_timed(ours: impl FnMut() -> Result<Duration> + 'a) -> Self {
        Self::of_sample(Box::new(ours))
    }

    fn of_sample(ours: Sample<'a>) -> Self {
        Self { contenders: vec![("ours", ours)], least_rounds: Self::MIN_ROUNDS }
    }

    /// Runs so many rounds whatever the budget says.
    #[must_use]
    pub fn at_least(mut self, rounds: usize) -> Self {
        self.least_rounds = rounds;
        self
    }

    /// Another's way of doing the same, by the calling thread alone.
    #[must_use]
    pub fn against(mut self, name: &'static str, peer: impl FnMut() + 'a) -> Self {
        self.contenders.push((name, processor_time(peer)));
        self
    }

    /// Another's way, where the work itself knows how long it took.
    #[must_use]
    pub fn against_timed(
        mut self,
        name: &'static str,
        peer: impl FnMut() -> Result<Duration> + 'a,
    ) -> Self {
        self.contenders.push((name, Box::new(peer)));
        self
    }

    /// Runs all of them once untimed, then in rounds until the budget is spent.
    ///
    /// # Errors
    /// What a contender fails with.
    pub fn run(mut self, budget: Duration) -> Result<Timings> {
        let count = self.contenders.len();
        for (_, sample) in &mut self.contenders {
            sample()?;
        }
        let started = Instant::now();
        let mut seconds = vec![Vec::new(); count];
        let mut round = 0;
        while round < self.least_rounds || (round < Self::MAX_ROUNDS && started.elapsed() < budget)
        {
            for turn in 0..count {
                let index = (turn + round) % count;
                seconds[index].push(self.contenders[index].1()?.as_secs_f64());
            }
            round += 1;
        }
        let mut medians = seconds.iter_mut().map(|samples| median(samples));
        let ours = medians.next().unwrap_or(f64::NAN);
        let peers = self.contenders.iter().skip(1).zip(medians);
        let peers = peers.map(|((name, _), seconds)| PeerTiming { name, seconds }).collect();
        Ok(Timings { ours, peers, rounds: round })
    }
}

/// What a comparison measured: medians, in seconds a pass.
#[derive(Clone, Debug)]
pub struct Timings {
    /// Ours.
    pub ours: f64,
    /// The others', in the order they were added.
    pub peers: Vec<PeerTiming>,
    /// How many samples each median is of.
    pub rounds: usize,
}

impl Timings {
    /// The seconds of a peer by its name, if it took part.
    #[must_use]
    pub fn peer(&self, name: &str) -> Option<f64> {
        self.peers.iter().find(|peer| peer.name == name).map(|peer| peer.seconds)
    }

    /// The same with one peer left out.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut rest = self.clone();
        rest.peers.retain(|peer| peer.name != name);
        rest
    }

    /// The same run with one of the peers, another way of ours, in the place of ours; which then is
    /// left out.
    #[must_use]
    pub fn seen_from(&self, name: &str) -> Self {
        let mut other = self.without(name);
        other.ours = self.peer(name).unwrap_or(f64::NAN);
        other
    }
}

/// What one peer took.
#[derive(Clone, Copy, Debug)]
pub struct PeerTiming {
    /// Its fixed name.
    pub name: &'static str,
    /// The median, in seconds a pass.
    pub seconds: f64,
}

fn processor_time<'a>(mut work: impl FnMut() + 'a) -> Sample<'a> {
    Box::new(move || {
        on_processor(|| {
            work();
            Ok(())
        })
    })
}

/// The processor time that some work of the calling thread takes.
pub(crate) fn on_processor(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let started = used_by_this_thread()?;
    work()?;
    Ok(used_by_this_thread()?.saturating_sub(started))
}

/// The processor time that the calling thread has used since it began.
fn used_by_this_thread() -> Result<Duration> {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Ok(Duration::new(u64::try_from(used.tv_sec)?, u32::try_from(used.tv_nsec)?))
}

/// The middle sample; of an even number, the mean of the two middle ones.
fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => samples[middle],
        _ => f64::midpoint(samples[middle - 1], samples[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_and_not_the_mean() {
        assert!((median(&mut [9.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
        assert!((median(&mut [1.0, 100.0, 3.0, 2.0]) - 2.5).abs() < 1e-12);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn waiting_is_not_work() {
        let timings = Comparison::of(|| std::thread::sleep(Duration::from_millis(20)))
            .against("busy", || {
                let started = Instant::now();
                while started.elapsed() < Duration::from_millis(20) {}
            })
            .run(Duration::ZERO)
            .unwrap();
        assert!(timings.ours < 0.01, "{timings:?}");
        // On a busy machine some of the 20 ms are others'.
        assert!(timings.peer("busy").is_some_and(|busy| busy > timings.ours), "{timings:?}");
    }

    #[test]
    fn contenders_take_turns_and_keep_their_names() {
        let order = std::cell::RefCell::new(String::new());
        let note = |letter| {
            let order = &order;
            move || {
                order.borrow_mut().push(letter);
                Ok(Duration::from_millis(if letter == 'o' { 1 } else { 3 }))
            }
        };
        let timings = Comparison::of_timed(note('o'))
            .against_timed("first", note('a'))
            .against_timed("second", note('b'))
            .run(Duration::ZERO)
            .unwrap();
        // Once each to warm up, then three rounds, each starting one further on.
        assert_eq!(order.into_inner(), ["oab", "oab", "abo", "boa"].concat());
        assert_eq!(timings.rounds, 3);
        assert_eq!(timings.peer("second"), Some(0.003));
        assert_eq!(timings.peer("third"), None);
        let from_second = timings.seen_from("second");
        assert_eq!((from_second.ours, from_second.peers.len()), (0.003, 1));
    }
}
