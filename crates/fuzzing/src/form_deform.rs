//! Any values of any columns become the tuple that the readable model makes, and come back from it.
use pgtoast_page::{
    AttributeDescriptor, HeapTuple, Storage, TupleDescriptor, TupleError, TupleHeader, Value,
};
use pgtoast_testkit::naive;
use pgtoast_varlena::{Kind, Varlena};

use crate::input::Input;
use crate::tuple::COLUMNS;

/// The first byte is the number of columns, one byte a column follows, with its storage in the two
/// highest bits; then for each a byte that says which form of value comes, its length, its bytes.
///
/// Sound values become a tuple, into a buffer that just holds it and into no smaller one; deformed it
/// gives them back, and these make it again. Bytes that are no value are refused, or are one by
/// chance.
pub fn tuple_form(data: &[u8]) {
    let mut input = Input::new(data);
    let count = input.u8() % 80;
    let kinds: Vec<_> = (0..count).map(|_| input.u8()).collect();
    let columns: Vec<_> = kinds.iter().copied().map(column).collect();
    let mut sound = true;
    let bytes: Vec<_> =
        columns.iter().map(|column| value(&mut input, column, &mut sound)).collect();
    let values: Vec<_> =
        bytes.iter().map(|bytes| bytes.as_deref().map_or(Value::Null, Value::stored)).collect();
    let descriptor = TupleDescriptor::new(&columns).expect("80 columns at most");
    let len = match descriptor.tuple_len(&values) {
        Ok(len) => len,
        Err(error) => {
            assert!(!sound, "{error}");
            let mut buffer = vec![0; 1 << 16];
            assert_eq!(descriptor.form(&values, &mut buffer).err(), Some(error));
            return;
        }
    };

    let mut formed = vec![0x5a; len];
    descriptor.form(&values, &mut formed).expect("room for the whole tuple");
    let error = TupleError::TargetRoom { needed: len, room: len - 1 };
    assert_eq!(descriptor.form(&values, &mut vec![0; len - 1]).err(), Some(error));
    let plain: Vec<_> = columns.iter().map(|column| column.storage == Storage::Plain).collect();
    let naive_columns: Vec<_> = columns
        .iter()
        .map(|column| naive::deform::Column {
            len: column.len.attlen(),
            align: column.alignment.bytes(),
        })
        .collect();
    let sources: Vec<_> = bytes.iter().map(Option::as_deref).collect();
    assert_eq!(formed[18..], naive::form::form(&naive_columns, &plain, &sources));

    let tuple = HeapTuple::parse(&formed).expect("a sound tuple");
    let mut back = vec![Value::Null; columns.len()];
    tuple.deform_into(descriptor, &mut back).expect("what was formed can be deformed");
    for (source, value) in sources.iter().zip(&back) {
        match (source, value) {
            (None, Value::Null) => {}
            (Some(source), Value::Stored(datum)) => assert_same_value(source, datum.bytes),
            other => panic!("{other:?}"),
        }
    }
    let mut again = vec![0xa5; len];
    descriptor.form(&back, &mut again).expect("as long as the tuple that the values are from");
    assert_eq!(again, formed);
    assert!(len >= TupleHeader::MIN_TUPLE_LEN.into());
}

fn column(kind: u8) -> AttributeDescriptor<'static> {
    let (len, by_value, align) = COLUMNS[usize::from(kind & 0x3f) % COLUMNS.len()];
    let storage = b"pexm"[usize::from(kind >> 6)];
    AttributeDescriptor::from_catalog(len, by_value, align, storage).expect("a real column")
}

/// The bytes of a value; `sound` ends where they may be none.
fn value(
    input: &mut Input<'_>,
    column: &AttributeDescriptor<'_>,
    sound: &mut bool,
) -> Option<Vec<u8>> {
    let form = input.u8();
    let mut some = |len: usize| (0..len).map(|_| input.u8()).collect::<Vec<_>>();
    if form.is_multiple_of(5) {
        return None;
    }
    if form == 0xff {
        *sound = false;
        let len = some(1)[0];
        return Some(some(len.into()));
    }
    Some(match column.len.attlen() {
        -1 => {
            let len = usize::from(some(1)[0]);
            let word = |len: usize, flag| u32::try_from(len << 2 | flag).expect("a small length");
            match form % 8 {
                0..=2 => {
                    [vec![u8::try_from((len % 127 + 1) << 1 | 1).expect("7 bits")], some(len % 127)]
                        .concat()
                }
                3 => [&word(8 + len, 2).to_le_bytes()[..], &some(4 + len)].concat(),
                4 => [&[1, 18][..], &some(16)].concat(),
                5 => [&[1, 4][..], &some(20)].concat(),
                // Twice the length: as often as not longer than a short header allows.
                _ => [&word(4 + 2 * len, 0).to_le_bytes()[..], &some(2 * len)].concat(),
            }
        }
        -2 => {
            let len = some(1)[0];
            let text = some(len.into());
            [text.into_iter().map(|byte| byte.max(1)).collect(), vec![0]].concat()
        }
        len => some(usize::try_from(len).expect("a fixed length")),
    })
}

/// Only a header may have been exchanged, from four bytes to one.
fn assert_same_value(source: &[u8], stored: &[u8]) {
    if source == stored {
        return;
    }
    assert_eq!(Kind::of(stored[0]), Kind::Short);
    let payload = |bytes| match Varlena::parse(bytes, 0) {
        Ok((Varlena::Short(payload) | Varlena::Long(payload), _)) => payload,
        other => panic!("{other:?}"),
    };
    assert_eq!(payload(source), payload(stored));
}

#[cfg(test)]
mod tests {
    use pgtoast_testkit::Rng;

    #[test]
    fn random_values_come_back_from_the_tuples_they_make() {
        let mut rng = Rng::new(4);
        for _ in 0..3000 {
            let len = rng.between(1, 3000);
            super::tuple_form(&rng.bytes(len));
        }
    }
}
