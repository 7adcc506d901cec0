//! Relations that a server wrote, and values cut into chunks by hand.
#![allow(dead_code, reason = "each test file uses its share")]

use std::convert::Infallible;
use std::ops::{ControlFlow, Range};

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid, Oid8};
use pgtoast_page::Page;
use pgtoast_toast::{
    Chunk, ChunkOrder, ChunkSize, ChunkSource, ReadError, ToastError, ValueIdWidth, ValueKey,
    page_chunks,
};
use pgtoast_varlena::{CompressionInfo, CompressionMethod, OidPointer, ToastPointer, Varlena};

pub(crate) const VALUE_ID: u32 = 16_562;
pub(crate) const REL_ID: u32 = 16_560;

/// Every page of a relation file, as a block number and the chunks on it.
pub(crate) fn pages(file: &[u8]) -> impl Iterator<Item = (BlockNumber, Page<'_>)> {
    let size = BlockSize::default();
    file.chunks(size.bytes()).enumerate().map(move |(block, bytes)| {
        let block = BlockNumber::new(u32::try_from(block).expect("few pages"));
        (block, Page::parse(bytes, size).expect("a page of a server"))
    })
}

/// Every chunk of a relation file, in the order they lie in it.
pub(crate) fn chunks(file: &[u8]) -> Vec<Chunk<'_>> {
    pages(file)
        .flat_map(|(block, page)| page_chunks(&page, block, ValueIdWidth::Oid))
        .collect::<Result<_, _>>()
        .expect("chunks of a server")
}

/// A pointer given in hex, as `pageinspect` shows it.
pub(crate) fn pointer(hex: &str) -> ToastPointer {
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
        .collect();
    ToastPointer::parse(&bytes, 0).expect("a pointer of a server")
}

pub(crate) fn external(hex: &str) -> Varlena<'static> {
    Varlena::External(pointer(hex))
}

/// A pointer to `stored_len` bytes of value [`VALUE_ID`].
pub(crate) fn pointer_to(
    raw_len: usize,
    stored_len: usize,
    method: CompressionMethod,
) -> ToastPointer {
    let raw_len = i32::try_from(raw_len + 4).expect("a length of 30 bits");
    let stored = CompressionInfo::new(stored_len, method).expect("a length of 30 bits");
    ToastPointer::Oid(OidPointer::new(raw_len, stored, Oid::new(VALUE_ID), Oid::new(REL_ID)))
}

/// A compressed value as it is stored out of line.
pub(crate) fn compressed(raw: &[u8], method: CompressionMethod) -> Vec<u8> {
    let info = CompressionInfo::new(raw.len(), method).expect("a length of 30 bits").word();
    let stream = pgtoast_codec::compress(method, raw).expect("compressible");
    [&info.to_le_bytes(), &stream[..]].concat()
}

/// Stored bytes cut into chunks of value [`VALUE_ID`], each with a place of its own.
pub(crate) fn cut(stored: &[u8], size: ChunkSize) -> Vec<Chunk<'_>> {
    (0..)
        .zip(stored.chunks(size.bytes()))
        .map(|(seq, data)| Chunk { value_id: Oid8::new(VALUE_ID.into()), seq, data, tid: tid(seq) })
        .collect()
}

/// The place that [`cut`] gives chunk `seq`.
pub(crate) fn tid(seq: i32) -> Option<ItemPointer> {
    let block = BlockNumber::new(u32::try_from(seq).expect("from 0") / 4);
    Some(ItemPointer::new(block, OffsetNumber::new(u16::try_from(seq % 4 + 1).expect("1 to 4"))))
}

/// Chunks just as they are listed, and a count of those handed out.
#[derive(Clone, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) chunks: Vec<Chunk<'a>>,
    pub(crate) order: ChunkOrder,
    pub(crate) handed_out: usize,
}

impl<'a> Listed<'a> {
    pub(crate) fn new(chunks: Vec<Chunk<'a>>, order: ChunkOrder) -> Self {
        Self { chunks, order, handed_out: 0 }
    }
}

impl ChunkSource for Listed<'_> {
    type Error = Infallible;

    fn order(&self) -> ChunkOrder {
        self.order
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<Infallible>> {
        let wanted = i64::from(chunks.start)..i64::from(chunks.end);
        for chunk in &self.chunks {
            // An index scan finds what is in range; whoever scans everything passes everything.
            let is_found = self.order == ChunkOrder::Any || wanted.contains(&chunk.seq.into());
            if chunk.value_id == key.value_id && is_found {
                self.handed_out += 1;
                if visit(chunk).is_break() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The error of a value whose source cannot fail.
pub(crate) fn fault<T: std::fmt::Debug>(result: Result<T, ReadError<Infallible>>) -> ToastError {
    match result {
        Err(ReadError::Toast(error)) => error,
        Ok(value) => panic!("no error but {value:?}"),
        Err(ReadError::Source(never)) => match never {},
    }
}

/// Bytes that no codec can shorten.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut x = 1_u32;
    let mut next = || {
        x = x.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
        x.to_le_bytes()[2]
    };
    (0..len).map(|_| next()).collect()
}
