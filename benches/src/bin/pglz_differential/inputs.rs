//! Values to compress, strategies, and damage to streams: deterministic from a seed.
#![expect(clippy::cast_possible_truncation, reason = "numbers drawn to fit")]
use anyhow::Result;
use pgtoast_benches::corpora::Corpus;
use pgtoast_pglz::Strategy;
use pgtoast_testkit::Rng;
use pgtoast_testkit::fixtures::Page;

/// Bytes of each kind of generated content that windows are cut from.
const CORPUS_BYTES: usize = 1 << 20;

/// What real values are cut from: pages that servers wrote, and content of every kind.
pub(crate) fn real() -> Result<Vec<Vec<u8>>> {
    let mut real: Vec<_> = Corpus::ALL.iter().map(|corpus| corpus.value(1, CORPUS_BYTES)).collect();
    real.extend(Page::load_all()?.into_iter().map(|page| page.bytes));
    Ok(real)
}

/// A sequence of inputs.
pub(crate) struct Inputs<'a> {
    rng: Rng,
    real: &'a [Vec<u8>],
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(seed: u64, real: &'a [Vec<u8>]) -> Self {
        Self { rng: Rng::new(seed), real }
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound)
    }

    /// A length about as large as `len`, or another altogether.
    pub(crate) fn near(&mut self, len: usize) -> usize {
        match self.rng.below(8) {
            0..4 => len,
            4 => len + self.rng.below(20),
            5 => len.saturating_sub(self.rng.below(20)),
            _ => self.rng.below(len + 1),
        }
    }

    /// Puts the next value in place of what `value` holds. Most are short: they make the count, and
    /// the ends of a value are where most can go wrong. One in some hundred is longer than the window.
    pub(crate) fn value(&mut self, value: &mut Vec<u8>) {
        let longest = match self.rng.below(10_000) {
            0..7000 => 160,
            7000..9000 => 700,
            9000..9850 => 2100,
            9850..9990 => 9000,
            9990..9999 => 70_000,
            _ => 600_000,
        };
        let len = self.rng.below(longest);
        value.clear();
        match self.rng.below(4) {
            0 => self.letters(value, len),
            1 | 2 => self.structured(value, len),
            _ => self.real(value, len),
        }
    }

    /// Letters of an alphabet of any size, each by itself.
    fn letters(&mut self, value: &mut Vec<u8>, len: usize) {
        let letters = self.rng.pick(&[1, 2, 3, 4, 8, 16, 64, 256]);
        let first = self.rng.below(256);
        value.extend((0..len).map(|_| (first + self.rng.below(letters)) as u8));
    }

    /// Runs, letters, and copies from any distance back, some of them longer than a match can be.
    fn structured(&mut self, value: &mut Vec<u8>, len: usize) {
        let letters = self.rng.pick(&[2, 3, 8, 64, 256]);
        let first = self.rng.pick(&[0, 0x20, 0x61, 0x70, 0xc0, 0xff]);
        let copies = self.rng.below(4);
        while value.len() < len {
            let longest = self.rng.pick(&[5, 5, 12, 40, 300, 1200]);
            let run = 1 + self.rng.below(longest);
            let back = 1 + self.rng.below(value.len().clamp(1, 4200));
            if self.rng.below(4) < copies && back <= value.len() {
                for _ in 0..run {
                    value.push(value[value.len() - back]);
                }
            } else if self.rng.below(6) == 0 {
                let letter = (first + self.rng.below(letters)) as u8;
                value.extend(std::iter::repeat_n(letter, run));
            } else {
                let run = run.min(24);
                value.extend((0..run).map(|_| (first + self.rng.below(letters)) as u8));
            }
        }
        value.truncate(len);
    }

    /// A window of something real, with some of its bytes changed.
    fn real(&mut self, value: &mut Vec<u8>, len: usize) {
        let content = &self.real[self.rng.below(self.real.len())];
        let len = len.min(content.len());
        let start = self.rng.below(content.len() - len + 1);
        value.extend_from_slice(&content[start..start + len]);
        if !value.is_empty() {
            for _ in 0..self.rng.pick(&[0, 0, 1, 2, 5, 30]) {
                let at = self.rng.below(value.len());
                value[at] = self.rng.below(256) as u8;
            }
        }
    }

    /// Mostly the two that servers use.
    pub(crate) fn strategy(&mut self) -> Strategy {
        match self.rng.below(10) {
            0..4 => Strategy::DEFAULT,
            4..8 => Strategy::ALWAYS,
            _ => Strategy {
                min_input_size: self.rng.below(40) as u32,
                max_input_size: self.rng.pick(&[100, 1000, i32::MAX as u32]),
                min_comp_rate: self.rng.below(110) as u32,
                first_success_by: self.rng.pick(&[20, 100, 1024, i32::MAX as u32]),
                match_size_good: self.rng.below(300) as u32,
                match_size_drop: self.rng.below(110) as u32,
            },
        }
    }

    /// Changes a stream somewhere.
    pub(crate) fn damage(&mut self, stream: &mut Vec<u8>) {
        let other = self.rng.below(256) as u8;
        if stream.is_empty() {
            return stream.push(other);
        }
        let at = self.rng.below(stream.len());
        match self.rng.below(16) {
            0 => stream.truncate(at),
            1 => stream.insert(at, other),
            2 => stream.push(other),
            3..8 => stream[at] ^= 1 << self.rng.below(8),
            8..10 => stream[at] = self.rng.pick(&[0, 1, 0x0f, 0xf0, 0xff]),
            _ => stream[at] = other,
        }
    }
}
