//! A chunk relation: the one noun that values are written to and read from.
use alloc::vec::Vec;

use pgtoast_base::{ItemPointer, Oid};
use pgtoast_varlena::{
    CompressionInfo, DirectPointer, LONG_HEADER_LEN, ToastPointer, VarlenaError,
};

use crate::trailer::StoredForm;
use crate::{ChunkStore, DirectError, Failure, Parameters, ValueTag, Writer};

/// What is the same for all values of a chunk relation: its id, which every pointer names, and its
/// parameters. Cheap to copy; the tuples themselves are in a [`ChunkStore`], which each call is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectRelation {
    id: Oid,
    parameters: Parameters,
    tag: Option<ValueTag>,
}

impl DirectRelation {
    /// The relation `id`, which pointers call their toast relation.
    #[must_use]
    pub const fn new(id: Oid, parameters: Parameters) -> Self {
        Self { id, parameters, tag: None }
    }

    /// The relation, with the tag of the next value that is written. Relations whose leaves have trailers
    /// need one for every value, others ignore it.
    #[must_use]
    pub const fn with_tag(self, tag: ValueTag) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> Oid {
        self.id
    }

    /// Its parameters.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Writes a value as it is, and returns the pointer that stands for it.
    ///
    /// # Errors
    /// [`DirectError::Empty`], [`DirectError::TooLong`], [`DirectError::TagMissing`], and the store's own.
    /// Nothing of the value is left in the store then.
    pub fn write<S: ChunkStore>(
        &self,
        store: &mut S,
        value: &[u8],
    ) -> Result<DirectPointer, Failure<S::Error>> {
        self.write_form(store, StoredForm::AsIs, value.len(), &[value])
    }

    /// Writes a value of unknown length, piece by piece. [`finish`](Writer::finish) gives the root, and
    /// [`pointer`](Self::pointer) the pointer.
    pub fn writer<'s, S: ChunkStore>(&self, store: &'s mut S) -> Writer<'s, S> {
        Writer::new(store, self.parameters, self.tag, StoredForm::AsIs, None)
    }

    /// As [`writer`](Self::writer), for a value whose length is known: with trailers, each leaf then says how long the
    /// value is. Writing another number of bytes is an error when it is finished.
    pub fn writer_with_len<'s, S: ChunkStore>(
        &self,
        store: &'s mut S,
        len: usize,
    ) -> Writer<'s, S> {
        Writer::new(store, self.parameters, self.tag, StoredForm::AsIs, Some(len))
    }

    /// The pointer to a value that is stored as it is.
    ///
    /// # Errors
    /// [`DirectError::TooLong`] for more bytes than a value can have.
    pub fn pointer(&self, root: ItemPointer, len: usize) -> Result<DirectPointer, DirectError> {
        self.pointer_to(root, len, len, StoredForm::AsIs)
    }

    pub(crate) fn write_form<S: ChunkStore>(
        &self,
        store: &mut S,
        form: StoredForm,
        raw_len: usize,
        pieces: &[&[u8]],
    ) -> Result<DirectPointer, Failure<S::Error>> {
        let stored_len = pieces.iter().map(|piece| piece.len()).sum();
        let mut writer = Writer::new(store, self.parameters, self.tag, form, Some(stored_len));
        for piece in pieces {
            writer.write(piece)?;
        }
        let written = writer.finish()?;
        Ok(self.pointer_to(written.root, raw_len, written.stored_len, form)?)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "less than 2^30, checked"
    )]
    pub(crate) fn pointer_to(
        &self,
        root: ItemPointer,
        raw_len: usize,
        stored_len: usize,
        form: StoredForm,
    ) -> Result<DirectPointer, DirectError> {
        let limit = self.parameters.max_stored_len();
        let len = raw_len.max(stored_len);
        if len > limit.max(pgtoast_varlena::MAX_PAYLOAD_LEN) {
            return Err(DirectError::TooLong { len, limit });
        }
        let method_bits = match form {
            StoredForm::AsIs | StoredForm::Pglz => 0,
            StoredForm::Lz4 => 1,
            StoredForm::Groups => GROUPS_METHOD,
        };
        let info = CompressionInfo::from_word(stored_len as u32 | method_bits << 30);
        Ok(DirectPointer::new((raw_len + LONG_HEADER_LEN) as i32, info, self.id, root))
    }

    /// What a pointer promises.
    #[inline]
    pub(crate) fn resolve(&self, pointer: &DirectPointer) -> Result<Promise, DirectError> {
        let root = pointer.root();
        let pointer = ToastPointer::Direct(*pointer);
        if pointer.toast_rel_id() != self.id {
            return Err(DirectError::Relation { found: pointer.toast_rel_id(), expected: self.id });
        }
        let (raw_len, stored_len) = (pointer.raw_payload_len()?, pointer.stored_len());
        let limit = self.parameters.max_stored_len();
        if stored_len > limit {
            return Err(DirectError::TooLong { len: stored_len, limit });
        }
        if stored_len == 0 || stored_len > raw_len {
            return Err(DirectError::PointerLengths { raw_len, stored_len });
        }
        let form = match (pointer.is_compressed(), u32::from(pointer.ext_info().method_bits())) {
            (false, _) => StoredForm::AsIs,
            (true, 0) => StoredForm::Pglz,
            (true, 1) => StoredForm::Lz4,
            (true, GROUPS_METHOD) => StoredForm::Groups,
            (true, _) => {
                let bits = pointer.ext_info().method_bits();
                return Err(VarlenaError::UnknownMethod { bits }.into());
            }
        };
        Ok(Promise { root, raw_len, stored_len, form })
    }

    pub(crate) const fn tag(&self) -> Option<ValueTag> {
        self.tag
    }
}

/// The method bits that PostgreSQL has no use for: a reader that does not know of groups refuses them.
const GROUPS_METHOD: u32 = 3;

/// A pointer, taken apart and found possible.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) root: ItemPointer,
    pub(crate) raw_len: usize,
    pub(crate) stored_len: usize,
    pub(crate) form: StoredForm,
}

/// A vector that is not made larger than some bytes justify at first.
pub(crate) fn careful_vec(len: usize) -> Vec<u8> {
    Vec::with_capacity(len.min(1 << 20))
}
