//! Values that were fetched and decompressed before, kept for the next reader.
//!
//! A value under an id never changes while a snapshot can see it, so nothing has to be kept up to date. Only
//! an id that is given to another value has to be forgotten: that happens before the new value has its first
//! chunk, and after the last snapshot that could read the old one is gone.
use core::fmt;
use std::sync::Arc;

use pgtoast_base::Oid8;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::RelationId;

/// What a value costs beside its bytes.
const ENTRY_BYTES: u64 = 64;
/// A value that takes more than such a part of the budget is not kept.
const LARGEST_PART: u64 = 4;

/// Names a value in the whole store.
type Key = (RelationId, Oid8);

/// The values, within a budget of bytes.
pub(crate) struct DetoastCache {
    values: Cache<Key, Arc<[u8]>, ByLength>,
    largest: u64,
}

/// What caching values has brought since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// Bytes that it holds, with what its entries cost.
    pub bytes: u64,
    /// Reads that found their value.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Values that it holds.
    pub values: u64,
}

#[derive(Clone)]
struct ByLength;

impl Weighter<Key, Arc<[u8]>> for ByLength {
    fn weight(&self, _: &Key, value: &Arc<[u8]>) -> u64 {
        value.len() as u64 + ENTRY_BYTES
    }
}

impl DetoastCache {
    pub(crate) fn new(bytes: u64) -> Self {
        let typical = 16 * 1024;
        let count = usize::try_from(bytes / typical).unwrap_or(usize::MAX).clamp(16, 1 << 20);
        Self { values: Cache::with_weighter(count, bytes, ByLength), largest: bytes / LARGEST_PART }
    }

    pub(crate) fn get(&self, relation: RelationId, value_id: Oid8) -> Option<Arc<[u8]>> {
        self.values.get(&(relation, value_id))
    }

    /// Whether a value of that length would be kept.
    pub(crate) fn takes(&self, len: usize) -> bool {
        len as u64 + ENTRY_BYTES <= self.largest
    }

    pub(crate) fn put(&self, relation: RelationId, value_id: Oid8, value: Arc<[u8]>) {
        if self.takes(value.len()) {
            self.values.insert((relation, value_id), value);
        }
    }

    /// The id gets another value.
    pub(crate) fn forget(&self, relation: RelationId, value_id: Oid8) {
        self.values.remove(&(relation, value_id));
    }

    pub(crate) fn statistics(&self) -> CacheStatistics {
        CacheStatistics {
            bytes: self.values.weight(),
            hits: self.values.hits(),
            misses: self.values.misses(),
            values: self.values.len() as u64,
        }
    }
}

impl fmt::Debug for DetoastCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetoastCache").field("statistics", &self.statistics()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_whatever_comes() {
        let cache = DetoastCache::new(100_000);
        let relation = RelationId::new(16_384);
        for (id, len) in (0..1000).zip((1..).step_by(40)) {
            let value: Arc<[u8]> = vec![1; len].into();
            cache.put(relation, Oid8::new(id), value);
            assert!(cache.statistics().bytes <= 100_000);
        }
        assert!(!cache.takes(25_000) && cache.takes(24_000));
        assert!(cache.get(relation, Oid8::new(999)).is_none(), "over a quarter of the budget");
    }

    #[test]
    fn an_id_that_is_given_again_has_no_old_value() {
        let cache = DetoastCache::new(100_000);
        let (relation, other) = (RelationId::new(16_384), RelationId::new(16_390));
        cache.put(relation, Oid8::new(1), [1; 10].as_slice().into());
        cache.put(other, Oid8::new(1), [2; 10].as_slice().into());
        cache.forget(relation, Oid8::new(1));
        assert!(cache.get(relation, Oid8::new(1)).is_none());
        assert_eq!(cache.get(other, Oid8::new(1)).as_deref(), Some(&[2; 10][..]));
    }
}
