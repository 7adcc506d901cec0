//! Which values rows have, a part of them at a time.
//!
//! ```text
//! ids      0 ... from | those that are kept | end ... highest
//!           done before   in order, once each   left to the next part
//! ```
use pgtoast_base::Oid8;

/// The lowest ids from one on of those that were added: as many as the limit allows, at least.
#[derive(Debug)]
pub(super) struct References {
    ids: Vec<u64>,
    from: u64,
    /// This one and those above were left out.
    end: Option<u64>,
    limit: usize,
}

impl References {
    /// Keeps ids from `from` on, at most twice `limit` of them at a time.
    pub(super) fn new(from: u64, limit: usize) -> Self {
        Self { ids: Vec::new(), from, end: None, limit: limit.max(1) }
    }

    pub(super) fn add(&mut self, value_id: Oid8) {
        let id = value_id.get();
        if id < self.from || self.end.is_some_and(|end| id >= end) {
            return;
        }
        self.ids.push(id);
        if self.ids.len() >= 2 * self.limit {
            self.sort();
        }
    }

    /// Brings what was added in order.
    pub(super) fn sort(&mut self) {
        self.ids.sort_unstable();
        self.ids.dedup();
        if let Some(&first_out) = self.ids.get(self.limit) {
            self.end = Some(first_out);
            self.ids.truncate(self.limit);
        }
    }

    /// Whether a row has that value, of those that are kept. They are in order.
    pub(super) fn contains(&self, value_id: Oid8) -> bool {
        self.ids.binary_search(&value_id.get()).is_ok()
    }

    /// The first id above those that are kept that a row has, if there is one.
    pub(super) fn end(&self) -> Option<u64> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_each_id_once_and_in_order() {
        let ids = [9_u64, 4, 4, 100, 7, 4, 12, 9, 3, 55, 8, 3];
        let mut found = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next {
            let mut part = References::new(from, 2);
            ids.iter().for_each(|&id| part.add(Oid8::new(id)));
            part.sort();
            let end = part.end().unwrap_or(u64::MAX);
            found.extend((from..end.min(200)).filter(|&id| part.contains(Oid8::new(id))));
            next = part.end();
        }
        assert_eq!(found, [3, 4, 7, 8, 9, 12, 55, 100]);
    }
}
