//! One page of an index, for whoever wants to look into it.
use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid, Oid8};

use crate::error::NbtreeError;
use crate::key::{Key, KeyWidth};
use crate::node::Node;
use crate::special::Special;
use crate::tuple::{KEY_COLUMNS, Tids};

/// A page of an index other than the metapage, read from any bytes without trust.
#[derive(Clone, Copy)]
pub struct NodePage<'a> {
    node: Node<'a>,
    width: KeyWidth,
}

impl<'a> NodePage<'a> {
    /// Any bytes as long as a block of an index; `block` is for messages.
    ///
    /// # Errors
    /// [`NbtreeError::Page`] when the header is not that of an index page, [`NbtreeError::Flags`] for
    /// the metapage.
    pub fn parse(
        bytes: &'a [u8],
        block: BlockNumber,
        width: KeyWidth,
    ) -> Result<Self, NbtreeError> {
        Ok(Self { node: Node::parse(bytes, block)?, width })
    }

    /// Links, level and flags.
    #[must_use]
    pub fn special(&self) -> &'a Special {
        self.node.special()
    }

    /// How many items there are, the high key included; 0 in a deleted page.
    #[must_use]
    pub fn item_count(&self) -> u16 {
        self.node.count()
    }

    /// The first item that is not the high key.
    #[must_use]
    pub fn first_data_item(&self) -> OffsetNumber {
        OffsetNumber::new(self.node.first())
    }

    /// Bytes between line pointers and items.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.node.free_bytes()
    }

    /// Whether an item is marked dead.
    #[must_use]
    pub fn is_dead(&self, item: OffsetNumber) -> bool {
        self.node.is_dead(item.get())
    }

    /// An item.
    ///
    /// # Errors
    /// [`NbtreeError::ItemOutside`], [`NbtreeError::ItemColumns`].
    pub fn entry(&self, item: OffsetNumber) -> Result<Entry<'a>, NbtreeError> {
        let (item, block) = (item.get(), self.node.block().get());
        let tuple = self.node.tuple(item)?;
        let outside = NbtreeError::ItemOutside { block, item };
        if self.node.is_leaf() && item >= self.node.first() {
            let key = self.node.key(self.width, item)?;
            return Ok(Entry::Row { key, tids: RowTids(tuple.tids().ok_or(outside)?) });
        }
        let (columns, data) = (tuple.pivot_columns(), tuple.bytes());
        if columns > KEY_COLUMNS || !tuple.is_pivot() {
            return Err(NbtreeError::ItemColumns { block, item, found: columns });
        }
        Ok(Entry::Pivot {
            chunk_id: if columns > 0 { Some(id(data, self.width).ok_or(outside)?) } else { None },
            chunk_seq: if columns > 1 {
                Some(tuple.key(self.width).ok_or(outside)?.chunk_seq)
            } else {
                None
            },
            tid: tuple.pivot_tid(),
            child: tuple.tid().block,
        })
    }

    /// Every item with its number, in order.
    pub fn entries(
        &self,
    ) -> impl Iterator<Item = (OffsetNumber, Result<Entry<'a>, NbtreeError>)> + use<'a> {
        let this = *self;
        (1..=self.node.count()).map(OffsetNumber::new).map(move |item| (item, this.entry(item)))
    }
}

impl core::fmt::Debug for NodePage<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NodePage").field("special", self.special()).finish_non_exhaustive()
    }
}

fn id(tuple: &[u8], width: KeyWidth) -> Option<Oid8> {
    match width {
        KeyWidth::Oid => {
            let bytes = tuple.get(8..12)?.first_chunk()?;
            Some(Oid::new(u32::from_le_bytes(*bytes)).into())
        }
        KeyWidth::Oid8 => Some(Oid8::new(u64::from_le_bytes(*tuple.get(8..16)?.first_chunk()?))),
    }
}

/// What an item is.
#[derive(Clone, Debug)]
pub enum Entry<'a> {
    /// A bound: a high key, or a downlink. What it lacks is below everything.
    Pivot {
        /// The id, unless it lacks it.
        chunk_id: Option<Oid8>,
        /// The number of the chunk, unless it lacks it.
        chunk_seq: Option<i32>,
        /// The tid, if nothing else tells its sides apart.
        tid: Option<ItemPointer>,
        /// The block that a downlink leads to. In a leaf's high key: the heap block of the row that it
        /// was made from.
        child: BlockNumber,
    },
    /// Where rows are.
    Row {
        /// Their key.
        key: Key,
        /// One tid, or those of a posting list.
        tids: RowTids<'a>,
    },
}

/// The tids of one item, in order.
#[derive(Clone, Debug)]
pub struct RowTids<'a>(Tids<'a>);

impl Iterator for RowTids<'_> {
    type Item = ItemPointer;

    fn next(&mut self) -> Option<ItemPointer> {
        self.0.next()
    }
}
