//! Splitting a page.
use alloc::vec;

use crate::descent::Path;
use crate::error::NbtreeError;
use crate::index::{Index, Latched, Result};
use crate::log::Action;
use crate::node::Node;
use crate::packer::{Packer, special_mut};
use crate::pages::IndexPages;
use crate::parent::end_split;
use crate::special::{NodeFlags, Special};
use crate::split_point::SplitPoint;
use crate::tuple::{IndexTuple, OwnedTuple, without_key};

impl<P: IndexPages> Index<P> {
    /// Splits a page so that a tuple comes to lie at an item, and gives the new page its downlink.
    /// Everything that can fail is done before the first byte is changed.
    #[expect(clippy::cast_possible_truncation, reason = "lengths in a page")]
    pub(crate) fn split<'a>(
        &'a self,
        (block, mut page): Latched<'a, P>,
        item: u16,
        tuple: &OwnedTuple,
        child: Option<Latched<'a, P>>,
        path: &mut Path,
    ) -> Result<(), P> {
        let block_size = self.pages().block_size();
        let node = Node::parse(&page, block)?;
        let was_root = node.flags().contains(NodeFlags::ROOT);
        let was_alone = node.is_rightmost() && node.special().prev().is_none();
        let next = node.special().next();
        let halves = Halves::of(&node, self.width(), item, tuple)?;

        let mut sibling = match next {
            Some(next) if next == block || child.as_ref().is_some_and(|child| child.0 == next) => {
                return Err(NbtreeError::Cycle { block: block.get() }.into());
            }
            Some(next) => {
                path.expect_free(next)?;
                Some((next, self.latch_write(next)?))
            }
            None => None,
        };
        let mut cycle_of_sibling = 0;
        if let Some((next, page)) = &sibling {
            let special = *Node::parse(page, *next)?.special();
            cycle_of_sibling = special.cycle_id();
            if special.prev() != Some(block) {
                return Err(NbtreeError::Sibling {
                    block: next.get(),
                    expected: block.get(),
                    found: special.prev.get(),
                }
                .into());
            }
        }
        // The pages are laid out beside the old one, which is still needed for that.
        let mut scratch = vec![0; 2 * block_size.bytes()];
        let (left_bytes, right_bytes) = scratch.split_at_mut(block_size.bytes());
        let level = node.special().level();
        let mut flags = kept_flags(node.flags());
        let mut right_special = Special::new(Some(block), next, level, flags);
        if cycle_of_sibling != 0 {
            right_special.set_flags(flags | NodeFlags::SPLIT_END);
        }
        flags |= NodeFlags::INCOMPLETE_SPLIT;
        let left_special = Special::new(node.special().prev(), Some(block), level, flags);
        let mut left_packer = Packer::new(left_bytes, block_size, left_special);
        let mut right_packer = Packer::new(right_bytes, block_size, right_special);
        let no_room = NbtreeError::NoSplitPoint { block: block.get() };
        halves.pack(&node, &mut left_packer, &mut right_packer)?.ok_or(no_room)?;
        left_packer.finish();
        right_packer.finish();

        let (right, mut right_page) = self.allocate()?;
        special_mut(left_bytes).set_next(Some(right));
        page.copy_from_slice(left_bytes);
        right_page.copy_from_slice(right_bytes);
        if let Some((_, page)) = &mut sibling {
            special_mut(page).set_prev(Some(right));
        }
        let right_node = Node::parse(&right_page, right)?;
        let action = Action::Split {
            left_tuple_len: if halves.point.new_on_left { tuple.len() as u16 } else { 0 },
            high_key_len: halves.high_key.len() as u16,
            right_items_len: items_len(&right_node) as u16,
            with_right_sibling: sibling.is_some(),
            with_child: child.is_some(),
        };
        let is_leaf = right_node.is_leaf();
        if is_leaf && right_node.is_rightmost() {
            self.rightmost.set(right);
        }
        let mut child = child;
        if let Some((_, page)) = &mut child {
            end_split(page);
        }
        match (&mut sibling, &mut child) {
            (Some((next, next_page)), Some((below, below_page))) => self.pages().log(
                &action,
                &mut [
                    (block, &mut page),
                    (right, &mut right_page),
                    (*next, next_page),
                    (*below, below_page),
                ],
            ),
            (Some((other, other_page)), None) | (None, Some((other, other_page))) => {
                self.pages().log(
                    &action,
                    &mut [(block, &mut page), (right, &mut right_page), (*other, other_page)],
                );
            }
            (None, None) => {
                self.pages().log(&action, &mut [(block, &mut page), (right, &mut right_page)]);
            }
        }
        drop((sibling, child));
        self.insert_into_parent((block, page), (right, right_page), was_root, was_alone, path)
    }
}

/// Bytes of all items of a sound page.
fn items_len(node: &Node<'_>) -> usize {
    (1..=node.count()).filter_map(|item| node.pointer(item)).map(|lp| usize::from(lp.len())).sum()
}

/// What goes where in a split.
struct Halves<'a> {
    point: SplitPoint,
    item: u16,
    tuple: &'a OwnedTuple,
    high_key: OwnedTuple,
}

impl<'a> Halves<'a> {
    fn of(
        node: &Node<'_>,
        width: crate::KeyWidth,
        item: u16,
        tuple: &'a OwnedTuple,
    ) -> core::result::Result<Self, NbtreeError> {
        let point = SplitPoint::choose(node, width, item, tuple)?;
        let first_right = point.first_right_tuple(node, item, tuple.view())?;
        let bad = NbtreeError::ItemColumns {
            block: node.block().get(),
            item: point.first_right,
            found: first_right.pivot_columns(),
        };
        let high_key = if node.is_leaf() {
            let last_left = point.last_left_tuple(node, item, tuple.view())?;
            OwnedTuple::bound(width, last_left, first_right)
        } else {
            OwnedTuple::pivot(first_right, first_right.tid().block)
        };
        Ok(Self { point, item, tuple, high_key: high_key.ok_or(bad)? })
    }

    /// Lays out both pages; `None` if something does not fit.
    fn pack(
        &self,
        node: &Node<'_>,
        left: &mut Packer<'_>,
        right: &mut Packer<'_>,
    ) -> core::result::Result<Option<()>, NbtreeError> {
        let mut fits = left.push(self.high_key.bytes()).is_some();
        if !node.is_rightmost() {
            fits &= right.push(node.item(1)?).is_some();
        }
        let mut is_first_right = !node.is_leaf();
        let mut push_right = |tuple: IndexTuple<'_>| {
            if core::mem::take(&mut is_first_right) {
                right.push(without_key(tuple).bytes())
            } else {
                right.push(tuple.bytes())
            }
        };
        for item in node.first()..=node.count() {
            if item == self.item {
                fits &= match self.point.new_on_left {
                    true => left.push(self.tuple.bytes()),
                    false => push_right(self.tuple.view()),
                }
                .is_some();
            }
            let tuple = node.tuple(item)?;
            fits &= match item < self.point.first_right {
                true => left.push(tuple.bytes()),
                false => push_right(tuple),
            }
            .is_some();
        }
        if self.item > node.count() {
            fits &= match self.point.new_on_left {
                true => left.push(self.tuple.bytes()),
                false => push_right(self.tuple.view()),
            }
            .is_some();
        }
        Ok(fits.then_some(()))
    }
}

/// Flags that a page keeps through a split.
fn kept_flags(flags: NodeFlags) -> NodeFlags {
    flags.difference(NodeFlags::ROOT | NodeFlags::SPLIT_END | NodeFlags::HAS_GARBAGE)
}
