//! Tuples of real servers taken apart, against the plain walk of the rules.
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result};
use pgtoast_page::{AttributeDescriptor, HeapTuple, TupleDescriptor, Value};
use pgtoast_testkit::facts;
use pgtoast_testkit::fixtures;
use pgtoast_testkit::naive::deform::{Column, deform};

use super::NAME;
use crate::peers::TWIN;
use crate::row::Better;
use crate::{Comparison, Row, check};

/// Passes over the tuples of a page in one sample.
const PASSES: usize = 2000;
const MAJOR: u32 = 15;

/// A row for each page: one with thirty types, one with pointers beside values.
pub(super) fn compare(share: Duration) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, case) in [("heap_types", "thirty types"), ("heap_toasted", "pointers and values")] {
        let page = fixtures::Page::load(MAJOR, name)?;
        let table = Table::of(&page)?;
        table.check()?;
        let timings = Comparison::of(|| {
            let mut values = vec![Value::Null; table.columns.len()];
            for _ in 0..PASSES {
                for tuple in &table.tuples {
                    black_box(table.deform(black_box(tuple.bytes), &mut values).is_ok());
                }
            }
        })
        .against(TWIN, || {
            for _ in 0..PASSES {
                for tuple in &table.tuples {
                    black_box(deform(black_box(tuple.bytes), &table.plain));
                }
            }
        })
        .run(share / 2)?;
        let nanoseconds = |seconds: f64| seconds * 1e9 / (PASSES * table.tuples.len()) as f64;
        let row = Row::new(NAME, case, "deform", "ns/tuple", nanoseconds(timings.ours));
        let twin = timings.peer(TWIN).context("the twin took part")?;
        rows.push(row.against(TWIN, nanoseconds(twin), Better::Lower).noted(
            "tuples that a real server wrote; the twin walks the rules without checks and collects \
             ranges in a vector",
        ));
    }
    Ok(rows)
}

/// The tuples of a page, and their columns for either reader.
struct Table<'a> {
    columns: Vec<AttributeDescriptor<'a>>,
    plain: Vec<Column>,
    tuples: Vec<Tuple<'a>>,
}

struct Tuple<'a> {
    bytes: &'a [u8],
    /// As the server gave them.
    attributes: &'a [Option<Vec<u8>>],
}

impl<'a> Table<'a> {
    fn of(page: &'a fixtures::Page) -> Result<Self> {
        let descriptor = |attribute: &facts::Attribute| {
            let (align, storage) =
                (u8::try_from(attribute.align)?, u8::try_from(attribute.storage)?);
            let (len, by_value) = (attribute.len, attribute.by_value);
            Ok(AttributeDescriptor::from_catalog(len, by_value, align, storage)?)
        };
        let plain = |attribute: &facts::Attribute| Column {
            len: attribute.len,
            align: attribute.align_bytes(),
        };
        let tuple = |item: &'a facts::HeapItem| {
            let (start, len) = (usize::from(item.offset), usize::from(item.len));
            let bytes = page.bytes.get(start..start + len)?;
            Some(Tuple { bytes, attributes: &item.tuple.as_ref()?.attributes })
        };
        Ok(Self {
            columns: page.attributes.iter().map(descriptor).collect::<Result<_>>()?,
            plain: page.attributes.iter().map(plain).collect(),
            tuples: page.items.iter().filter_map(tuple).collect(),
        })
    }

    fn deform<'t>(&'t self, tuple: &'t [u8], values: &mut [Value<'t>]) -> Result<usize> {
        let descriptor = TupleDescriptor::new(&self.columns)?;
        Ok(HeapTuple::parse(tuple)?.deform_into(descriptor, values)?)
    }

    /// Insists that both readers find what the server says is there.
    fn check(&self) -> Result<()> {
        for (number, Tuple { bytes, attributes }) in self.tuples.iter().enumerate() {
            let mut values = vec![Value::Null; self.columns.len()];
            let count = self.deform(bytes, &mut values)?;
            let found = values.iter().map(|value| match value {
                Value::Stored(datum) => Some(datum.bytes),
                Value::Null | Value::Missing(_) => None,
            });
            let ranges = deform(bytes, &self.plain);
            let plain = ranges.into_iter().map(|range| range.map(|range| &bytes[range]));
            let expected = || attributes.iter().map(|value| value.as_deref());
            check(count == self.columns.len() && found.eq(expected()), || {
                format!("attributes of tuple {number}")
            })?;
            check(plain.eq(expected()), || format!("the twin's attributes of tuple {number}"))?;
        }
        check(!self.tuples.is_empty(), || "no tuples".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readers_find_the_attributes_that_the_server_found() {
        for name in ["heap_types", "heap_toasted"] {
            let page = fixtures::Page::load(MAJOR, name).unwrap();
            let mut table = Table::of(&page).unwrap();
            table.check().unwrap();
            let mut broken = table.tuples[0].bytes.to_vec();
            broken.truncate(broken.len() - 1);
            table.tuples[0].bytes = &broken;
            assert!(table.check().is_err(), "{name}");
        }
    }
}
