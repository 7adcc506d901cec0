//! Any bytes are a datum that lies inside them, or an error that lies inside them too.
use pgtoast_varlena::{
    Kind, ToastPointer, Varlena, VarlenaError, compressed_header, datum_len, long_header,
    short_header,
};

/// At every offset: parsing and measuring agree, nothing reaches past the end, an error's place is
/// where we looked, and the header written for what was read is the header that was read.
pub fn varlena_parse(data: &[u8]) {
    for offset in 0..data.len().min(64) + 1 {
        let measured = datum_len(data, offset);
        match Varlena::parse(data, offset) {
            Ok((varlena, len)) => {
                assert_eq!(measured, Ok(len));
                let datum = &data[offset..offset + len];
                assert_eq!(header_of(&varlena, datum), datum[..datum.len().min(8)]);
            }
            Err(VarlenaError::PointerPadding { offset: place, .. }) => {
                assert_eq!((place, measured), (offset, Ok(22)));
            }
            Err(error) => {
                assert_eq!(measured, Err(error));
                let place = place(error).expect("parsing gives located errors");
                assert!(place == offset || place == offset + 1);
            }
        }
    }
}

/// The first bytes of the datum that holds `varlena`, eight at most, as we would write them.
fn header_of(varlena: &Varlena<'_>, datum: &[u8]) -> Vec<u8> {
    let mut written = match varlena {
        Varlena::Short(payload) => vec![short_header(payload.len()).expect("it was read")],
        Varlena::Long(payload) => long_header(payload.len()).expect("it was read").to_vec(),
        Varlena::Compressed(compressed) => match compressed.info.method() {
            Ok(method) => {
                let (raw_len, stream_len) = (compressed.info.len(), compressed.stream.len());
                compressed_header(raw_len, method, stream_len).expect("it was read").to_vec()
            }
            Err(_) => datum[..8].to_vec(),
        },
        Varlena::External(pointer) => {
            let mut target = [0xee; 22];
            let len = pointer.encode(&mut target).expect("22 bytes hold any pointer");
            target[..len].to_vec()
        }
    };
    written.truncate(8);
    let rest = written.len()..datum.len().min(8).max(written.len());
    written.extend_from_slice(&datum[rest]);
    written
}

fn place(error: VarlenaError) -> Option<usize> {
    match error {
        VarlenaError::HeaderLength { offset, .. }
        | VarlenaError::MemoryOnlyTag { offset, .. }
        | VarlenaError::NotPointer { offset, .. }
        | VarlenaError::PointerPadding { offset, .. }
        | VarlenaError::Truncated { offset, .. }
        | VarlenaError::UnknownTag { offset, .. } => Some(offset),
        _ => None,
    }
}

/// A pointer that parses encodes to the very bytes it was parsed from, and what it says of its
/// value is consistent; bytes that are none give an error.
pub fn toast_pointer(data: &[u8]) {
    let Ok(pointer) = ToastPointer::parse(data, 0) else {
        return;
    };
    assert_eq!(Kind::of(data[0]), Kind::Pointer);
    let mut target = [0xee; 22];
    let len = pointer.encode(&mut target).expect("22 bytes hold any pointer");
    assert_eq!(target[..len], data[..len]);
    assert_eq!(len, pointer.datum_len());
    assert!(target[len..].iter().all(|&byte| byte == 0xee));
    if let Ok(raw_len) = pointer.raw_payload_len() {
        assert!(raw_len < 1 << 30);
        assert_eq!(pointer.is_compressed(), pointer.stored_len() < raw_len);
    }
    if !pointer.is_compressed() {
        assert_eq!(pointer.compression(), Ok(None));
    }
}
