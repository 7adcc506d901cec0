//! One table of the damaged cluster, and the means to damage it.
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid8};
use pgtoast_datadir::check::{Finding, FindingKind};
use pgtoast_datadir::{
    ControlFile, DataFile, Database, Fork, OverlaySource, Relation, RelationFile, RelationKind,
    Source,
};
use pgtoast_page::{
    HeapTuple, Infomask, Infomask2, Item, LinePointer, Page, TupleDescriptor, Value, set_checksum,
};
use pgtoast_toast::{ValueIdWidth, page_chunks};
use pgtoast_varlena::{ToastPointer, Varlena};

const SIZE: BlockSize = BlockSize::KIB_8;

/// A table that nothing has been done to yet: where its rows and chunks are.
pub(crate) struct Healthy {
    pub(crate) name: String,
    pub(crate) main: DataFile,
    pub(crate) toast: Option<DataFile>,
    pub(crate) index: Option<DataFile>,
    /// By id, the place of each version; an updated row's new version has another id.
    pub(crate) rows: BTreeMap<i32, ItemPointer>,
    /// By id and column, the pointer, and where it is in the tuple.
    pub(crate) pointers: BTreeMap<(i32, &'static str), (usize, ToastPointer)>,
    /// Where the other values are in their tuples.
    pub(crate) offsets: BTreeMap<(i32, &'static str), usize>,
    /// By value and number, the place of each chunk.
    pub(crate) chunks: BTreeMap<(Oid8, i32), ItemPointer>,
    pub(crate) frozen_xid: u32,
}

const COLUMNS: [&str; 3] = ["id", "note", "body"];

impl Healthy {
    pub(crate) fn read(database: &Database, name: &str) -> Result<Self> {
        let relation = database.relation_named(name).context(name.to_owned())?;
        let toast = database.toast_of(relation);
        let index = toast.and_then(|toast| database.toast_index(toast.oid));
        let source = database.directory().source();
        let mut these = Self {
            name: name.to_owned(),
            main: file(relation)?,
            toast: toast.map(file).transpose()?,
            index: index.map(file).transpose()?,
            rows: BTreeMap::new(),
            pointers: BTreeMap::new(),
            offsets: BTreeMap::new(),
            chunks: BTreeMap::new(),
            frozen_xid: relation.frozen_xid.get(),
        };
        let columns = database.columns(relation)?;
        these.read_rows(source, &columns)?;
        if let Some(toast) = these.toast {
            each_block(source, toast, |block, page| {
                for chunk in page_chunks(&page, block, ValueIdWidth::Oid) {
                    let chunk = chunk?;
                    let tid = chunk.tid.context("no tid")?;
                    these.chunks.insert((chunk.value_id, chunk.seq), tid);
                }
                Ok(())
            })?;
        }
        Ok(these)
    }

    fn read_rows(
        &mut self,
        source: &Arc<dyn Source>,
        columns: &pgtoast_datadir::Columns,
    ) -> Result<()> {
        let attributes = columns.attributes();
        let descriptor = TupleDescriptor::new(&attributes)?;
        each_block(source, self.main, |block, page| {
            for (item, _) in page.items() {
                let Item::Normal(bytes) = page.item(item)? else { continue };
                let mut id = 0;
                let tuple = HeapTuple::new(bytes)?;
                for (name, attribute) in COLUMNS.iter().zip(tuple.deform(descriptor)?) {
                    let Value::Stored(datum) = attribute?.value else { continue };
                    if let Some(bytes) = datum.fixed() {
                        id = i32::from_le_bytes(bytes);
                        self.rows.insert(id, ItemPointer::new(block, item));
                    } else if let Varlena::External(pointer) = datum.varlena()? {
                        self.pointers.insert((id, name), (datum.offset, pointer));
                    } else {
                        self.offsets.insert((id, name), datum.offset);
                    }
                }
            }
            Ok(())
        })
    }

    /// A finding about the table, in the words of the table of damages.
    pub(crate) fn say(&self, finding: &Finding) -> String {
        let kind = finding.subject.kind;
        let relation = match (kind, &finding.file) {
            (_, DataFile::Relation(RelationFile { fork: Fork::FreeSpaceMap, .. })) => "fsm ",
            (_, DataFile::Relation(RelationFile { fork: Fork::VisibilityMap, .. })) => "vm ",
            (RelationKind::Toast, _) => "toast ",
            (RelationKind::Index, _) => "index ",
            _ => "",
        };
        let row = |tid| self.rows.iter().find(|(_, place)| **place == tid).map(|(id, _)| *id);
        let chunk = |tid| self.chunks.iter().find(|(_, place)| **place == tid).map(|(key, _)| *key);
        let place = match (finding.tid(), finding.block) {
            (Some(tid), _) if kind == RelationKind::Toast => match chunk(tid) {
                Some((value_id, seq)) => {
                    let owner = self
                        .pointers
                        .iter()
                        .find(|(_, (_, pointer))| pointer.value_id() == Some(value_id));
                    match owner {
                        Some(((id, column), _)) => format!("row {id} {column} chunk {seq}"),
                        None => format!("chunk {seq} of nobody"),
                    }
                }
                None => format!("{tid}"),
            },
            (Some(tid), _) => row(tid).map_or(format!("{tid}"), |id| format!("row {id}")),
            (None, Some(block)) => format!("block {block}"),
            (None, None) => "file".to_owned(),
        };
        let column = finding.column.as_ref().map_or(String::new(), |one| format!(" {}", one.name));
        let torn = match finding.kind {
            FindingKind::Checksum { torn_at: Some(offset), .. } => format!(", torn at {offset}"),
            _ => String::new(),
        };
        format!("{relation}{place}{column}: {}{torn}", finding.kind.name())
    }
}

fn file(relation: &Relation) -> Result<DataFile> {
    let (folder, filenode) = relation.files.context("no files")?;
    Ok(DataFile::Relation(RelationFile { folder, filenode, fork: Fork::Main, segment: 0 }))
}

fn each_block(
    source: &Arc<dyn Source>,
    file: DataFile,
    mut visit: impl FnMut(BlockNumber, Page<'_>) -> Result<()>,
) -> Result<()> {
    let bytes = source.read_start(file, usize::MAX)?;
    for (number, bytes) in (0..).zip(bytes.chunks_exact(SIZE.bytes())) {
        visit(BlockNumber::new(number), Page::new(bytes, SIZE)?)?;
    }
    Ok(())
}

/// A table that is being damaged.
pub(crate) struct Wound<'a> {
    pub(crate) table: &'a Healthy,
    pub(crate) source: &'a mut OverlaySource,
    pub(crate) control: &'a ControlFile,
    /// Whether checksums are made anew behind each change, so that they hide the damage.
    pub(crate) redo_checksums: bool,
}

impl Wound<'_> {
    pub(crate) fn fork(&self, fork: Fork) -> DataFile {
        let DataFile::Relation(main) = self.table.main else { unreachable!("a relation's file") };
        DataFile::Relation(RelationFile { fork, ..main })
    }

    /// Changes a block.
    pub(crate) fn block(
        &mut self,
        file: DataFile,
        block: u32,
        change: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let redo = self.redo_checksums;
        self.source.edit(file, |bytes| {
            let start = block as usize * SIZE.bytes();
            let page = bytes.get_mut(start..start + SIZE.bytes()).context("no such block")?;
            change(page)?;
            if redo {
                set_checksum(page, SIZE, BlockNumber::new(block))?;
            }
            Ok(())
        })?
    }

    /// Changes 16 bits of the header of the table's first block.
    pub(crate) fn header(&mut self, offset: usize, value: u16) -> Result<()> {
        self.block(self.table.main, 0, |page| {
            page[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
            Ok(())
        })
    }

    fn tid(&self, id: i32) -> Result<ItemPointer> {
        self.table.rows.get(&id).copied().with_context(|| format!("no row {id}"))
    }

    /// Changes the line pointer at a place.
    pub(crate) fn line_pointer_at(
        &mut self,
        file: DataFile,
        tid: ItemPointer,
        change: impl FnOnce(LinePointer) -> LinePointer,
    ) -> Result<()> {
        self.block(file, tid.block.get(), |page| {
            let at = 24 + tid.item.index().context("no item")? * LinePointer::LEN;
            let word = page[at..].first_chunk().context("no line pointer")?;
            let pointer = change(LinePointer::from_word(u32::from_le_bytes(*word)));
            page[at..at + LinePointer::LEN].copy_from_slice(&pointer.word().to_le_bytes());
            Ok(())
        })
    }

    pub(crate) fn line_pointer(
        &mut self,
        id: i32,
        change: impl FnOnce(LinePointer) -> LinePointer,
    ) -> Result<()> {
        let tid = self.tid(id)?;
        self.line_pointer_at(self.table.main, tid, change)
    }

    /// The first redirected line pointer of the table, and where it leads.
    pub(crate) fn redirect(&self) -> Result<(ItemPointer, OffsetNumber)> {
        let bytes = self.source.read_start(self.table.main, SIZE.bytes())?;
        let page = Page::new(&bytes, SIZE)?;
        for (item, _) in page.items() {
            if let Ok(Item::Redirect(target)) = page.item(item) {
                return Ok((ItemPointer::new(BlockNumber::new(0), item), target));
            }
        }
        anyhow::bail!("no redirect")
    }

    /// Changes the bytes of the tuple at a place.
    pub(crate) fn tuple_at(
        &mut self,
        file: DataFile,
        tid: ItemPointer,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.block(file, tid.block.get(), |page| {
            let pointer = Page::new(page, SIZE)?.line_pointer(tid.item).context("no item")?;
            let (offset, len) = (usize::from(pointer.offset()), usize::from(pointer.len()));
            change(&mut page[offset..offset + len]);
            Ok(())
        })
    }

    pub(crate) fn tuple(&mut self, id: i32, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let tid = self.tid(id)?;
        self.tuple_at(self.table.main, tid, change)
    }

    /// Changes bytes from the start of a value on.
    pub(crate) fn value(
        &mut self,
        id: i32,
        column: &'static str,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let key = (id, column);
        let pointer = self.table.pointers.get(&key).map(|(offset, _)| *offset);
        let offset = pointer.or(self.table.offsets.get(&key).copied()).context("no such value")?;
        self.tuple(id, |tuple| change(&mut tuple[offset..]))
    }

    /// Sets and clears flags of a row.
    pub(crate) fn flags(&mut self, id: i32, set: Infomask, clear: Infomask) -> Result<()> {
        self.tuple(id, |tuple| flags(tuple, set, clear))
    }

    pub(crate) fn flags2(&mut self, id: i32, set: Infomask2, clear: Infomask2) -> Result<()> {
        self.tuple(id, |tuple| {
            let word = u16::from_le_bytes([tuple[18], tuple[19]]);
            let word = word & !clear.bits() | set.bits();
            tuple[18..20].copy_from_slice(&word.to_le_bytes());
        })
    }

    pub(crate) fn pointer(&self, id: i32, column: &'static str) -> Result<ToastPointer> {
        let found = self.table.pointers.get(&(id, column));
        found.map(|(_, pointer)| *pointer).with_context(|| format!("row {id} has no {column}"))
    }

    /// Where a chunk of a row's value is.
    pub(crate) fn chunk_tid(&self, id: i32, column: &'static str, seq: i32) -> Result<ItemPointer> {
        let value_id = self.pointer(id, column)?.value_id().context("no id")?;
        self.table.chunks.get(&(value_id, seq)).copied().context("no such chunk")
    }

    /// Changes the tuple of a chunk.
    pub(crate) fn chunk(
        &mut self,
        id: i32,
        column: &'static str,
        seq: i32,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let tid = self.chunk_tid(id, column, seq)?;
        let toast = self.table.toast.context("no TOAST relation")?;
        self.tuple_at(toast, tid, change)
    }

    /// Changes the line pointer of a chunk.
    pub(crate) fn chunk_pointer(
        &mut self,
        id: i32,
        column: &'static str,
        seq: i32,
        change: impl FnOnce(LinePointer) -> LinePointer,
    ) -> Result<()> {
        let tid = self.chunk_tid(id, column, seq)?;
        let toast = self.table.toast.context("no TOAST relation")?;
        self.line_pointer_at(toast, tid, change)
    }

    /// Changes where the index leads for a chunk.
    pub(crate) fn index_entry(
        &mut self,
        id: i32,
        column: &'static str,
        seq: i32,
        change: impl FnOnce(&mut ItemPointer),
    ) -> Result<()> {
        let index = self.table.index.context("no index")?;
        let value_id = self.pointer(id, column)?.value_id().context("no id")?.get();
        // A small index is one leaf, behind the metapage.
        self.block(index, 1, |page| {
            let view = Page::new(page, SIZE)?;
            let key = |item: &[u8]| -> Option<(u64, i32)> {
                let (id, seq) = item.get(8..)?.split_first_chunk()?;
                let seq = i32::from_le_bytes(*seq.first_chunk()?);
                Some((u32::from_le_bytes(*id).into(), seq))
            };
            let found = view.items().find(|(item, _)| {
                matches!(view.item(*item), Ok(Item::Normal(bytes)) if key(bytes) == Some((value_id, seq)))
            });
            let at = usize::from(found.context("no entry")?.1.offset());
            let mut tid = ItemPointer::from_bytes(*page[at..].first_chunk().context("no tid")?);
            change(&mut tid);
            page[at..at + 6].copy_from_slice(&tid.to_bytes());
            Ok(())
        })
    }

    pub(crate) fn toast(&self) -> Result<DataFile> {
        self.table.toast.context("no TOAST relation")
    }

    /// A transaction id that is not given out for long.
    pub(crate) fn future(&self) -> u32 {
        self.control.next_xid().get() + 1000
    }
}

/// Sets and clears flags of a tuple.
pub(crate) fn flags(tuple: &mut [u8], set: Infomask, clear: Infomask) {
    let word = u16::from_le_bytes([tuple[20], tuple[21]]) & !clear.bits() | set.bits();
    tuple[20..22].copy_from_slice(&word.to_le_bytes());
}

/// Puts 32 bits into a tuple.
pub(crate) fn put(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}
