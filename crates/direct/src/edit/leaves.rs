//! Which leaves of a tall tree a change touches, and what takes their place.
use alloc::vec::Vec;

use super::{Change, Entry, Fresh, Plan, cuts, number};
use crate::draft::SHIFTED;
use crate::tree::{Level, Tree, to_i64};
use crate::{ChunkStore, DirectError, Failure};

/// What to do about a change in a tall tree.
pub(super) fn tall<S: ChunkStore>(
    mut tree: Tree<'_, S>,
    change: &Change<'_>,
) -> Result<Plan, Failure<S::Error>> {
    let mut plan = Plan { root_seq: tree.root_seq(), ..Plan::default() };
    if change.is_patch() {
        patch(&mut tree, change, &mut plan)?;
    } else {
        reshape(&mut tree, change, &mut plan)?;
    }
    plan.levels = tree.leaf_level().unwrap_or(1);
    if let Some(root) = tree.root() {
        plan.root = root.tid;
        plan.children = children_of(root)?;
    }
    Ok(plan)
}

/// The children of a held node.
pub(super) fn children_of<T: core::ops::Deref<Target = [u8]>>(
    node: &Level<T>,
) -> Result<Vec<Entry>, DirectError> {
    let (bounds, len) = (node.bounds(), node.range.len());
    let mut children = Vec::with_capacity(node.tids().len());
    let mut end = node.range.start;
    for (index, tid) in node.tids().iter().enumerate() {
        let range = bounds.child(node.tid, index, len)?;
        if range.start != end {
            let (start, end) = (to_i64(range.start), to_i64(range.end));
            return Err(DirectError::Bounds { tid: node.tid, child: index, start, end, len });
        }
        end = range.end;
        children.push(Entry { tid: tid.get(), len: range.len(), seq: 0, at: range.start });
    }
    Ok(children)
}

/// Each leaf that holds changed bytes is replaced by one of the same length and number.
fn patch<S: ChunkStore>(
    tree: &mut Tree<'_, S>,
    change: &Change<'_>,
    plan: &mut Plan,
) -> Result<(), Failure<S::Error>> {
    let mut at = change.offset;
    while at < change.end() {
        // Of leaves that are overwritten whole only the place matters, and in an edited tree the number.
        let range = tree.leaf_range(at)?;
        let is_whole = change.offset <= range.start && range.end <= change.end();
        let is_known = is_whole && !tree.is_edited();
        let seq = if is_known {
            number(0, range.start / tree.chunk_bytes())
        } else {
            let leaf = tree.leaf(at)?;
            if range.start < change.offset {
                plan.head = leaf.bytes()[..change.offset - range.start].to_vec();
            }
            if range.end > change.end() {
                plan.tail = leaf.bytes()[change.end() - range.start..].to_vec();
            }
            leaf.seq
        };
        if plan.fresh.is_empty() {
            plan.touched.start = range.start;
        }
        plan.fresh.push(Fresh { len: range.len(), seq, at: range.start });
        plan.touched.end = range.end;
        at = range.end;
    }
    Ok(())
}

/// The leaves at both ends of what changes are cut anew together with what is inserted.
fn reshape<S: ChunkStore>(
    tree: &mut Tree<'_, S>,
    change: &Change<'_>,
    plan: &mut Plan,
) -> Result<(), Failure<S::Error>> {
    let (offset, chunk_bytes) = (change.offset, tree.chunk_bytes());
    // An insertion goes with the leaf before it, where there is one.
    let first_at = if change.removed == 0 { offset.saturating_sub(1) } else { offset };
    let first = tree.leaf(first_at)?;
    let mut first_seq = first.seq;
    let mut at = first.start;
    let range = first.range();
    if change.removed == 0 && offset == range.end && range.len() >= chunk_bytes {
        plan.touched = offset..offset;
        at = first_at;
        first_seq = number(first_seq, 1);
    } else if change.removed == 0 {
        plan.touched = range.clone();
        plan.head = first.bytes()[..offset - range.start].to_vec();
        plan.tail = first.bytes()[offset - range.start..].to_vec();
    } else {
        plan.head = first.bytes()[..offset - range.start].to_vec();
        let last =
            if range.contains(&(change.end() - 1)) { first } else { tree.leaf(change.end() - 1)? };
        plan.tail = last.bytes()[change.end() - last.start..].to_vec();
        plan.touched = range.start..last.range().end;
    }
    // What would be a short leaf goes into the one before it, if both fit one. Where leaves have trailers,
    // one is written anew in any case, to say how long the value is.
    let fresh_len = plan.head.len() + change.inserted.len() + plan.tail.len();
    let is_short = fresh_len < chunk_bytes / 2 && (fresh_len > 0 || tree.has_trailers());
    if is_short && plan.touched.start > 0 && !plan.touched.is_empty() {
        let before = tree.leaf(plan.touched.start - 1)?;
        if before.data.len() + fresh_len <= chunk_bytes {
            plan.head.splice(0..0, before.bytes().iter().copied());
            plan.touched.start = before.start;
            (at, first_seq) = (before.start, before.seq);
        }
    } else if fresh_len == 0 && tree.has_trailers() {
        let after = tree.leaf(plan.touched.end)?;
        plan.tail = after.bytes().to_vec();
        plan.touched.end = after.range().end;
    }
    plan.is_at_end = plan.touched.end == change.value_len;
    let fresh_len = plan.head.len() + change.inserted.len() + plan.tail.len();
    let cuts = cuts(fresh_len, chunk_bytes, plan.is_at_end);
    if tree.has_trailers() && !plan.is_at_end {
        // Numbers say no longer where leaves belong, for whoever has to rebuild the value.
        first_seq |= SHIFTED.cast_signed();
    }
    plan.fresh.extend((cuts.into_iter().enumerate()).map(|(index, len)| Fresh {
        len,
        seq: number(first_seq, index),
        at,
    }));
    Ok(())
}
