//! The rows of a table, as a new session would see them.
use core::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};
use pgtoast_page::{
    Deform, HeapTuple, Item, LineState, Page, TupleDescriptor, TupleError, Value, XidStatus,
};

use crate::{
    Blocks, Columns, DataFile, DatadirError, FileSource, Filenode, Folder, Fork, Geometry,
    RelationFile, RelationFork, StatusReader, Transactions,
};

/// A table's main fork, its columns, and who may see what of it.
#[derive(Clone, Debug)]
pub struct Table {
    fork: RelationFork,
    columns: Arc<Columns>,
    transactions: Arc<Transactions>,
    has_checksums: bool,
}

impl Table {
    /// A table of these parts. Those of a data directory are made by
    /// [`Database::table`](crate::Database::table).
    #[must_use]
    pub const fn new(
        fork: RelationFork,
        columns: Arc<Columns>,
        transactions: Arc<Transactions>,
    ) -> Self {
        Self { fork, columns, transactions, has_checksums: false }
    }

    /// A table without its data directory: `first` is segment 0 of its main fork. What became of a
    /// transaction is known from hint bits alone, and `assumed` where they say nothing.
    ///
    /// Errors about its files print the number in the file's name, and 0 for a name that is none.
    ///
    /// # Errors
    /// [`DatadirError::FileMissing`], and those of [`RelationFork::open`].
    pub fn open_file(
        first: impl AsRef<Path>,
        columns: Columns,
        geometry: Geometry,
        assumed: XidStatus,
    ) -> Result<Self, DatadirError> {
        let first = first.as_ref();
        let name = first.file_name().and_then(|name| name.to_str());
        let filenode = name.and_then(crate::file::decimal).map(Filenode::new).unwrap_or_default();
        let (folder, fork) = (Folder::Root, Fork::Main);
        let file = DataFile::Relation(RelationFile { folder, filenode, fork, segment: 0 });
        let source = Arc::new(FileSource::relation(first));
        let fork = RelationFork::open(source, folder, filenode, fork, geometry)?;
        let fork = fork.ok_or(DatadirError::FileMissing { file })?;
        Ok(Self::new(fork, Arc::new(columns), Arc::new(Transactions::assume(assumed))))
    }

    /// Whether its pages carry checksums; then scans verify them.
    #[must_use]
    pub const fn with_checksums(mut self, has_checksums: bool) -> Self {
        self.has_checksums = has_checksums;
        self
    }

    /// Its main fork.
    #[must_use]
    pub const fn fork(&self) -> &RelationFork {
        &self.fork
    }

    /// Its columns.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// What became of the transactions that its rows name.
    #[must_use]
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Every row that is visible.
    #[must_use]
    pub fn rows(&self) -> Rows<'_> {
        self.rows_of(0..self.fork.block_count())
    }

    /// Every visible row in a range of blocks: a thread's share.
    #[must_use]
    pub fn rows_of(&self, blocks: Range<u32>) -> Rows<'_> {
        Rows {
            table: self,
            blocks: self.fork.blocks(blocks),
            status: self.transactions.reader(),
            wants_dead: false,
            page: None,
        }
    }

    /// What is at that place, visible or not; `None` where there is no tuple. A redirected line pointer
    /// is followed.
    ///
    /// # Errors
    /// As [`Rows::next`].
    pub fn fetch<'b>(
        &self,
        tid: ItemPointer,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Row<'b>>, DatadirError> {
        buffer.resize(self.fork.block_size().bytes(), 0);
        self.fork.read_block(tid.block, buffer)?;
        let page = self.page(tid.block, buffer)?;
        let located = |error| self.page_error(tid.block, error);
        let mut item = tid.item;
        if let Item::Redirect(target) = page.item(item).map_err(located)? {
            item = target;
        }
        let Item::Normal(bytes) = page.item(item).map_err(located)? else { return Ok(None) };
        let tid = ItemPointer::new(tid.block, item);
        let tuple = HeapTuple::new(bytes).map_err(|error| self.tuple_error(tid, error))?;
        Ok(Some(Row { tid, tuple }))
    }

    /// The bytes of a block as a page that a server would accept.
    pub(crate) fn page<'p>(
        &self,
        block: BlockNumber,
        bytes: &'p [u8],
    ) -> Result<Page<'p>, DatadirError> {
        let verified = Page::parse(bytes, self.fork.block_size()).and_then(|page| {
            if self.has_checksums {
                page.verify_checksum(block)?;
            }
            Ok(page)
        });
        verified.map_err(|error| self.page_error(block, error))
    }

    fn page_error(&self, block: BlockNumber, error: pgtoast_page::PageError) -> DatadirError {
        DatadirError::Page { file: self.fork.place(block).0, block, error }
    }

    fn tuple_error(&self, tid: ItemPointer, error: TupleError) -> DatadirError {
        DatadirError::Tuple { file: self.fork.place(tid.block).0, tid, error }
    }
}

