//! From a stored datum to its value, or to a part of it.
//!
//! ```text
//! short, long          | payload |                                          borrowed
//! compressed           | info | stream |           -> decompress            the word says how long
//! out of line          chunks: | payload |         -> assemble
//! out of line          chunks: | info | stream |   -> assemble, decompress  when stored < raw
//! ```
//! Source: `detoast.c` (REL_18).
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use pgtoast_codec::{
    COMPRESSION_INFO_LEN, CompressionMethod, decompress, decompress_prefix, decompress_to_vec, lz4,
    maximum_raw_len, stored_prefix_len,
};
use pgtoast_varlena::{
    Compressed, CompressionInfo, ToastPointer, Varlena, compressed_header, encode_long,
};

use crate::slice::char_range;
use crate::source::visit_checked;
use crate::{
    Assembler, ByteSlice, CharSlice, ChunkPlan, ChunkSize, ChunkSource, Collector, ReadError,
    ToastError, Value, ValueKey, raw_len,
};

/// Reads values whose chunks come from one source.
///
/// It keeps a buffer for compressed bytes from value to value.
#[derive(Clone, Debug)]
pub struct Detoaster<S> {
    source: S,
    chunk_size: ChunkSize,
    stored: Vec<u8>,
}

impl<S: ChunkSource> Detoaster<S> {
    /// A reader of the chunks of `source`, which are of `chunk_size`.
    #[must_use]
    pub const fn new(source: S, chunk_size: ChunkSize) -> Self {
        Self { source, chunk_size, stored: Vec::new() }
    }

