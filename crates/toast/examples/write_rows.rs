//! A table and its TOAST relation, written row by row into pages as a server has them, and read back:
//! `cargo run --example write_rows`
use std::error::Error;
use std::ops::{ControlFlow, Range};

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, Oid, Oid8, Xid};
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, HeapTupleMut, Item, Page, PageError, PageMut, TupleDescriptor,
    Value,
};
use pgtoast_toast::{
    Chunk, ChunkIndex, ChunkSize, ChunkSource, Detoaster, ReadError, RowToaster, ToastRelation,
    Toaster, ValueIdWidth, ValueKey, page_chunks,
};
use pgtoast_varlena::{ToastPointer, encode_long};

const SIZE: BlockSize = BlockSize::KIB_8;

/// The pages of a relation, the last of which takes the next tuple.
#[derive(Default)]
struct Pages(Vec<Vec<u8>>);

impl Pages {
    fn insert(&mut self, mut tuple: HeapTupleMut<'_>) -> Result<ItemPointer, PageError> {
        tuple.header_mut().set_inserted(Xid::FROZEN, 0);
        tuple.header_mut().set_frozen();
        let block = |index| BlockNumber::new(u32::try_from(index).unwrap_or(u32::MAX));
        let count = self.0.len();
        if let Some(last) = self.0.last_mut() {
            match PageMut::open(last, SIZE)?.insert_tuple(block(count - 1), tuple.bytes()) {
                Err(PageError::Full { .. }) => {}
                done => return done,
            }
        }
        let mut bytes = vec![0; SIZE.bytes()];
        let tid = PageMut::init(&mut bytes, SIZE, 0)?.insert_tuple(block(count), tuple.bytes())?;
        self.0.push(bytes);
        Ok(tid)
    }

    fn pages(&self) -> impl Iterator<Item = Result<(BlockNumber, Page<'_>), PageError>> {
        let pages = (0..).map(BlockNumber::new).zip(&self.0);
        pages.map(|(block, bytes)| Ok((block, Page::parse(bytes, SIZE)?)))
    }
}

/// What a loader needs of a TOAST relation: rows only ever come, and are complete when they do.
#[derive(Default)]
struct ToastPages {
    pages: Pages,
    values: u64,
}

impl ChunkSource for ToastPages {
    type Error = PageError;

    fn visit(
        &mut self,
        _: ValueKey,
        _: Range<u32>,
        _: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<PageError>> {
        Ok(()) // no row points to another's value
    }
}

impl ToastRelation for ToastPages {
    fn new_value_id(&mut self) -> Result<Oid8, PageError> {
        self.values += 1;
        Ok(Oid8::new(20_000 + self.values))
    }

    fn insert_chunk(&mut self, _: &Chunk<'_>, tuple: HeapTupleMut<'_>) -> Result<(), PageError> {
        self.pages.insert(tuple).map(|_| ())
    }

    fn delete_value(&mut self, _: &ToastPointer) -> Result<(), PageError> {
        Ok(()) // no row is replaced
    }

    fn take_back(&mut self, _: &[ToastPointer], _: &[ToastPointer]) {
        // Whoever sees a load fail throws the files away.
    }
}

#[expect(clippy::print_stdout, reason = "a command-line example")]
fn main() -> Result<(), Box<dyn Error>> {
    // create table t (id int4, note text)
    let columns = [
        AttributeDescriptor::from_catalog(4, true, b'i', b'p')?,
        AttributeDescriptor::from_catalog(-1, false, b'i', b'x')?,
    ];
    let descriptor = TupleDescriptor::new(&columns)?;
    let (mut table, mut toast) = (Pages::default(), ToastPages::default());
    let mut toaster = RowToaster::new(Toaster::new(SIZE), descriptor, Oid::new(16_560));
    let mut datum = Vec::new();
    for (id, len) in [40_usize, 3_000, 300_000, 1_000_000].into_iter().enumerate() {
        let note: String = (0..len / 10).map(|number| format!("{number:>10}")).collect();
        datum.clear();
        encode_long(note.as_bytes(), &mut datum)?;
        let id = u32::try_from(id)?.to_le_bytes();
        let row = toaster.insert(&[Value::stored(&id), Value::stored(&datum)], &mut toast)?;
        let decision = row.attributes[1].decision();
        let tid = table.insert(row.tuple)?;
        println!("{tid}  {:>7} bytes: {decision:?}", note.len());
    }
    println!("{} pages, and {} of chunks", table.0.len(), toast.pages.0.len());

    let mut chunks = Vec::new();
    for page in toast.pages.pages() {
        let (block, page) = page?;
        for chunk in page_chunks(&page, block, ValueIdWidth::Oid) {
            chunks.push(chunk?);
        }
    }
    let index: ChunkIndex<'_> = chunks.into_iter().collect();
    let mut detoaster = Detoaster::new(index, ChunkSize::default());
    for page in table.pages() {
        let (block, page) = page?;
        for (item, _) in page.items() {
            let Item::Normal(tuple) = page.item(item)? else { continue };
            let mut values = [Value::Null; 2];
            HeapTuple::parse(tuple)?.deform_into(descriptor, &mut values)?;
            let Value::Stored(note) = values[1] else { continue };
            let note = detoaster.detoast(&note.varlena()?)?;
            println!("({block},{item})  {:>7} bytes back", note.len());
        }
    }
    Ok(())
}
