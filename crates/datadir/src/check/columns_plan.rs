//! What the walk over many tuples of one table needs to know of its columns.
use std::sync::Arc;

use pgtoast_page::{AttributeDescriptor, AttributeLen, HeapTuple, Infomask, TupleHeader};
use pgtoast_varlena::{Kind, datum_len};

use super::ColumnName;
use crate::Columns;

/// What the walk over many tuples of one table needs to know of its columns.
#[derive(Debug)]
pub(super) struct ColumnsPlan<'a> {
    pub(super) attributes: Vec<AttributeDescriptor<'a>>,
    /// The indexes of those whose values may be out of line or compressed.
    pub(super) varlenas: Vec<u16>,
    names: Vec<Arc<str>>,
    steps: Vec<Step>,
    /// How many columns of fixed length come first, and where they end in a row that has them all.
    fixed: usize,
    fixed_end: usize,
}

/// How to get over an attribute: as few words as will do, for the walk is most of a check's work on narrow
/// rows.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The length of a value, or one of the two below.
    len: u16,
    /// What the alignment leaves of an offset.
    mask: u16,
}

/// The value says how long it is.
const VARLENA: u16 = 0;
/// It ends with a zero byte. No fixed length is as long.
const CSTRING: u16 = u16::MAX;

/// An attribute that is compressed or out of line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The attribute's number, from 1.
    pub(super) number: u16,
    /// Where it is, in bytes from the start of the tuple.
    pub(super) offset: usize,
    /// Its length in bytes.
    pub(super) len: usize,
}

impl<'a> ColumnsPlan<'a> {
    pub(super) fn new(columns: &'a Columns) -> Self {
        let attributes = columns.attributes();
        let varlenas = (0..)
            .zip(&attributes)
            .filter_map(|(index, column)| (column.len == AttributeLen::Varlena).then_some(index));
        let varlenas = varlenas.collect();
        let names = columns.iter().map(|column| column.name.as_str().into()).collect();
        let steps: Vec<_> = attributes.iter().map(Step::of).collect();
        let first = || steps.iter().take_while(|step| !matches!(step.len, VARLENA | CSTRING));
        let (fixed, fixed_end) = (first().count(), first().fold(0, |end, step| step.fixed(end)));
        Self { attributes, varlenas, names, steps, fixed, fixed_end }
    }

    /// Goes over the attributes of a row and puts those that are compressed or out of line into
    /// `found`. Whether the row is sound: what is wrong with another one,
    /// [`deform`](HeapTuple::deform) says.
    ///
    /// This is that walk without its answers: nearly all attributes are looked at only for where the
    /// next one starts.
    #[inline]
    pub(super) fn walk(&self, tuple: &HeapTuple<'_>, found: &mut Vec<Found>) -> bool {
        found.clear();
        let header = tuple.header();
        let (natts, start) = (usize::from(header.natts()), usize::from(header.hoff()));
        let bitmap = TupleHeader::LEN..TupleHeader::LEN + header.bitmap_len();
        let Some(steps) = self.steps.get(..natts) else { return false };
        let Some(data) = tuple.bytes().get(start..) else { return false };
        if bitmap.end > start {
            return false;
        }
        if header.infomask().contains(Infomask::HAS_NULL) {
            let bitmap = tuple.bytes().get(bitmap).unwrap_or_default();
            return walk_nulls(steps, bitmap, data, start, found);
        }
        let (first, mut offset) =
            if natts >= self.fixed { (self.fixed, self.fixed_end) } else { (0, 0) };
        for (index, step) in steps.get(first..).unwrap_or_default().iter().enumerate() {
            match step.over(data, offset) {
                Over::Nothing(end) => offset = end,
                Over::Found(place, len) => {
                    offset = place + len;
                    found.push(Found::new(first + index, start + place, len));
                }
                Over::Broken => return false,
            }
        }
        offset <= data.len()
    }

    /// By number, from 1.
    pub(super) fn name(&self, number: u16) -> Option<ColumnName> {
        let name = self.names.get(usize::from(number.checked_sub(1)?))?;
        Some(ColumnName { number, name: Arc::clone(name) })
    }
}

/// The walk over a row with nulls, which take no room.
fn walk_nulls(
    steps: &[Step],
    bitmap: &[u8],
    data: &[u8],
    start: usize,
    found: &mut Vec<Found>,
) -> bool {
    let mut offset = 0;
    for (index, step) in steps.iter().enumerate() {
        let is_null = bitmap.get(index / 8).is_some_and(|bits| bits >> (index % 8) & 1 == 0);
        if is_null {
            continue;
        }
        match step.over(data, offset) {
            Over::Nothing(end) => offset = end,
            Over::Found(place, len) => {
                offset = place + len;
                found.push(Found::new(index, start + place, len));
            }
            Over::Broken => return false,
        }
    }
    offset <= data.len()
}

impl Found {
    /// The attribute with an index, from 0: there are at most 1664.
    #[expect(clippy::cast_possible_truncation, reason = "a table has no more columns")]
    const fn new(index: usize, offset: usize, len: usize) -> Self {
        Self { number: index as u16 + 1, offset, len }
    }
}

/// What is behind an attribute, or at it.
enum Over {
    /// It is one of those that are not looked at, and the next one comes behind this offset.
    Nothing(usize),
    /// It is compressed or out of line: where it is, and how long.
    Found(usize, usize),
    Broken,
}

impl Step {
    fn of(column: &AttributeDescriptor<'_>) -> Self {
        let len = match column.len {
            AttributeLen::Fixed(len) => len,
            AttributeLen::Varlena => VARLENA,
            AttributeLen::CString => CSTRING,
        };
        #[expect(clippy::cast_possible_truncation, reason = "at most 7")]
        let mask = column.alignment.bytes() as u16 - 1;
        Self { len, mask }
    }