    /// The source.
    pub const fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// The value of a datum, whole and checked; borrowed if the datum holds it as it is.
    ///
    /// # Errors
    /// [`ReadError::Source`] if the source fails. Else a [`ToastError`]: those of chunks and of
    /// streams; [`CompressionInfo`](ToastError::CompressionInfo) or
    /// [`PointerLengths`](ToastError::PointerLengths) if the pointer disagrees with what is stored;
    /// [`Varlena`](ToastError::Varlena) for a length or a method that cannot be.
    #[doc(alias = "detoast_attr")]
    pub fn detoast<'v>(&mut self, datum: &Varlena<'v>) -> Result<Value<'v>, ReadError<S::Error>> {
        match datum {
            Varlena::Short(payload) | Varlena::Long(payload) => Ok(Value::borrowed(payload)),
            Varlena::Compressed(Compressed { info, stream }) => {
                Ok(Value::owned(decompress_to_vec(info.method()?, stream, info.len())?))
            }
            Varlena::External(pointer) => {
                let raw_len = pointer.raw_payload_len()?;
                if pointer.compression()?.is_none() {
                    let stored = self.fetch_stored(pointer)?;
                    check_lengths(pointer, raw_len)?;
                    return Ok(Value::owned(stored));
                }
                self.fetch_scratch(pointer, pointer.stored_len())?;
                Ok(Value::owned(Value::of_stored(pointer, &self.stored)?.into_vec()))
            }
        }
    }

    /// As [`detoast`](Self::detoast), into a buffer as long as the value: see [`raw_len`]. Chunks of a
    /// value that is not compressed are copied straight to their places.
    ///
    /// # Errors
    /// As [`detoast`](Self::detoast), and [`ToastError::TargetLength`]. The buffer's content means
    /// nothing then.
    pub fn detoast_into(
        &mut self,
        datum: &Varlena<'_>,
        target: &mut [u8],
    ) -> Result<(), ReadError<S::Error>> {
        let (found, expected) = (target.len(), raw_len(datum)?);
        if found != expected {
            return Err(ToastError::TargetLength { found, expected }.into());
        }
        match datum {
            Varlena::Short(payload) | Varlena::Long(payload) => target.copy_from_slice(payload),
            Varlena::Compressed(Compressed { info, stream }) => {
                decompress(info.method()?, stream, target)?;
            }
            Varlena::External(pointer) => match pointer.compression()? {
                None if pointer.stored_len() == target.len() => {
                    self.assemble(pointer, target)?;
                }
                None => {
                    // The chunks do not fit; what is wrong with them says more than that.
                    self.fetch_scratch(pointer, pointer.stored_len())?;
                    check_lengths(pointer, target.len())?;
                }
                Some(method) => {
                    self.fetch_scratch(pointer, pointer.stored_len())?;
                    let stream = stream_of(pointer, target.len(), method, &self.stored)?;
                    decompress(method, stream, target)?;
                }
            },
        }
        Ok(())
    }

    /// What is stored of a value out of line, still compressed if it is: then the compression info and
    /// the stream.
    ///
    /// # Errors
    /// [`ReadError::Source`], or what is wrong with the chunks.
    pub fn fetch_stored(&mut self, pointer: &ToastPointer) -> Result<Vec<u8>, ReadError<S::Error>> {
        let plan = ChunkPlan::new(pointer, self.chunk_size)?;
        self.collect(pointer, plan, Vec::new())
    }

    /// Appends to `target` the datum that a row would hold had the value never left it: long, or
    /// compressed, which it stays.
    ///
    /// # Errors
    /// As [`detoast`](Self::detoast), but that a stream is not decompressed and so not checked.
    /// `target` is as it was then.
    #[doc(alias = "detoast_external_attr")]
    pub fn fetch_datum(
        &mut self,
        pointer: &ToastPointer,
        target: &mut Vec<u8>,
    ) -> Result<(), ReadError<S::Error>> {
        let raw_len = pointer.raw_payload_len()?;
        let method = pointer.compression()?;
        self.fetch_scratch(pointer, pointer.stored_len())?;
        match method {
            None => {
                check_lengths(pointer, raw_len)?;
                encode_long(&self.stored, target)?;
            }
            Some(method) => {
                let stream = stream_of(pointer, raw_len, method, &self.stored)?;
                target.extend_from_slice(&compressed_header(raw_len, method, stream.len())?);
                target.extend_from_slice(stream);
            }
        }
        Ok(())
    }

    /// Some bytes of a value, from as little of it as there is a way to: the chunks they lie in, or of
    /// a compressed value those of a prefix. What is not read is not checked.
    ///
    /// The server reads all of an lz4 value for any slice; here it is a prefix as for pglz.
    ///
    /// # Errors
    /// As [`detoast`](Self::detoast), and [`ToastError::PrefixShort`] where the server would give
    /// fewer bytes than there should be and say nothing.
    #[doc(alias = "detoast_attr_slice")]
    pub fn slice_bytes<'v>(
        &mut self,
        datum: &Varlena<'v>,
        slice: ByteSlice,
    ) -> Result<Value<'v>, ReadError<S::Error>> {
        let raw_len = raw_len(datum)?;
        let range = slice.of(raw_len);
        if range.is_empty() {
            return Ok(Value::borrowed(&[]));
        }
        match datum {
            Varlena::Short(payload) | Varlena::Long(payload) => {
                Ok(Value::borrowed(&payload[range]))
            }
            Varlena::Compressed(Compressed { info, stream }) => {
                Ok(Value::owned(decompress_range(info.method()?, stream, raw_len, range)?))
            }
            Varlena::External(pointer) => {
                let Some(method) = pointer.compression()? else {
                    let plan = ChunkPlan::new(pointer, self.chunk_size)?;
                    let plan = plan.slice(range.start, range.len());
                    return Ok(Value::owned(self.collect(pointer, plan, Vec::new())?));
                };
                let stored_len = pointer.stored_len();
                let enough = match method {
                    CompressionMethod::Pglz => stored_prefix_len(method, range.end, stored_len),
                    CompressionMethod::Lz4 => {
                        lz4::stored_prefix_len(range.end, raw_len, stored_len)
                    }
                };
                self.fetch_scratch(pointer, enough)?;
                let stream = stream_of(pointer, raw_len, method, &self.stored)?;
                Ok(Value::owned(decompress_range(method, stream, raw_len, range)?))
            }
        }
    }

    /// Some characters of a text in UTF-8, from the bytes that can hold them: four for each up to the
    /// last one.
    ///
    /// # Errors
    /// As [`slice_bytes`](Self::slice_bytes), and [`ToastError::Utf8`] if what is in the slice or
    /// before it is no character. What is behind it is not looked at.
    #[doc(alias = "text_substring")]
    pub fn slice_chars<'v>(
        &mut self,
        datum: &Varlena<'v>,
        slice: CharSlice,
    ) -> Result<Cow<'v, str>, ReadError<S::Error>> {
        let prefix = ByteSlice { offset: 0, len: slice.prefix_len() };
        let bytes = self.slice_bytes(datum, prefix)?.into_bytes();
        let is_whole = bytes.len() == raw_len(datum)?;
        match bytes {
            Cow::Borrowed(bytes) => {
                let (text, range) = char_range(bytes, is_whole, slice)?;
                Ok(Cow::Borrowed(&text[range]))
            }
            Cow::Owned(bytes) => {
                let (text, range) = char_range(&bytes, is_whole, slice)?;
                Ok(Cow::Owned(String::from(&text[range])))
            }
        }
    }

    fn assemble(
        &mut self,
        pointer: &ToastPointer,
        target: &mut [u8],
    ) -> Result<(), ReadError<S::Error>> {
        let plan = ChunkPlan::new(pointer, self.chunk_size)?;
        let mut assembler = Assembler::new(plan, self.source.order());
        visit_checked(&mut self.source, ValueKey::of(pointer)?, to_visit(&plan), |chunk| {
            assembler.accept(chunk, target)
        })?;
        Ok(assembler.finish()?)
    }

    fn collect(
        &mut self,
        pointer: &ToastPointer,
        plan: ChunkPlan,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, ReadError<S::Error>> {
        let mut collector = Collector::with_buffer(plan, self.source.order(), buffer);
        visit_checked(&mut self.source, ValueKey::of(pointer)?, to_visit(&plan), |chunk| {
            collector.accept(chunk)
        })?;
        Ok(collector.finish()?)
    }

    /// The first `len` stored bytes of a value into the buffer that is kept.
    fn fetch_scratch(
        &mut self,
        pointer: &ToastPointer,
        len: usize,
    ) -> Result<(), ReadError<S::Error>> {
        let plan = ChunkPlan::new(pointer, self.chunk_size)?.slice(0, len);
        let buffer = core::mem::take(&mut self.stored);
        self.stored = self.collect(pointer, plan, buffer)?;
        Ok(())
    }
}

