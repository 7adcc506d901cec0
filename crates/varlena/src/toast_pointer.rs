//! What a tuple keeps in place of a value that is stored elsewhere.
//!
//! ```text
//! byte   0      1     2         6          10         14                18             22
//! oid    | 0x01 | 18  | raw_len | ext_info | value_id | toast_rel_id    |
//! oid8   | 0x01 |  4  | raw_len | ext_info | value_id low | high        | toast_rel_id |
//! direct | 0x01 | 20  | raw_len | ext_info | toast_rel_id | block hi lo | item  |  0 0 |
//!                                 `- bits 0..30 stored length, 30..32 method (0 pglz, 1 lz4)
//! ```
//! Nothing in them is aligned. An update carries a pointer over when all its bytes are equal, so no
//! byte may be left to chance: the direct pointer's last two are zero.
//!
//! Sources: `varatt.h`, `varatt_external` (REL_18); the patch series for 64-bit ids, whose id's low
//! half comes first; the Direct TOAST proposal, whose field order is our reading of it.
use pgtoast_base::{ItemPointer, ItemPointerData, Oid, Oid8};
use zerocopy::little_endian::{I32, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{
    CompressionInfo, CompressionMethod, LONG_HEADER_LEN, MAX_DATUM_LEN, Tag, VarlenaError,
    datum_len,
};

/// A pointer to a value stored out of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToastPointer {
    /// Chunks found by a 32-bit value id.
    Oid(OidPointer),
    /// Chunks found by a 64-bit value id.
    Oid8(Oid8Pointer),
    /// A tree of chunks found by the tuple id of its root.
    Direct(DirectPointer),
}

impl ToastPointer {
    /// The pointer that starts at `offset` with its `0x01`.
    ///
    /// # Errors
    /// [`VarlenaError::NotPointer`], [`Truncated`](VarlenaError::Truncated),
    /// [`UnknownTag`](VarlenaError::UnknownTag), [`MemoryOnlyTag`](VarlenaError::MemoryOnlyTag),
    /// [`PointerPadding`](VarlenaError::PointerPadding). Lengths, ids and methods may be anything.
    pub fn parse(bytes: &[u8], offset: usize) -> Result<Self, VarlenaError> {
        match bytes.get(offset) {
            Some(0x01) | None => {}
            Some(&found) => return Err(VarlenaError::NotPointer { offset, found }),
        }
        let len = datum_len(bytes, offset)?;
        let datum = &bytes[offset..offset + len];
        // The length came from the tag, so each payload below is there; the error is for the type.
        let truncated = VarlenaError::Truncated { offset, needed: len, available: len };
        let payload = &datum[2..];
        match Tag::from_byte(datum[1]) {
            Some(Tag::Oid) => Ok(Self::Oid(read(payload).ok_or(truncated)?)),
            Some(Tag::Oid8) => Ok(Self::Oid8(read(payload).ok_or(truncated)?)),
            Some(Tag::Direct) => {
                let pointer: DirectPointer = read(payload).ok_or(truncated)?;
                match pointer.padding {
                    [0, 0] => Ok(Self::Direct(pointer)),
                    found => Err(VarlenaError::PointerPadding { offset, found }),
                }
            }
            _ => Err(VarlenaError::UnknownTag { offset: offset + 1, tag: datum[1] }),
        }
    }

    /// The tag it is stored under.
    #[must_use]
    pub const fn tag(&self) -> Tag {
        match self {
            Self::Oid(_) => Tag::Oid,
            Self::Oid8(_) => Tag::Oid8,
            Self::Direct(_) => Tag::Direct,
        }
    }

    /// The raw datum's length as stored: with its 4-byte header, and unchecked.
    #[doc(alias = "va_rawsize")]
    #[must_use]
    pub fn raw_len(&self) -> i32 {
        match self {
            Self::Oid(pointer) => pointer.raw_len.get(),
            Self::Oid8(pointer) => pointer.raw_len.get(),
            Self::Direct(pointer) => pointer.raw_len.get(),
        }
    }

