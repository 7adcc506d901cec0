//! Any bytes are a tuple of any table, or lie about it in a way that has a name.
use pgtoast_page::{Attribute, AttributeDescriptor, HeapTuple, TupleDescriptor, TupleError, Value};
use pgtoast_testkit::naive;

/// `attlen`, `attbyval`, `attalign`: what a byte of the input makes a column of.
pub(crate) const COLUMNS: [(i16, bool, u8); 17] = [
    (4, true, b'i'),
    (-1, false, b'i'),
    (8, true, b'd'),
    (2, true, b's'),
    (1, true, b'c'),
    (-1, false, b'd'),
    (64, false, b'c'),
    (16, false, b'd'),
    (6, false, b's'),
    (12, false, b'i'),
    (-2, false, b'c'),
    (16, false, b'c'),
    (-1, false, b's'),
    (-1, false, b'c'),
    (12, false, b'd'),
    (6, false, b'i'),
    (32, false, b'd'),
];

/// The first byte is the number of columns, one byte a column follows, the rest is the tuple.
///
/// Attributes come in order, apart, inside the tuple; both ways to deform agree; where the tuple's
/// own header is sound and nothing failed, the readable model finds the same places.
pub fn tuple_deform(data: &[u8]) {
    let (&count, rest) = data.split_first().unwrap_or((&0, &[]));
    let (kinds, bytes) = rest.split_at(usize::from(count).min(rest.len()));
    let columns: Vec<_> = kinds
        .iter()
        .map(|kind| {
            let (len, by_value, align) = COLUMNS[usize::from(*kind) % COLUMNS.len()];
            AttributeDescriptor::from_catalog(len, by_value, align, b'p').expect("a real column")
        })
        .collect();
    let descriptor = TupleDescriptor::new(&columns).expect("255 columns at most");
    let Ok(tuple) = HeapTuple::new(bytes) else {
        assert!(bytes.len() < 23);
        return;
    };
    let walk = match tuple.deform(descriptor) {
        Ok(walk) => walk,
        Err(error) => {
            let mut values = vec![Value::Null; columns.len()];
            assert_eq!(tuple.deform_into(descriptor, &mut values), Err(error));
            return;
        }
    };
    let attributes: Vec<_> = walk.collect();
    assert_eq!(attributes.len(), columns.len());
    assert_in_order(&attributes, bytes);

    let first_error = attributes.iter().find_map(|attribute| attribute.err());
    let mut values = vec![Value::Null; columns.len()];
    match (tuple.deform_into(descriptor, &mut values), first_error) {
        (Ok(found), None) => {
            assert_eq!(found, columns.len());
            let values = values.into_iter().map(Some);
            assert!(values.eq(attributes.iter().map(|it| it.ok().map(|it| it.value))));
            if HeapTuple::parse(bytes).is_ok() {
                assert_eq!(places(&attributes), naive_places(bytes, kinds));
            }
        }
        (Err(error), Some(first)) => assert_eq!(error, first),
        (verdict, first) => panic!("{verdict:?} but {first:?}"),
    }
}

fn assert_in_order(attributes: &[Result<Attribute<'_>, TupleError>], tuple: &[u8]) {
    let mut end = 0;
    for (index, attribute) in attributes.iter().enumerate() {
        let number = u16::try_from(index + 1).expect("255 columns at most");
        match attribute {
            Ok(attribute) => {
                assert_eq!(attribute.number, number);
                if let Value::Stored(datum) = attribute.value {
                    assert!(datum.offset >= end);
                    end = datum.offset + datum.bytes.len();
                    assert_eq!(tuple[datum.offset..end], *datum.bytes);
                }
            }
            Err(
                TupleError::AttributeEnd { attribute, .. }
                | TupleError::AttributeStart { attribute, .. }
                | TupleError::AttributeUnreachable { attribute, .. }
                | TupleError::Unterminated { attribute, .. }
                | TupleError::Varlena { attribute, .. },
            ) => assert_eq!(*attribute, number),
            Err(error) => panic!("attribute {number}: {error}"),
        }
    }
}

type Places = Vec<Option<(usize, usize)>>;

fn places(attributes: &[Result<Attribute<'_>, TupleError>]) -> Places {
    attributes
        .iter()
        .map(|attribute| match attribute {
            Ok(Attribute { value: Value::Stored(datum), .. }) => {
                Some((datum.offset, datum.offset + datum.bytes.len()))
            }
            _ => None,
        })
        .collect()
}

fn naive_places(tuple: &[u8], kinds: &[u8]) -> Places {
    let columns: Vec<_> = kinds
        .iter()
        .map(|kind| {
            let (len, _, align) = COLUMNS[usize::from(*kind) % COLUMNS.len()];
            let align = match align {
                b'c' => 1,
                b's' => 2,
                b'i' => 4,
                _ => 8,
            };
            naive::deform::Column { len, align }
        })
        .collect();
    let ranges = naive::deform::deform(tuple, &columns);
    ranges.into_iter().map(|range| range.map(|range| (range.start, range.end))).collect()
}
