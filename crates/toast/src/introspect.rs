//! What the server says of a stored datum without reading its value.
//!
//! Source: `varlena.c`, `pg_column_size`, `pg_column_compression`, `pg_column_toast_chunk_id` (REL_18).
use pgtoast_base::Oid8;
use pgtoast_varlena::{
    COMPRESSED_HEADER_LEN, CompressionMethod, LONG_HEADER_LEN, SHORT_HEADER_LEN, Varlena,
    VarlenaError,
};

/// The bytes a datum takes where it is stored: with its header if inline, and of a value out of line
/// what is in its chunks, no pointer among it.
#[doc(alias = "pg_column_size")]
#[must_use]
pub fn column_size(datum: &Varlena<'_>) -> usize {
    match datum {
        Varlena::Short(payload) => payload.len() + SHORT_HEADER_LEN,
        Varlena::Long(payload) => payload.len() + LONG_HEADER_LEN,
        Varlena::Compressed(compressed) => compressed.stream.len() + COMPRESSED_HEADER_LEN,
        Varlena::External(pointer) => pointer.stored_len(),
    }
}

/// The method a datum is compressed with, inline or out of line; `None` for one that is not.
///
/// # Errors
/// [`VarlenaError::UnknownMethod`].
#[doc(alias = "pg_column_compression")]
pub fn column_compression(datum: &Varlena<'_>) -> Result<Option<CompressionMethod>, VarlenaError> {
    match datum {
        Varlena::Short(_) | Varlena::Long(_) => Ok(None),
        Varlena::Compressed(compressed) => compressed.info.method().map(Some),
        Varlena::External(pointer) => pointer.compression(),
    }
}

/// The value id of a datum out of line; `None` for one that is inline, or stored direct.
#[doc(alias = "pg_column_toast_chunk_id")]
#[must_use]
pub fn column_toast_chunk_id(datum: &Varlena<'_>) -> Option<Oid8> {
    match datum {
        Varlena::External(pointer) => pointer.value_id(),
        _ => None,
    }
}

/// How long the value of a datum is in bytes, by what the datum says: its payload, not its pointer.
///
/// # Errors
/// [`VarlenaError::RawLength`] for a pointer to what no value can be.
#[doc(alias = "toast_raw_datum_size")]
pub fn raw_len(datum: &Varlena<'_>) -> Result<usize, VarlenaError> {
    match datum {
        Varlena::Short(payload) | Varlena::Long(payload) => Ok(payload.len()),
        Varlena::Compressed(compressed) => Ok(compressed.info.len()),
        Varlena::External(pointer) => pointer.raw_payload_len(),
    }
}
