//! PostgreSQL's pglz as something that ours is compared with, call by call.
use pgtoast_fuzzing::PglzReference;
use pgtoast_pglz::Strategy;

use super::pgcommon::{self, CStrategy, Stream};

/// The functions of `libpgcommon.a`.
#[derive(Clone, Debug)]
pub struct PglzC {
    stream: Stream,
}

impl Default for PglzC {
    fn default() -> Self {
        Self { stream: Stream::new(&[]) }
    }
}

impl PglzReference for PglzC {
    fn compress(&mut self, source: &[u8], strategy: &Strategy, target: &mut [u8]) -> Option<usize> {
        pgcommon::compress(source, target, c_strategy(strategy))
    }

    fn decompress(&mut self, source: &[u8], target: &mut [u8], complete: bool) -> Option<usize> {
        self.stream.replace(source);
        if complete {
            pgcommon::decompress(&self.stream, target).then_some(target.len())
        } else {
            pgcommon::decompress_prefix(&self.stream, target)
        }
    }
}

/// The built-in one of these numbers, so that what is tested is what servers use, or the numbers.
fn c_strategy(strategy: &Strategy) -> CStrategy {
    if *strategy == Strategy::DEFAULT {
        return CStrategy::Default;
    }
    if *strategy == Strategy::ALWAYS {
        return CStrategy::Always;
    }
    let numbers = [
        strategy.min_input_size,
        strategy.max_input_size,
        strategy.min_comp_rate,
        strategy.first_success_by,
        strategy.match_size_good,
        strategy.match_size_drop,
    ];
    CStrategy::Custom(numbers.map(|number| i32::try_from(number).unwrap_or(i32::MAX)))
}
