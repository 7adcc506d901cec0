//! The tree itself.
use pgtoast_base::BlockNumber;

use crate::error::{IndexError, NbtreeError};
use crate::key::KeyWidth;
use crate::meta::Meta;
use crate::pages::IndexPages;
use crate::sync::Hint;

/// An index over `(chunk_id, chunk_seq)`.
///
/// All methods take it by reference: with pages that threads share, so is the index.
#[derive(Debug)]
pub struct Index<P> {
    pages: P,
    width: KeyWidth,
    /// The leaf that the last ascending insert went to.
    pub(crate) rightmost: Hint,
    /// The page that the last search started at.
    pub(crate) start: Hint,
}

pub(crate) type Result<T, P> = core::result::Result<T, IndexError<<P as IndexPages>::Error>>;

impl<P: IndexPages> Index<P> {
    /// A new index without entries: one metapage. A server makes the same of an empty table, and of
    /// an index whose condition no row meets.
    ///
    /// # Errors
    /// The storage's own; [`NbtreeError::Flags`] if it has pages already.
    pub fn create(pages: P, width: KeyWidth) -> Result<Self, P> {
        let block_size = pages.block_size();
        {
            let (block, mut page) = pages.extend().map_err(IndexError::Storage)?;
            if block != Meta::BLOCK {
                return Err(NbtreeError::Flags { block: block.get(), found: 0 }.into());
            }
            Meta::new(None, 0).init(&mut page, block_size);
        }
        Ok(Self::new(pages, width))
    }

    /// An index that is there.
    ///
    /// # Errors
    /// [`NbtreeError::Meta`], [`NbtreeError::Missing`], the storage's own.
    pub fn open(pages: P, width: KeyWidth) -> Result<Self, P> {
        let index = Self::new(pages, width);
        index.meta()?;
        Ok(index)
    }

    fn new(pages: P, width: KeyWidth) -> Self {
        Self { pages, width, rightmost: Hint::none(), start: Hint::none() }
    }

    /// The pages.
    pub fn pages(&self) -> &P {
        &self.pages
    }

    /// The pages, which nobody else can be using.
    pub fn pages_mut(&mut self) -> &mut P {
        &mut self.pages
    }

    /// Ends with the pages.
    pub fn into_pages(self) -> P {
        self.pages
    }

    /// How wide its ids are.
    pub fn width(&self) -> KeyWidth {
        self.width
    }

    /// What the metapage says.
    ///
    /// # Errors
    /// [`NbtreeError::Meta`], [`NbtreeError::Missing`], the storage's own.
    pub fn meta(&self) -> Result<Meta, P> {
        Ok(Meta::parse(&self.latch_read(Meta::BLOCK)?)?)
    }

    /// Where searches start, and its level, as the metapage says.
    #[cold]
    pub(crate) fn fast_root(&self) -> Result<Option<(BlockNumber, u32)>, P> {
        let root = Meta::view(&self.latch_read(Meta::BLOCK)?)?.fast_root();
        if let Some((block, _)) = root {
            self.start.set(block);
        }
        Ok(root)
    }

    #[inline]
    pub(crate) fn latch_read(&self, block: BlockNumber) -> Result<P::Read<'_>, P> {
        let page = self.pages.read(block).map_err(IndexError::Storage)?;
        page.ok_or(NbtreeError::Missing { block: block.get() }.into())
    }

    #[inline]
    pub(crate) fn latch_write(&self, block: BlockNumber) -> Result<P::Write<'_>, P> {
        let page = self.pages.write(block).map_err(IndexError::Storage)?;
        page.ok_or(NbtreeError::Missing { block: block.get() }.into())
    }
}

/// A latched page and its number.
pub(crate) type Latched<'a, P> = (BlockNumber, <P as IndexPages>::Write<'a>);
