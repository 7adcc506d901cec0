//! `PostgreSQL C`: pglz out of the distribution's `libpgcommon.a`.
//!
//! **Contract:** C never writes past the slice it is given here, and never reads past what it is
//! given: a [`Stream`] has spare bytes behind it, because C reads the second and third byte of a tag
//! before it looks whether the stream has them. The compressor keeps its tables in static memory, so
//! a lock keeps two threads from being in it at once.
//!
//! Source: `src/include/common/pg_lzcompress.h` (REL_15). Only `pg_lzcompress.o` is taken out of
//! the archive; it needs nothing but the C library.

/// Whether the archive was there when this was built.
pub const AVAILABLE: bool = cfg!(have_pgcommon);

/// Why a row has no peer when the archive was not there.
pub const ABSENT: &str =
    "libpgcommon.a not found when this was built (Debian: postgresql-server-dev-15)";

/// Which of the two built-in strategies, or one with other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CStrategy {
    /// TOAST's own.
    Default,
    /// Compress whatever it costs.
    Always,
    /// Any others, in the order of the struct: least and greatest input size, least saving in percent, output
    /// bytes until the first match, good match size, and by how many percent that falls.
    Custom([i32; 6]),
}

/// A compressed stream with readable bytes behind its end.
#[derive(Clone, Debug)]
pub struct Stream {
    padded: Vec<u8>,
}

impl Stream {
    /// How far past the end of a stream that is cut inside a tag C looks, and some.
    const SPARE_BYTES: usize = 4;

    /// A copy of any bytes at all.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut padded = Vec::with_capacity(bytes.len() + Self::SPARE_BYTES);
        padded.extend_from_slice(bytes);
        padded.resize(bytes.len() + Self::SPARE_BYTES, 0);
        Self { padded }
    }

    /// Holds other bytes from now on.
    pub fn replace(&mut self, bytes: &[u8]) {
        self.padded.clear();
        self.padded.extend_from_slice(bytes);
        self.padded.resize(bytes.len() + Self::SPARE_BYTES, 0);
    }

    /// In bytes, the spare ones not among them.
    #[must_use]
    pub fn stream_len(&self) -> usize {
        self.padded.len() - Self::SPARE_BYTES
    }
}

pub use linked::{compress, decompress, decompress_prefix};

#[cfg(have_pgcommon)]
mod linked {
    use super::{CStrategy, Stream};
    use std::ffi::{c_char, c_void};
    use std::sync::Mutex;

    unsafe extern "C" {
        static PGLZ_strategy_default: *const c_void;
        static PGLZ_strategy_always: *const c_void;
        fn pglz_compress(
            source: *const c_char,
            slen: i32,
            dest: *mut c_char,
            strategy: *const c_void,
        ) -> i32;
        fn pglz_decompress(
            source: *const c_char,
            slen: i32,
            dest: *mut c_char,
            rawsize: i32,
            check_complete: bool,
        ) -> i32;
    }

    static COMPRESSOR: Mutex<()> = Mutex::new(());

    /// C's stream for `source`, in the front of `target`; `None` where C refuses.
    ///
    /// # Panics
    /// When `target` is not at least four bytes longer than `source`, which C relies on.
    pub fn compress(source: &[u8], target: &mut [u8], strategy: CStrategy) -> Option<usize> {
        assert!(target.len() >= source.len() + 4, "C may write 4 bytes more than it reads");
        let len = i32::try_from(source.len()).ok()?;
        let _alone = COMPRESSOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let strategy = match &strategy {
            CStrategy::Custom(numbers) => numbers.as_ptr().cast(),
            // SAFETY: a constant pointer of the library, never written after load.
            CStrategy::Default => unsafe { PGLZ_strategy_default },
            // SAFETY: as above.
            CStrategy::Always => unsafe { PGLZ_strategy_always },
        };
        // SAFETY: `source` is readable for `len` bytes; `target` is writable for `len + 4`, which is
        // PGLZ_MAX_OUTPUT and all C ever writes, because it keeps the saving asked for between 0 and
        // 99 percent; the strategy is one of the library's own or six `int`s that live until here,
        // which is all the struct has; and the lock makes this the only call that uses the static tables.
        let written = unsafe {
            pglz_compress(source.as_ptr().cast(), len, target.as_mut_ptr().cast(), strategy)
        };
        usize::try_from(written).ok()
    }

    /// Fills `target` from a whole stream; false where C says that it is corrupt.
    pub fn decompress(source: &Stream, target: &mut [u8]) -> bool {
        run(source, target, true) == Some(target.len())
    }

    /// Fills the front of `target` from a stream or a part of one, and says how many bytes it got; `None`
    /// where C says that it is corrupt.
    pub fn decompress_prefix(source: &Stream, target: &mut [u8]) -> Option<usize> {
        run(source, target, false)
    }

    fn run(source: &Stream, target: &mut [u8], complete: bool) -> Option<usize> {
        let len = i32::try_from(source.stream_len()).ok()?;
        let raw_len = i32::try_from(target.len()).ok()?;
        let (from, to) = (source.padded.as_ptr().cast(), target.as_mut_ptr().cast());
        // SAFETY: `from` is readable for `len` bytes and for the two more that C may look at, because
        // a `Stream` has four spare ones; `to` is writable for `raw_len` bytes, and C cuts every copy
        // to the room left; the decoder keeps no state.
        let written = unsafe { pglz_decompress(from, len, to, raw_len, complete) };
        usize::try_from(written).ok()
    }
}

#[cfg(not(have_pgcommon))]
mod linked {
    use super::{CStrategy, Stream};

    /// Nothing: the archive was not there. Ask [`super::AVAILABLE`] first.
    pub fn compress(_: &[u8], _: &mut [u8], _: CStrategy) -> Option<usize> {
        None
    }

    /// Nothing: the archive was not there. Ask [`super::AVAILABLE`] first.
    pub fn decompress(_: &Stream, _: &mut [u8]) -> bool {
        false
    }

    /// Nothing: the archive was not there. Ask [`super::AVAILABLE`] first.
    pub fn decompress_prefix(_: &Stream, _: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(all(test, have_pgcommon))]
mod tests {
    use super::*;

    #[test]
    fn c_writes_the_stream_that_servers_store() {
        let mut target = [0; 64];
        let len = compress(&[b'a'; 32], &mut target, CStrategy::Default).unwrap();
        assert_eq!(target[..len], [0x02, 0x61, 0x0f, 0x01, 0x0d]);
        let mut raw = [0; 32];
        assert!(decompress(&Stream::new(&target[..len]), &mut raw));
        assert_eq!(raw, [b'a'; 32]);
    }

    #[test]
    fn a_stream_cut_inside_a_tag_is_refused_and_not_read_past() {
        let cut = Stream::new(&[0x02, 0x61, 0x0f, 0x01]);
        assert!(!decompress(&cut, &mut [0; 40]));
        assert_eq!(decompress_prefix(&cut, &mut [0; 40]), None);
        let early = Stream::new(&[0x02, 0x61]);
        assert_eq!(decompress_prefix(&early, &mut [0; 40]), Some(1));
    }

    #[test]
    fn c_refuses_what_is_too_small() {
        assert_eq!(compress(&[b'a'; 31], &mut [0; 64], CStrategy::Default), None);
        assert!(compress(&[b'a'; 31], &mut [0; 64], CStrategy::Always).is_some());
        let eager = CStrategy::Custom([31, 1000, 25, 1024, 128, 10]);
        assert!(compress(&[b'a'; 31], &mut [0; 64], eager).is_some());
    }
}
