//! The LZ4 block format, decoded in safe code: whole blocks, and no more of one than is asked for.
//!
//! ```text
//! sequence  | token u8 | literal length 0xff* b | literals | distance u16 | match length 0xff* b |
//!             |    `- low 4 bits: match length - 4; 15 means more follows: sum bytes to the first < 255
//!             `- high 4 bits: literal length; 15 means more follows, likewise
//! block     | sequence | sequence | ... | token | literal length | literals |  the last has no match
//! ```
//! The plain reading: copy the literals; if that was the end of the stream stop; then copy the match
//! byte by byte from `distance` back, which may overlap what it writes. The departures here are block
//! copies where nothing overlaps, doubling ones where it does, and a fixed-size copy of short literals
//! while source and target both have room behind them.
//!
//! Like most decoders this one asks for less than the format does of an encoder, whose last five
//! bytes must be literals. What it accepts as a whole block is what `lz4_flex` accepts.
//!
//! Source: the LZ4 block format description, 2022-07-31.
use crate::CodecError;

/// A literal or match length of 15 in the token goes on in the bytes that follow.
const LENGTH_GOES_ON: usize = 15;
/// What the shortest match has; the token counts from there.
const MATCH_MIN: usize = 4;
/// The length of the fixed-size copy: what a token without more length bytes can ask for, and one.
const SHORT_COPY: usize = 16;

/// Decompresses a whole block: it must end exactly where `target` is full.
///
/// # Errors
/// [`CodecError::Distance`], [`Overrun`](CodecError::Overrun), [`Short`](CodecError::Short),
/// [`Truncated`](CodecError::Truncated).
pub fn decompress(source: &[u8], target: &mut [u8]) -> Result<(), CodecError> {
    let mut decoder = Decoder::new(source, target);
    loop {
        if decoder.literals(Bound::Whole)? == Step::End {
            break;
        }
        decoder.copy_match(Bound::Whole)?;
    }
    let (target_offset, expected) = (decoder.written, decoder.target.len());
    if target_offset < expected {
        return Err(CodecError::Short { target_offset, expected });
    }
    Ok(())
}

/// Decompresses the start of a block until `target` is full or the block ends, and says how many bytes
/// it produced. It looks at no byte of the block behind the sequence that fills `target`, so a prefix of
/// the block is enough: see [`stored_prefix_len`].
///
/// Only the bytes counted are the value's. A block cut off right behind literals ends early and looks
/// whole; the count then is below `target.len()`.
///
/// # Errors
/// [`CodecError::Distance`] or [`Truncated`](CodecError::Truncated) before `target` is full.
#[doc(alias = "LZ4_decompress_safe_partial")]
pub fn decompress_prefix(source: &[u8], target: &mut [u8]) -> Result<usize, CodecError> {
    let mut decoder = Decoder::new(source, target);
    while !decoder.is_full() {
        if decoder.literals(Bound::Prefix)? == Step::End || decoder.is_full() {
            break;
        }
        decoder.copy_match(Bound::Prefix)?;
    }
    Ok(decoder.written)
}

/// The most bytes a block of `stream_len` bytes can decompress to: 255 from each byte of a length.
#[must_use]
pub const fn maximum_raw_len(stream_len: usize) -> usize {
    stream_len.saturating_mul(255)
}

/// How many of the `stored_len` bytes of a value stored out of line [`decompress_prefix`] needs for the
/// first `raw_prefix_len` of its `raw_len` bytes. Both stored lengths count the 4 bytes of compression
/// info in front of the block.
///
/// A sequence spends at most its token, the distance and the bytes of its literal length on top of
/// what it produces, and its match produces at least four. So only literal lengths add up, one byte for
/// each 255, and the last of them may belong to literals that go on behind the prefix. The server has no
/// such bound and fetches everything.
#[must_use]
pub const fn stored_prefix_len(raw_prefix_len: usize, raw_len: usize, stored_len: usize) -> usize {
    let token_and_distance = 3;
    let lengths = raw_len / 255 + 1;
    let enough = crate::COMPRESSION_INFO_LEN
        .saturating_add(raw_prefix_len)
        .saturating_add(lengths)
        .saturating_add(token_and_distance);
    if enough < stored_len { enough } else { stored_len }
}

/// Whether what does not fit `target` is an error or merely not wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Whole,
    Prefix,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Match,
    End,
}