    /// The raw value's length in bytes, no header in it: 0..=2^30 - 5.
    ///
    /// # Errors
    /// [`VarlenaError::RawLength`] if no datum can be as long as the pointer says.
    pub fn raw_payload_len(&self) -> Result<usize, VarlenaError> {
        let raw_len = self.raw_len();
        usize::try_from(raw_len)
            .ok()
            .filter(|len| (LONG_HEADER_LEN..=MAX_DATUM_LEN).contains(len))
            .map(|len| len - LONG_HEADER_LEN)
            .ok_or(VarlenaError::RawLength { raw_len })
    }

    /// The stored length and the method bits.
    #[doc(alias = "va_extinfo")]
    #[must_use]
    pub fn ext_info(&self) -> CompressionInfo {
        CompressionInfo::from_word(match self {
            Self::Oid(pointer) => pointer.ext_info.get(),
            Self::Oid8(pointer) => pointer.ext_info.get(),
            Self::Direct(pointer) => pointer.ext_info.get(),
        })
    }

    /// The bytes in the chunks: no datum header; of a compressed value, its 4 bytes of
    /// compression info and the stream.
    #[doc(alias = "VARATT_EXTERNAL_GET_EXTSIZE")]
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.ext_info().len()
    }

    /// Whether the chunks hold a compressed stream: they hold less than the raw payload. The method
    /// bits do not tell, since they are 0 for pglz and for no compression alike.
    #[doc(alias = "VARATT_EXTERNAL_IS_COMPRESSED")]
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        let stored_len = i64::from(self.ext_info().word() & CompressionInfo::LEN_MASK);
        stored_len < i64::from(self.raw_len()) - 4
    }

    /// The method, `None` for a value that is stored as it is.
    ///
    /// # Errors
    /// [`VarlenaError::UnknownMethod`] for a compressed value whose bits name none.
    pub fn compression(&self) -> Result<Option<CompressionMethod>, VarlenaError> {
        self.is_compressed().then(|| self.ext_info().method()).transpose()
    }

    /// The TOAST relation that has the chunks.
    #[doc(alias = "va_toastrelid")]
    #[must_use]
    pub fn toast_rel_id(&self) -> Oid {
        Oid::new(match self {
            Self::Oid(pointer) => pointer.toast_rel_id.get(),
            Self::Oid8(pointer) => pointer.toast_rel_id.get(),
            Self::Direct(pointer) => pointer.toast_rel_id.get(),
        })
    }

    /// The value's id in the TOAST relation, in 64 bits for either width; a direct pointer has none.
    #[doc(alias = "va_valueid")]
    #[must_use]
    pub fn value_id(&self) -> Option<Oid8> {
        match self {
            Self::Oid(pointer) => Some(Oid::new(pointer.value_id.get()).into()),
            Self::Oid8(pointer) => Some(pointer.value_id()),
            Self::Direct(_) => None,
        }
    }

    /// The datum's bytes on disk, `0x01` and tag included: 18 or 22.
    #[must_use]
    pub fn datum_len(&self) -> usize {
        2 + self.payload().len()
    }

    /// Writes the datum, as [`parse`](Self::parse) reads it, to the front of `target` and returns
    /// how many bytes it took.
    ///
    /// # Errors
    /// [`VarlenaError::Truncated`] if `target` is too short; nothing is written then.
    pub fn encode(&self, target: &mut [u8]) -> Result<usize, VarlenaError> {
        let len = self.datum_len();
        let available = target.len();
        let datum = target.get_mut(..len).ok_or(VarlenaError::Truncated {
            offset: 0,
            needed: len,
            available,
        })?;
        datum[0] = 0x01;
        datum[1] = self.tag().byte();
        datum[2..].copy_from_slice(self.payload());
        Ok(len)
    }

    fn payload(&self) -> &[u8] {
        match self {
            Self::Oid(pointer) => pointer.as_bytes(),
            Self::Oid8(pointer) => pointer.as_bytes(),
            Self::Direct(pointer) => pointer.as_bytes(),
        }
    }
}

