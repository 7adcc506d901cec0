//! Where the pages of a map are: the map asks for them by their number in the fork.
#[cfg(any(doc, feature = "alloc"))]
use crate::Geometry;

/// What is about to be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Bytes may change, and the change is worth writing out.
    Change,
    /// Only where the next search starts may change: it need not be written, nor logged, ever.
    Hint,
    /// Nothing changes.
    Read,
}

/// The pages of a map: their contents, without the page headers.
///
/// An implementation over a cache pins and latches a page for the time of one call; the map never
/// asks for a page while it holds another.
pub trait MapPages {
    /// Why a page could not be had. `Infallible` for pages in memory.
    type Error;

    /// Pages that there are, numbered from 0.
    ///
    /// # Errors
    /// The storage's own.
    fn page_count(&self) -> Result<u32, Self::Error>;

    /// Runs `work` on the [`Geometry::content_bytes`] bytes behind a page's header; `None` if there
    /// is no such page. A page that cannot be read, or whose checksum is wrong, should be handed
    /// over as zeros: the map is a hint and mends itself.
    ///
    /// # Errors
    /// The storage's own.
    fn with<R>(
        &mut self,
        page: u32,
        access: Access,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>, Self::Error>;

    /// Adds pages of zeros until there are `page_count`; does nothing if there are.
    ///
    /// # Errors
    /// The storage's own.
    fn extend(&mut self, page_count: u32) -> Result<(), Self::Error>;

    /// Drops pages from the end until there are `page_count`; does nothing if there are fewer.
    ///
    /// # Errors
    /// The storage's own.
    fn truncate(&mut self, page_count: u32) -> Result<(), Self::Error>;
}

impl<P: MapPages + ?Sized> MapPages for &mut P {
    type Error = P::Error;

    fn page_count(&self) -> Result<u32, Self::Error> {
        (**self).page_count()
    }

    fn with<R>(
        &mut self,
        page: u32,
        access: Access,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>, Self::Error> {
        (**self).with(page, access, work)
    }

    fn extend(&mut self, page_count: u32) -> Result<(), Self::Error> {
        (**self).extend(page_count)
    }

    fn truncate(&mut self, page_count: u32) -> Result<(), Self::Error> {
        (**self).truncate(page_count)
    }
}

/// Pages in memory, one behind the other, headers left out.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VecPages {
    content_bytes: usize,
    bytes: alloc::vec::Vec<u8>,
}

#[cfg(feature = "alloc")]
impl VecPages {
    /// No pages yet.
    #[must_use]
    pub const fn new(geometry: Geometry) -> Self {
        Self { content_bytes: geometry.content_bytes(), bytes: alloc::vec::Vec::new() }
    }

    /// The pages whose contents are given in order, cut or filled with zeros to their length.
    pub fn from_pages<'a>(geometry: Geometry, pages: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut these = Self::new(geometry);
        for page in pages {
            let end = these.bytes.len() + these.content_bytes;
            these.bytes.extend_from_slice(&page[..page.len().min(these.content_bytes)]);
            these.bytes.resize(end, 0);
        }
        these
    }

    /// The contents of each page, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.content_bytes)
    }

    /// The contents of a page.
    #[inline]
    pub fn page_mut(&mut self, page: u32) -> Option<&mut [u8]> {
        let start = usize::try_from(page).ok()?.checked_mul(self.content_bytes)?;
        self.bytes.get_mut(start..)?.get_mut(..self.content_bytes)
    }
}

#[cfg(feature = "alloc")]
impl MapPages for VecPages {
    type Error = core::convert::Infallible;

    fn page_count(&self) -> Result<u32, Self::Error> {
        Ok(u32::try_from(self.bytes.len() / self.content_bytes).unwrap_or(u32::MAX))
    }

    #[inline]
    fn with<R>(
        &mut self,
        page: u32,
        _: Access,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>, Self::Error> {
        Ok(self.page_mut(page).map(work))
    }

    fn extend(&mut self, page_count: u32) -> Result<(), Self::Error> {
        let len = page_count as usize * self.content_bytes;
        self.bytes.resize(len.max(self.bytes.len()), 0);
        Ok(())
    }

    fn truncate(&mut self, page_count: u32) -> Result<(), Self::Error> {
        self.bytes.truncate(page_count as usize * self.content_bytes);
        Ok(())
    }
}
