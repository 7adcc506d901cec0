//! A change of a value whose root is its last chunk, or its only one.
use alloc::vec::Vec;

use super::{Change, Entry, Fresh, Plan, cuts, number};
use crate::draft::SHIFTED;
use crate::tree::Tree;
use crate::{ChunkStore, Failure};

/// What to do about a change of a small value: as in a tall tree, but that the last chunk is in the root,
/// which is written anew in any case.
pub(super) fn plan<S: ChunkStore>(
    mut tree: Tree<'_, S>,
    change: &Change<'_>,
) -> Result<Plan, Failure<S::Error>> {
    let chunk_bytes = tree.chunk_bytes();
    let mut plan = Plan { root_seq: tree.root_seq(), ..Plan::default() };
    let own_start = tree.own_start();
    let root = tree.leaf(own_start)?;
    plan.root = root.tid;
    if let Some(root) = tree.root() {
        // What is known of the numbers in an edited tree is that they are below the root's.
        let (is_edited, highest) = (tree.is_edited(), (plan.root_seq - 1).max(0));
        let entry = |(index, tid): (usize, &pgtoast_base::ItemPointerData)| Entry {
            tid: tid.get(),
            len: chunk_bytes,
            seq: if is_edited { highest } else { number(0, index) },
            at: index * chunk_bytes,
        };
        plan.children = root.tids().iter().enumerate().map(entry).collect();
    }
    // From the leaf that holds the first changed byte to that which holds the last; what is put in
    // between two leaves goes with the second, or with the last chunk.
    let first = (change.offset / chunk_bytes * chunk_bytes).min(own_start);
    let last_byte = if change.removed == 0 { change.offset } else { change.end() - 1 };
    let last_byte = last_byte.min(change.value_len - 1);
    let last_start = (last_byte / chunk_bytes * chunk_bytes).min(own_start);
    let last_end = (last_start + chunk_bytes).min(change.value_len);
    let (offset, end) = (change.offset, change.end());
    if first < offset {
        plan.head = tree.leaf(first)?.bytes()[..offset - first].to_vec();
    }
    if end < last_end {
        plan.tail = tree.leaf(last_start)?.bytes()[end - last_start..].to_vec();
    }
    plan.touched = first..last_end;
    plan.is_at_end = last_end == change.value_len;
    if !plan.is_at_end {
        plan.own = Some(root.bytes().to_vec());
    }
    let fresh_len = plan.head.len() + change.inserted.len() + plan.tail.len();
    let lens: Vec<_> = if change.is_patch() {
        cuts(fresh_len, chunk_bytes, true)
    } else {
        cuts(fresh_len, chunk_bytes, plan.is_at_end)
    };
    let mut first_seq = number(0, first / chunk_bytes);
    if tree.has_trailers() && !change.is_patch() && !plan.is_at_end {
        first_seq |= SHIFTED.cast_signed();
    }
    plan.fresh.extend((lens.into_iter().enumerate()).map(|(index, len)| Fresh {
        len,
        seq: number(first_seq, index),
        at: first,
    }));
    // A chunk has to be the root: if the last that is left is an old leaf, that one.
    if plan.fresh.is_empty() && plan.own.is_none() {
        let at = first.saturating_sub(chunk_bytes);
        plan.own = Some(tree.leaf(at)?.bytes().to_vec());
        plan.touched.start = at;
    }
    Ok(plan)
}
