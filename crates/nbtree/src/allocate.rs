//! Pages to be used, new ones and ones that have left the tree.
use pgtoast_page::PageHeader;

use pgtoast_base::BlockNumber;

use crate::error::IndexError;
use crate::index::{Index, Latched, Result};
use crate::log::Action;
use crate::meta::Meta;
use crate::node::Node;
use crate::packer;
use crate::pages::IndexPages;
use crate::special::{NodeFlags, Special};
use crate::sync::mutated;

impl<P: IndexPages> Index<P> {
    /// A page that nobody uses, latched; its contents are whatever they are.
    pub(crate) fn allocate(&self) -> Result<Latched<'_, P>, P> {
        while let Some(block) = self.pages().take_free() {
            // Somebody may still be led there, and have it latched for a moment.
            let Some(page) = self.pages().try_write(block).map_err(IndexError::Storage)? else {
                continue;
            };
            if self.may_be_used(block, &page) {
                return Ok((block, page));
            }
        }
        self.pages().extend().map_err(IndexError::Storage)
    }

    /// Whether a page was never used, or left the tree so long ago that nobody is led to it any more.
    pub(crate) fn may_be_used(&self, block: BlockNumber, page: &[u8]) -> bool {
        match Node::parse(page, block) {
            Ok(node) if node.flags().contains(NodeFlags::DELETED) => {
                let xid = page.get(PageHeader::LEN..).and_then(|rest| rest.first_chunk());
                let xid = u64::from_le_bytes(xid.copied().unwrap_or_default());
                // Releases before 14 kept 32 bits elsewhere; those pages wait for a rebuild.
                let known = node.flags().contains(NodeFlags::HAS_FULLXID);
                (known && self.pages().is_past(xid)) || mutated!(ReuseAtOnce)
            }
            Ok(_) => false,
            Err(_) => page.iter().all(|byte| *byte == 0),
        }
    }

    /// A page that was allocated and is not needed: as if it never was.
    pub(crate) fn give_back<'a>(&'a self, block: BlockNumber, mut page: P::Write<'a>) {
        page.fill(0);
        drop(page);
        self.pages().put_free(block);
    }

    /// Makes the first leaf, unless someone else just did: its block.
    pub(crate) fn first_leaf(&self) -> Result<BlockNumber, P> {
        let mut meta_page = self.latch_write(Meta::BLOCK)?;
        let mut meta = Meta::parse(&meta_page)?;
        if let Some((root, level)) = meta.fast_root() {
            // It may have been split too; a new start finds that out.
            return match level {
                0 => Ok(root),
                _ => {
                    drop(meta_page);
                    self.leftmost(0)
                }
            };
        }
        let (block, mut page) = self.allocate()?;
        let flags = NodeFlags::LEAF | NodeFlags::ROOT;
        packer::init(&mut page, self.pages().block_size(), Special::new(None, None, 0, flags));
        meta.set_root(block, 0);
        meta.store(&mut meta_page);
        let pages = &mut [(block, &mut page), (Meta::BLOCK, &mut meta_page)];
        self.pages().log(&Action::NewRoot { items_len: 0 }, pages);
        Ok(block)
    }
}
