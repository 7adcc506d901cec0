//! Command ids of tuples that a transaction both made and ended: one field has to tell two numbers.
use hashbrown::HashMap;

/// The pairs, numbered as they came. Tuples hold the number.
#[doc(alias = "combocid")]
#[derive(Debug, Default)]
pub(super) struct CombinedCommands {
    pairs: Vec<(u32, u32)>,
    numbers: HashMap<(u32, u32), u32>,
}

impl CombinedCommands {
    /// The number of that pair. There are no more pairs than rows written, each in a command of its
    /// own, so the numbers do not end before the commands do.
    pub(super) fn number(&mut self, cmin: u32, cmax: u32) -> u32 {
        let Self { pairs, numbers } = self;
        *numbers.entry((cmin, cmax)).or_insert_with(|| {
            let number = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
            pairs.push((cmin, cmax));
            number
        })
    }

    /// The pair of that number; twice the number if it has none, which no tuple of this transaction
    /// holds.
    pub(super) fn pair(&self, number: u32) -> (u32, u32) {
        self.pairs.get(number as usize).copied().unwrap_or((number, number))
    }

    pub(super) fn clear(&mut self) {
        if !self.pairs.is_empty() {
            *self = Self::default();
        }
    }
}