struct Decoder<'s, 't> {
    source: &'s [u8],
    target: &'t mut [u8],
    read: usize,
    written: usize,
    /// Where the current sequence starts, and its token.
    sequence: usize,
    token: usize,
}

impl<'s, 't> Decoder<'s, 't> {
    fn new(source: &'s [u8], target: &'t mut [u8]) -> Self {
        Self { source, target, read: 0, written: 0, sequence: 0, token: 0 }
    }

    fn is_full(&self) -> bool {
        self.written == self.target.len()
    }

    fn room(&self) -> usize {
        self.target.len() - self.written
    }

    /// Starts a sequence and copies its literals.
    #[inline]
    fn literals(&mut self, bound: Bound) -> Result<Step, CodecError> {
        self.sequence = self.read;
        self.token = usize::from(self.byte()?);
        let mut len = self.token >> 4;
        if len < LENGTH_GOES_ON {
            let from = self.source.get(self.read..self.read + SHORT_COPY);
            let to = self.target.get_mut(self.written..self.written + SHORT_COPY);
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(from);
                self.read += len;
                self.written += len;
                return Ok(Step::Match);
            }
        } else {
            // Behind the length are the literals: all its bytes have to be read to find them.
            len = self.length(len, usize::MAX)?;
        }
        let wanted = self.wanted(len, bound)?;
        let available = self.source.len() - self.read;
        if wanted > available {
            return Err(self.truncated());
        }
        let from = &self.source[self.read..self.read + wanted];
        self.target[self.written..self.written + wanted].copy_from_slice(from);
        self.read += wanted;
        self.written += wanted;
        Ok(if self.read == self.source.len() { Step::End } else { Step::Match })
    }

    /// Copies the match that ends the sequence.
    #[inline]
    fn copy_match(&mut self, bound: Bound) -> Result<(), CodecError> {
        let distance = u16::from_le_bytes([self.byte()?, self.byte()?]);
        let mut len = self.token & 15;
        if len == LENGTH_GOES_ON {
            // Once the length is more than a prefix has room for, the rest of it does not matter.
            let enough = if bound == Bound::Prefix { self.room() } else { usize::MAX };
            len = self.length(len, enough)?;
        }
        let wanted = self.wanted(len.saturating_add(MATCH_MIN), bound)?;
        let back = usize::from(distance);
        if back == 0 || back > self.written {
            let (source_offset, target_offset) = (self.sequence, self.written);
            return Err(CodecError::Distance { source_offset, target_offset, distance });
        }
        self.copy_back(back, wanted);
        Ok(())
    }

    /// Repeats `len` bytes from `back` bytes ago, which are there; `len` fits.
    #[inline]
    fn copy_back(&mut self, back: usize, len: usize) {
        let start = self.written - back;
        let end = self.written + len;
        if back == 1 {
            let byte = self.target[start];
            self.target[self.written..end].fill(byte);
        } else {
            // What lies between `start` and `written` repeats with period `back`, so each copy
            // doubles what the next one may take.
            let mut written = self.written;
            while written < end {
                let step = (written - start).min(end - written);
                self.target.copy_within(start..start + step, written);
                written += step;
            }
        }
        self.written = end;
    }

    /// How much of `len` bytes to produce: all of them, or for a prefix what fits.
    #[inline]
    fn wanted(&self, len: usize, bound: Bound) -> Result<usize, CodecError> {
        let room = self.room();
        if len <= room {
            return Ok(len);
        }
        match bound {
            Bound::Prefix => Ok(room),
            Bound::Whole => Err(CodecError::Overrun {
                source_offset: self.sequence,
                target_offset: self.written,
                produced: len,
                room,
            }),
        }
    }

    /// The rest of a length that started as `len`, or of its start once it is over `enough`.
    fn length(&mut self, mut len: usize, enough: usize) -> Result<usize, CodecError> {
        loop {
            let byte = self.byte()?;
            len = len.saturating_add(usize::from(byte));
            if byte != u8::MAX || len > enough {
                return Ok(len);
            }
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, CodecError> {
        let Some(&byte) = self.source.get(self.read) else { return Err(self.truncated()) };
        self.read += 1;
        Ok(byte)
    }

    #[cold]
    fn truncated(&self) -> CodecError {
        CodecError::Truncated { source_offset: self.sequence, target_offset: self.written }
    }
}