    #[inline]
    fn align(self, offset: usize) -> usize {
        let mask = usize::from(self.mask);
        (offset + mask) & !mask
    }

    /// Where an attribute of fixed length ends, if the one before ends at `offset`; that may be past
    /// the end of the tuple.
    #[inline]
    fn fixed(self, offset: usize) -> usize {
        self.align(offset) + usize::from(self.len)
    }

    /// The attribute behind `offset` in `data`. Where one that is not looked at ends may be past the end
    /// of the tuple.
    #[inline(always)]
    fn over(self, data: &[u8], offset: usize) -> Over {
        if self.len == VARLENA {
            match data.get(offset) {
                // Short: by far the most common.
                Some(first) if first & 1 == 1 && *first != 1 => {
                    Over::Nothing(offset + usize::from(first >> 1))
                }
                Some(first) => self.over_long(data, offset, *first),
                None => Over::Broken,
            }
        } else if self.len == CSTRING {
            let offset = self.align(offset);
            let rest = data.get(offset..).unwrap_or_default();
            match rest.iter().position(|byte| *byte == 0) {
                Some(len) => Over::Nothing(offset + len + 1),
                None => Over::Broken,
            }
        } else {
            Over::Nothing(self.fixed(offset))
        }
    }

    /// A varlena that begins with padding, a long header or a pointer's tag.
    fn over_long(self, data: &[u8], offset: usize, first: u8) -> Over {
        // A byte that is not zero is no padding, wherever it lies.
        let offset = if first == 0 { self.align(offset) } else { offset };
        let Ok(len) = datum_len(data, offset) else { return Over::Broken };
        match data.get(offset).map(|first| Kind::of(*first)) {
            Some(Kind::Pointer | Kind::LongCompressed) => Over::Found(offset, len),
            _ => Over::Nothing(offset + len),
        }
    }
}

#[cfg(test)]
mod tests {
    use pgtoast_page::{TupleDescriptor, Value};

    use super::*;

    /// What the walk must find, by way of the attributes' values.
    fn slowly(plan: &ColumnsPlan<'_>, tuple: &HeapTuple<'_>) -> Option<Vec<(u16, usize, usize)>> {
        let descriptor = TupleDescriptor::new(&plan.attributes).ok()?;
        let mut values = vec![Value::Null; plan.attributes.len()];
        tuple.deform_into(descriptor, &mut values).ok()?;
        let mut found = Vec::new();
        for (number, value) in (1..).zip(&values) {
            let Value::Stored(datum) = value else { continue };
            let is_varlena = plan.varlenas.contains(&(number - 1));
            let kind = Kind::of(datum.bytes[0]);
            if is_varlena && matches!(kind, Kind::Pointer | Kind::LongCompressed) {
                found.push((number, datum.offset, datum.bytes.len()));
            }
        }
        Some(found)
    }

    /// Numbers without a pattern.
    fn noise(seed: &mut u64) -> usize {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(*seed >> 33).expect("31 bits")
    }

    #[test]
    fn the_walk_finds_what_the_attributes_say_in_sound_and_in_broken_rows() {
        let (mut seed, mut sound, mut found_any) = (7, 0, 0);
        for spec in [
            "a int4, b int8, c text, d bool, e bytea",
            "a text, b int8, c text",
            "a int2, b int8, c bool",
            "a type(-2, c), b text, c int4, d text",
            "a bool, b text, c text, d text, e text, f text, g text, h text, i int8, j text",
        ] {
            let columns = Columns::parse(spec).unwrap();
            let plan = ColumnsPlan::new(&columns);
            for _ in 0..20_000 {
                let natts = noise(&mut seed) % (plan.attributes.len() + 2);
                let has_null = noise(&mut seed) % 2;
                let mut bytes = vec![0; 23 + 5];
                bytes[18] = u8::try_from(natts).unwrap();
                bytes[20] = u8::try_from(has_null).unwrap();
                bytes[22] = [24, 32, 32, 24, 16, 40][noise(&mut seed) % 6];
                bytes[23] = u8::try_from(noise(&mut seed) % 256).unwrap();
                bytes[24] = u8::try_from(noise(&mut seed) % 256).unwrap();
                bytes.resize(bytes[22].into(), 0);
                for _ in 0..noise(&mut seed) % 30 {
                    match noise(&mut seed) % 8 {
                        0 => bytes.extend([1, 18].into_iter().chain([7; 16])),
                        1 => bytes.extend([0x2a, 0, 0, 0, 9, 0, 0, 0, 1, 2]),
                        2 => bytes.extend([0x20, 0, 0, 0, 5, 6, 7, 8]),
                        3 => bytes.extend([9, 1, 2, 3]),
                        4 => bytes.push(u8::try_from(noise(&mut seed) % 256).unwrap()),
                        _ => bytes.push(0),
                    }
                }
                let Ok(tuple) = HeapTuple::new(&bytes) else { continue };
                let mut found = Vec::new();
                let is_sound = plan.walk(&tuple, &mut found);
                let quickly = found.iter().map(|one| (one.number, one.offset, one.len));
                let quickly = is_sound.then(|| quickly.collect::<Vec<_>>());
                assert_eq!(quickly, slowly(&plan, &tuple), "{spec}: {bytes:?}");
                sound += u32::from(is_sound);
                found_any += u32::from(is_sound && !found.is_empty());
            }
        }
        assert!(sound > 10_000 && found_any > 1000, "{sound}, {found_any}");
    }
}
