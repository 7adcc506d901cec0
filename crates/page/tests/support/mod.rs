//! Pages for the tests of this crate: those a real server wrote, and a builder for the broken ones.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part of it")]
use pgtoast_base::{Alignment, BlockSize};
use pgtoast_page::{AttributeDescriptor, LinePointer, PageHeader};

pub(crate) const FORMS: &[u8] = include_bytes!("../../testdata/forms.page");
pub(crate) const CHAIN: &[u8] = include_bytes!("../../testdata/chain.page");
pub(crate) const STATES: &[u8] = include_bytes!("../../testdata/states.page");
pub(crate) const TOAST: &[u8] = include_bytes!("../../testdata/toast.page");
pub(crate) const INIT: &[u8] = include_bytes!("../../testdata/init.page");
pub(crate) const VM: &[u8] = include_bytes!("../../testdata/vm.page");

/// Offsets of header fields, as the drawing in `header.rs` has them.
pub(crate) const FLAGS: usize = 10;
pub(crate) const LOWER: usize = 12;
pub(crate) const UPPER: usize = 14;
pub(crate) const SPECIAL: usize = 16;
pub(crate) const SIZE_VERSION: usize = 18;

/// Overwrites two bytes at `offset`.
pub(crate) fn put(page: &mut [u8], offset: usize, value: u16) {
    page[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
}

/// An initialised page without items.
pub(crate) fn empty(size: BlockSize, special_len: u16) -> Vec<u8> {
    let mut page = vec![0; size.bytes()];
    let special = size.bytes_u16() - special_len;
    put(&mut page, LOWER, 24);
    put(&mut page, UPPER, special);
    put(&mut page, SPECIAL, special);
    put(&mut page, SIZE_VERSION, PageHeader::size_version_of(size));
    page
}

/// A heap page with these line pointers; `upper` is the lowest offset of a normal one.
pub(crate) fn with_pointers(size: BlockSize, pointers: &[LinePointer]) -> Vec<u8> {
    let mut page = empty(size, 0);
    for (at, pointer) in pointers.iter().enumerate() {
        page[24 + 4 * at..28 + 4 * at].copy_from_slice(&pointer.word().to_le_bytes());
    }
    put(&mut page, LOWER, 24 + 4 * u16::try_from(pointers.len()).unwrap());
    let stored = pointers.iter().filter(|pointer| !pointer.is_empty());
    let upper = stored.map(|pointer| pointer.offset()).min().unwrap_or(size.bytes_u16());
    put(&mut page, UPPER, upper & !7);
    page
}

/// A small generator: the same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[0]).collect()
    }
}

/// `heap_page_items` of a page: eleven fields a line, `-` where there is no tuple.
pub(crate) fn items(text: &'static str) -> impl Iterator<Item = [&'static str; 11]> {
    text.lines().map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        fields.try_into().unwrap()
    })
}

/// The columns of the table behind `forms.page`, with the missing values as the catalog shows them.
pub(crate) fn forms_columns() -> Vec<AttributeDescriptor<'static>> {
    let columns = include_str!("../../testdata/forms.columns").lines().map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let letter = |at: usize| fields[at].as_bytes()[0];
        let mut column = AttributeDescriptor::from_catalog(
            fields[1].parse().unwrap(),
            fields[2] == "t",
            letter(3),
            letter(4),
        )
        .unwrap();
        column.is_dropped = fields[5] == "t";
        column.missing = match fields[6] {
            "{later}" => Some(b"\x0dlater"),
            "{42}" => Some(&[42, 0, 0, 0]),
            _ => None,
        };
        column
    });
    columns.collect()
}

pub(crate) fn column(attlen: i16, alignment: Alignment) -> AttributeDescriptor<'static> {
    AttributeDescriptor::from_catalog(attlen, false, alignment.typalign(), b'x').unwrap()
}

/// A tuple header with this many attributes; `nulls` are 1-based attribute numbers. Its `hoff` is
/// right, and padding is zero.
pub(crate) fn tuple_header(natts: u16, nulls: &[u16]) -> Vec<u8> {
    let mut tuple = vec![0; 23];
    put(&mut tuple, 18, natts);
    if !nulls.is_empty() {
        put(&mut tuple, 20, 0x0001);
        let mut bitmap = vec![0; usize::from(natts).div_ceil(8)];
        for index in (0..natts).filter(|index| !nulls.contains(&(index + 1))) {
            bitmap[usize::from(index / 8)] |= 1 << (index % 8);
        }
        tuple.extend(bitmap);
    }
    tuple.resize(tuple.len().next_multiple_of(8), 0);
    tuple[22] = u8::try_from(tuple.len()).unwrap();
    tuple
}

/// Appends bytes at the next multiple of `alignment`, zeros between.
pub(crate) fn append(tuple: &mut Vec<u8>, alignment: Alignment, bytes: &[u8]) -> usize {
    tuple.resize(alignment.up(tuple.len()), 0);
    tuple.extend(bytes);
    tuple.len() - bytes.len()
}