/// A tuple and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Which block, which item.
    pub tid: ItemPointer,
    /// Its bytes.
    pub tuple: HeapTuple<'a>,
}

impl<'a> Row<'a> {
    /// Its attributes: see [`HeapTuple::deform`].
    ///
    /// # Errors
    /// As there.
    pub fn deform(&self, descriptor: TupleDescriptor<'a>) -> Result<Deform<'a>, TupleError> {
        self.tuple.deform(descriptor)
    }

    /// Its attributes into a buffer: see [`HeapTuple::deform_into`].
    ///
    /// # Errors
    /// As there.
    pub fn deform_into(
        &self,
        descriptor: TupleDescriptor<'a>,
        target: &mut [Value<'a>],
    ) -> Result<usize, TupleError> {
        self.tuple.deform_into(descriptor, target)
    }
}

/// The rows of a table, one after the other. Its [`next`](Self::next) lends them, so it is no
/// `Iterator`.
#[derive(Debug)]
pub struct Rows<'t> {
    table: &'t Table,
    blocks: Blocks<'t>,
    status: StatusReader<'t>,
    wants_dead: bool,
    /// The number of items of the page at hand, and the next one to look at.
    page: Option<(u16, u16)>,
}

impl Rows<'_> {
    /// Gives every tuple there is, dead ones too.
    #[must_use]
    pub const fn with_dead(mut self) -> Self {
        self.wants_dead = true;
        self
    }

    /// The next row. An error is about a block or an item, and the next call goes on behind it.
    ///
    /// Its errors are [`DatadirError::Page`], [`DatadirError::Tuple`],
    /// [`DatadirError::StatusMissing`], [`DatadirError::MultiXactMembers`], and those of reading.
    #[expect(clippy::should_implement_trait, reason = "it lends, which `Iterator` cannot")]
    pub fn next(&mut self) -> Option<Result<Row<'_>, DatadirError>> {
        let item = loop {
            match self.step() {
                Ok(Step::End) => return None,
                Ok(Step::Row(item)) => break item,
                Ok(Step::Nothing) => {}
                Err(error) => return Some(Err(error)),
            }
        };
        let (block, bytes) = self.blocks.current()?;
        let page = Page::new(bytes, self.table.fork.block_size()).ok()?;
        let Ok(Item::Normal(bytes)) = page.item(item) else { return None };
        let tuple = HeapTuple::new(bytes).ok()?;
        Some(Ok(Row { tid: ItemPointer::new(block, item), tuple }))
    }

    /// Looks at the next item, or takes the next page.
    fn step(&mut self) -> Result<Step, DatadirError> {
        let Some((count, next)) = &mut self.page else { return self.turn() };
        if *next > *count {
            self.page = None;
            return Ok(Step::Nothing);
        }
        let item = OffsetNumber::new(*next);
        *next += 1;
        let Some((block, bytes)) = self.blocks.current() else { return Ok(Step::End) };
        let table = self.table;
        let page = Page::new(bytes, table.fork.block_size())
            .map_err(|error| table.page_error(block, error))?;
        if page.line_pointer(item).is_none_or(|pointer| pointer.state() != LineState::Normal) {
            return Ok(Step::Nothing);
        }
        let tid = ItemPointer::new(block, item);
        let Item::Normal(bytes) =
            page.item(item).map_err(|error| table.page_error(block, error))?
        else {
            return Ok(Step::Nothing);
        };
        let tuple = HeapTuple::new(bytes).map_err(|error| table.tuple_error(tid, error))?;
        let is_wanted = self.wants_dead || self.status.is_visible(tuple.header())?;
        Ok(if is_wanted { Step::Row(item) } else { Step::Nothing })
    }

    fn turn(&mut self) -> Result<Step, DatadirError> {
        let Some(next) = self.blocks.next() else { return Ok(Step::End) };
        let (block, bytes) = next?;
        let page = self.table.page(block, bytes)?;
        let count = if page.is_new() { 0 } else { page.item_count() };
        self.page = Some((count, OffsetNumber::FIRST.get()));
        Ok(Step::Nothing)
    }
}

enum Step {
    End,
    Nothing,
    Row(OffsetNumber),
}
