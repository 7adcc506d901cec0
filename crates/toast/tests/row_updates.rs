//! An update leaves the chunks of what it does not change alone, and deletes those of what it does.
//!
//! Users fear that changing one column rewrites the others' large values. It does not: a pointer that is equal
//! in every byte is carried over. A value copied from another column is stored again.
//! Source: `toast_helper.c`, `toast_tuple_init` (REL_18); servers of 15.
use pgtoast_base::{Oid, Oid8};
use pgtoast_page::{AttributeDescriptor, Value};
use pgtoast_toast::{AttributeUpdate, NewValue, OutOfLine, ToastError};
use pgtoast_varlena::{ToastPointer, VarlenaError};

fn pointer(value_id: u32) -> (ToastPointer, Vec<u8>) {
    let datum = [0xff; 127];
    let pointer =
        OutOfLine::new(&datum).expect("sound bytes").pointer(Oid::new(value_id), Oid::new(16_560));
    let mut bytes = vec![0; pointer.datum_len()];
    pointer.encode(&mut bytes).expect("sound bytes");
    (pointer, bytes)
}

fn column(storage: u8) -> AttributeDescriptor<'static> {
    AttributeDescriptor::from_catalog(-1, false, b'i', storage).expect("sound bytes")
}

fn update(storage: u8, old: &Value<'_>, new: &Value<'_>) -> AttributeUpdate {
    AttributeUpdate::new(&column(storage), old, new).expect("sound bytes")
}

#[test]
fn only_an_equal_pointer_is_carried_over() {
    let ((old, old_bytes), (other, other_bytes)) = (pointer(7), pointer(8));
    let (old_value, other_value) = (Value::stored(&old_bytes), Value::stored(&other_bytes));
    let here = Value::stored(&[0x07, b'h', b'i']);
    let carried = AttributeUpdate { new: NewValue::CarriedOver, delete: None };
    for storage in *b"xemp" {
        assert_eq!(update(storage, &old_value, &old_value), carried);
        for (old_value, delete) in [
            (&old_value, Some(old)),
            (&here, None),
            (&Value::Null, None),
            (&Value::Missing(None), None),
        ] {
            let fetch =
                if storage == b'p' { NewValue::FetchRaw(other) } else { NewValue::Fetch(other) };
            assert_eq!(
                update(storage, old_value, &other_value),
                AttributeUpdate { new: fetch, delete }
            );
            for new in [&here, &Value::Null] {
                let expected = AttributeUpdate { new: NewValue::AsItIs, delete };
                assert_eq!(update(storage, old_value, new), expected);
            }
        }
    }
}

#[test]
fn pointers_of_two_lengths_are_never_equal() {
    let datum = [0xff; 127];
    let stored = OutOfLine::new(&datum).unwrap();
    let short = stored.pointer(Oid::new(7), Oid::new(16_560));
    let long = stored.pointer_oid8(Oid8::new(7), Oid::new(16_560));
    let bytes = |pointer: ToastPointer| {
        let mut bytes = vec![0; pointer.datum_len()];
        pointer.encode(&mut bytes).unwrap();
        bytes
    };
    let (short_bytes, long_bytes) = (bytes(short), bytes(long));
    let update = update(b'x', &Value::stored(&short_bytes), &Value::stored(&long_bytes));
    assert_eq!(update, AttributeUpdate { new: NewValue::Fetch(long), delete: Some(short) });
}

#[test]
fn numbers_that_look_like_pointers_are_numbers() {
    let int4 = AttributeDescriptor::from_catalog(4, true, b'i', b'p').unwrap();
    let number = Value::stored(&[0x01, 18, 0, 0]);
    let expected = AttributeUpdate { new: NewValue::AsItIs, delete: None };
    assert_eq!(AttributeUpdate::new(&int4, &number, &Value::Null), Ok(expected));
}

#[test]
fn a_broken_pointer_is_an_error_and_not_carried_over() {
    let broken = [0x01, 99];
    let value = Value::stored(&broken);
    let error = ToastError::Varlena(VarlenaError::UnknownTag { offset: 1, tag: 99 });
    for (old, new) in [(&value, &value), (&value, &Value::Null), (&Value::Null, &value)] {
        assert_eq!(AttributeUpdate::new(&column(b'x'), old, new), Err(error));
    }
}