fn read<T: FromBytes>(payload: &[u8]) -> Option<T> {
    T::read_from_prefix(payload).ok().map(|(pointer, _)| pointer)
}

/// Bytes 2..18 of a pointer with a 32-bit value id. Any 16 bytes are one.
#[doc(alias = "varatt_external")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct OidPointer {
    raw_len: I32,
    ext_info: U32,
    value_id: U32,
    toast_rel_id: U32,
}
const _: () = assert!(size_of::<OidPointer>() == 16 && align_of::<OidPointer>() == 1);

impl OidPointer {
    /// A pointer to value `value_id` of `toast_rel_id`. `raw_len` counts the raw datum's 4-byte
    /// header, `stored.len()` does not.
    #[must_use]
    pub const fn new(
        raw_len: i32,
        stored: CompressionInfo,
        value_id: Oid,
        toast_rel_id: Oid,
    ) -> Self {
        Self {
            raw_len: I32::new(raw_len),
            ext_info: U32::new(stored.word()),
            value_id: U32::new(value_id.get()),
            toast_rel_id: U32::new(toast_rel_id.get()),
        }
    }
}

/// Bytes 2..22 of a pointer with a 64-bit value id. Any 20 bytes are one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Oid8Pointer {
    raw_len: I32,
    ext_info: U32,
    value_id_low: U32,
    value_id_high: U32,
    toast_rel_id: U32,
}
const _: () = assert!(size_of::<Oid8Pointer>() == 20 && align_of::<Oid8Pointer>() == 1);

impl Oid8Pointer {
    /// A pointer to value `value_id` of `toast_rel_id`. `raw_len` counts the raw datum's 4-byte
    /// header, `stored.len()` does not.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a u64")]
    pub const fn new(
        raw_len: i32,
        stored: CompressionInfo,
        value_id: Oid8,
        toast_rel_id: Oid,
    ) -> Self {
        Self {
            raw_len: I32::new(raw_len),
            ext_info: U32::new(stored.word()),
            value_id_low: U32::new(value_id.get() as u32),
            value_id_high: U32::new((value_id.get() >> 32) as u32),
            toast_rel_id: U32::new(toast_rel_id.get()),
        }
    }

    /// The value's id, put together from its halves.
    #[must_use]
    pub fn value_id(&self) -> Oid8 {
        Oid8::new(u64::from(self.value_id_high.get()) << 32 | u64::from(self.value_id_low.get()))
    }
}

/// Bytes 2..22 of a direct pointer. Its two last bytes are zero; [`ToastPointer::parse`] sees to it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct DirectPointer {
    raw_len: I32,
    ext_info: U32,
    toast_rel_id: U32,
    root: ItemPointerData,
    padding: [u8; 2],
}
const _: () = assert!(size_of::<DirectPointer>() == 20 && align_of::<DirectPointer>() == 1);

impl DirectPointer {
    /// A pointer to the tree whose root is the tuple `root` of `toast_rel_id`. `raw_len` counts
    /// the raw datum's 4-byte header, `stored.len()` does not.
    #[must_use]
    pub fn new(
        raw_len: i32,
        stored: CompressionInfo,
        toast_rel_id: Oid,
        root: ItemPointer,
    ) -> Self {
        Self {
            raw_len: I32::new(raw_len),
            ext_info: U32::new(stored.word()),
            toast_rel_id: U32::new(toast_rel_id.get()),
            root: ItemPointerData::new(root),
            padding: [0; 2],
        }
    }

    /// Where the root of the tree is.
    #[must_use]
    pub fn root(&self) -> ItemPointer {
        self.root.get()
    }
}
