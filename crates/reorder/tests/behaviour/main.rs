//! What a reorder buffer holds, hands out, spills and streams.
mod common;
mod direct_values;
mod eviction;
mod fragmentation;
mod orphan_chunks;
mod spill_files;
mod unchanged_values;