impl<'s> Value<'s> {
    /// The value of what is stored of one out of line, all its chunks in order: borrowed if that is
    /// not compressed.
    ///
    /// # Errors
    /// [`ToastError::PointerLengths`] if `stored` is not of the length that the pointer says, or the
    /// pointer at odds with itself; [`CompressionInfo`](ToastError::CompressionInfo),
    /// [`Codec`](ToastError::Codec), [`Varlena`](ToastError::Varlena).
    pub fn of_stored(pointer: &ToastPointer, stored: &'s [u8]) -> Result<Self, ToastError> {
        let raw_len = pointer.raw_payload_len()?;
        if stored.len() != pointer.stored_len() {
            let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
            let stored_len = stored.len();
            return Err(ToastError::PointerLengths { value_id, raw_len, stored_len });
        }
        let Some(method) = pointer.compression()? else {
            check_lengths(pointer, raw_len)?;
            return Ok(Self::borrowed(stored));
        };
        let stream = stream_of(pointer, raw_len, method, stored)?;
        Ok(Self::owned(decompress_to_vec(method, stream, raw_len)?))
    }
}

/// The chunks to ask a source for: of a whole value all there are, so that none too many goes unnoticed.
fn to_visit(plan: &ChunkPlan) -> Range<u32> {
    let chunks = plan.chunks();
    if chunks == (0..plan.chunk_count()) { 0..u32::MAX } else { chunks }
}

/// The stream behind the compression info, which must say what the pointer does.
fn stream_of<'s>(
    pointer: &ToastPointer,
    raw_len: usize,
    method: CompressionMethod,
    stored: &'s [u8],
) -> Result<&'s [u8], ToastError> {
    let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
    let Some((info, stream)) = stored.split_first_chunk::<COMPRESSION_INFO_LEN>() else {
        let stored_len = pointer.stored_len();
        return Err(ToastError::PointerLengths { value_id, raw_len, stored_len });
    };
    let (found, expected) = (u32::from_le_bytes(*info), CompressionInfo::new(raw_len, method)?);
    if found != expected.word() {
        let expected = expected.word();
        return Err(ToastError::CompressionInfo { value_id, found, expected });
    }
    Ok(stream)
}

/// A value that is not compressed is stored in as many bytes as it has.
fn check_lengths(pointer: &ToastPointer, raw_len: usize) -> Result<(), ToastError> {
    let stored_len = pointer.stored_len();
    if stored_len != raw_len {
        let value_id = pointer.value_id().ok_or(ToastError::Direct)?;
        return Err(ToastError::PointerLengths { value_id, raw_len, stored_len });
    }
    Ok(())
}

/// The bytes in `range` of a compressed value, which is not empty.
fn decompress_range(
    method: CompressionMethod,
    stream: &[u8],
    raw_len: usize,
    range: Range<usize>,
) -> Result<Vec<u8>, ToastError> {
    let expected = range.end;
    let mut prefix = if expected < raw_len {
        // A stream that cannot come that far gets no buffer for it.
        let mut prefix = alloc::vec![0; expected.min(maximum_raw_len(method, stream.len()))];
        let found = decompress_prefix(method, stream, raw_len, &mut prefix)?;
        if found < expected {
            return Err(ToastError::PrefixShort { found, expected });
        }
        prefix
    } else {
        decompress_to_vec(method, stream, raw_len)?
    };
    prefix.drain(..range.start);
    Ok(prefix)
}
