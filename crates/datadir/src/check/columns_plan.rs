//! What the walk over many tuples of one table needs to know of its columns.
use std::sync::Arc;

use pgtoast_base::Alignment;
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

/// How to get over an attribute.
#[derive(Clone, Copy, Debug)]
struct Step {
    len: AttributeLen,
    alignment: Alignment,
}

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
        let step = |column: &AttributeDescriptor<'_>| Step {
            len: column.len,
            alignment: column.alignment,
        };
        let steps: Vec<_> = attributes.iter().map(step).collect();
        let is_fixed = |step: &&Step| matches!(step.len, AttributeLen::Fixed(_));
        let first = || steps.iter().take_while(is_fixed);
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
        for (index, step) in steps.iter().enumerate().skip(first) {
            match step.over(index, data, start, offset, found) {
                Some(end) => offset = end,
                None => return false,
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
        match step.over(index, data, start, offset, found) {
            Some(end) => offset = end,
            None => return false,
        }
    }
    offset <= data.len()
}

impl Step {
    /// Where an attribute of fixed length ends, if the one before ends at `offset`; that may be past
    /// the end of the tuple.
    #[inline]
    fn fixed(self, offset: usize) -> usize {
        let AttributeLen::Fixed(len) = self.len else { return offset };
        self.alignment.up(offset) + usize::from(len)
    }

    /// Where the attribute ends in `data`, which lies `start` bytes into the tuple.
    #[inline(always)]
    fn over(
        self,
        index: usize,
        data: &[u8],
        start: usize,
        offset: usize,
        found: &mut Vec<Found>,
    ) -> Option<usize> {
        match self.len {
            AttributeLen::Fixed(_) => Some(self.fixed(offset)),
            AttributeLen::Varlena => {
                // A byte that is not zero is no padding, wherever it lies.
                let is_padding = *data.get(offset)? == 0;
                let offset = if is_padding { self.alignment.up(offset) } else { offset };
                let len = datum_len(data, offset).ok()?;
                if matches!(Kind::of(*data.get(offset)?), Kind::Pointer | Kind::LongCompressed) {
                    // There are at most 1664 columns.
                    let number = u16::try_from(index + 1).ok()?;
                    found.push(Found { number, offset: start + offset, len });
                }
                Some(offset + len)
            }
            AttributeLen::CString => {
                let offset = self.alignment.up(offset);
                let rest = data.get(offset..)?;
                Some(offset + rest.iter().position(|byte| *byte == 0)? + 1)
            }
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
