//! Compares pglz with PostgreSQL's C, execution by execution, and counts them.
//!
//! ```text
//! cargo run --release -p pgtoast-benches --bin pglz_differential -- --executions 100000000 --seed 1
//! ```
//! An execution is one value compressed by both, or one stream decompressed by both (ours by the fast
//! and by the safe reader). Where `libpgcommon.a` was not found, the naive twin stands in for it, which is
//! slow. `PGTOAST_PGCOMMON` at build time names another archive: one built with unsigned `char` is
//! compared with `--unsigned-char`.
//!
//! The exit status is 1 if anything differed.
mod inputs;

use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use pgtoast_benches::peers::pgcommon;
use pgtoast_benches::peers::pglz_c::PglzC;
use pgtoast_fuzzing::{PglzDifferential, PglzReference, PglzTwin};
use pgtoast_pglz::CharSign;

use inputs::Inputs;

/// Mismatches shown in full; the others are counted.
const SHOWN: u64 = 5;
/// Damaged streams a value.
const DAMAGED: usize = 6;

/// Compares pglz with PostgreSQL's C and counts what was compared.
#[derive(Parser)]
struct Options {
    /// How many executions.
    #[arg(long, default_value_t = 1_000_000)]
    executions: u64,
    /// Where the inputs start; each thread has its own sequence of it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Stop after so many seconds, whatever was done.
    #[arg(long)]
    seconds: Option<u64>,
    /// The archive was built with unsigned `char`.
    #[arg(long)]
    unsigned_char: bool,
}

/// What all threads have done.
#[derive(Default)]
struct Done {
    compressed: AtomicU64,
    decompressed: AtomicU64,
    accepted: AtomicU64,
    mismatches: AtomicU64,
}

impl Done {
    fn executions(&self) -> u64 {
        self.compressed.load(Ordering::Relaxed) + self.decompressed.load(Ordering::Relaxed)
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let sign = if options.unsigned_char { CharSign::Unsigned } else { CharSign::Signed };
    let done = Done::default();
    let started = Instant::now();
    let deadline = options.seconds.map(|seconds| started + Duration::from_secs(seconds));
    let is_over = || {
        done.executions() >= options.executions
            || deadline.is_some_and(|deadline| Instant::now() >= deadline)
    };
    if !pgcommon::AVAILABLE {
        writeln!(stderr(), "{}; comparing with the naive twin", pgcommon::ABSENT)?;
    }
    let real = inputs::real()?;
    thread::scope(|scope| {
        for thread in 0..options.threads {
            let inputs = Inputs::new(options.seed ^ thread << 48, &real);
            let (done, is_over) = (&done, &is_over);
            scope.spawn(move || match pgcommon::AVAILABLE {
                true => compare(PglzC::default(), sign, inputs, done, is_over),
                false => compare(PglzTwin { sign }, sign, inputs, done, is_over),
            });
        }
        let mut said = Instant::now();
        while !is_over() {
            thread::sleep(Duration::from_millis(200));
            if said.elapsed() > Duration::from_secs(20) {
                said = Instant::now();
                let mismatches = done.mismatches.load(Ordering::Relaxed);
                let _ =
                    writeln!(stderr(), "{} executions, {mismatches} mismatches", done.executions());
            }
        }
    });
    let mismatches = done.mismatches.load(Ordering::Relaxed);
    writeln!(
        stdout(),
        "{} executions in {:.0} s from seed {}: {} compressions, {} of them accepted; {} decompressions; \
         {mismatches} mismatches",
        done.executions(),
        started.elapsed().as_secs_f64(),
        options.seed,
        done.compressed.load(Ordering::Relaxed),
        done.accepted.load(Ordering::Relaxed),
        done.decompressed.load(Ordering::Relaxed),
    )?;
    Ok(if mismatches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares value after value until enough was done.
fn compare(
    reference: impl PglzReference,
    sign: CharSign,
    mut inputs: Inputs<'_>,
    done: &Done,
    is_over: &impl Fn() -> bool,
) {
    let mut both = PglzDifferential::new(reference, sign);
    let (mut value, mut stream) = (Vec::new(), Vec::new());
    while !is_over() {
        // The count is shared and the clock is asked once for some hundred executions.
        for _ in 0..32 {
            inputs.value(&mut value);
            let verdict = compare_value(&mut both, &mut inputs, &value, &mut stream, done);
            if let Err(mismatch) = verdict
                && done.mismatches.fetch_add(1, Ordering::Relaxed) < SHOWN
            {
                let _ = writeln!(stderr(), "{mismatch}");
            }
        }
        done.compressed.fetch_add(both.compressed, Ordering::Relaxed);
        done.decompressed.fetch_add(both.decompressed, Ordering::Relaxed);
        (both.compressed, both.decompressed) = (0, 0);
    }
}

/// Compresses a value, decompresses the stream whole and cut, and then with damage.
fn compare_value(
    both: &mut PglzDifferential<impl PglzReference>,
    inputs: &mut Inputs<'_>,
    value: &[u8],
    stream: &mut Vec<u8>,
    done: &Done,
) -> Result<(), String> {
    let strategy = inputs.strategy();
    stream.clear();
    match both.compress(value, &strategy)? {
        Some(accepted) => {
            stream.extend_from_slice(accepted);
            done.accepted.fetch_add(1, Ordering::Relaxed);
        }
        // What was refused is a stream as good as any: nearly all of them are corrupt.
        None => stream.extend_from_slice(&value[..value.len().min(64)]),
    }
    if value.is_empty() || stream.is_empty() {
        return Ok(());
    }
    both.decompress(stream, value.len(), true)?;
    both.decompress(stream, inputs.below(value.len() + 1), false)?;
    both.decompress(&stream[..inputs.below(stream.len() + 1)], value.len(), false)?;
    let mut damaged = stream.clone();
    for _ in 0..DAMAGED {
        inputs.damage(&mut damaged);
        let raw_len = inputs.near(value.len());
        let complete = inputs.below(2) == 0;
        both.decompress(&damaged, raw_len, complete)?;
        // In half of the cases damage adds up.
        if inputs.below(2) == 0 {
            damaged.clone_from(stream);
        }
    }
    Ok(())
}
