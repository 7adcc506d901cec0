//! Decompresses a stream that comes in pieces, and gives out what it makes in pieces, so that a value of a gigabyte
//! takes no more memory than its window.
//!
//! ```text
//! pglz   control byte: eight items, low bit first     0: a byte    1: offset and length in 2 or 3 bytes
//! lz4    token: lengths of what follows | more length | bytes | offset in 2 bytes | more length
//! ```
//! One byte of the stream at a time and one state for each thing that may come next: slower than the codecs, which
//! have all of a value before them. What both make of a stream is the same, and tests hold them together.
//!
//! Source: `pg_lzcompress.c` (REL_18); the description of lz4's block format.
use crate::codec::{CodecError, CompressionMethod, PglzError};

/// How far a match looks back, at most: the window of lz4, of which that of pglz is a part.
const WINDOW: usize = 1 << 16;
/// So much is made before it is given out.
const PIECE: usize = 1 << 18;

/// A stream being decompressed.
#[derive(Debug)]
pub(crate) struct StreamDecoder {
    state: State,
    raw_len: usize,
    /// What was made last: what a match may look back to, and what has not been given out yet.
    made: Vec<u8>,
    /// How much of `made` has been given out.
    given: usize,
    /// How much has been made in all.
    target_offset: usize,
    source_offset: usize,
    /// Where the item or the sequence at hand began.
    item_offset: usize,
    /// What is yet to be copied of a match: how far back, and how much. One match may make all of a value.
    pending: Option<(u16, usize)>,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum State {
    Pglz { control: u8, left: u8, next: PglzNext },
    Lz4(Lz4Next),
}

#[derive(Clone, Copy, Debug)]
enum PglzNext {
    /// A control byte, or the item that its next bit announces.
    Item,
    SecondByte {
        first: u8,
    },
    ThirdByte {
        distance: u16,
    },
}

#[derive(Clone, Copy, Debug)]
enum Lz4Next {
    Token,
    MoreLiterals { len: usize, match_len: u8 },
    Literals { left: usize, match_len: u8 },
    DistanceLow { match_len: u8 },
    DistanceHigh { low: u8, match_len: u8 },
    MoreMatch { len: usize, distance: u16 },
}

/// Why decompression ended early: the stream, or the taker of what was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError<E> {
    Codec(CodecError),
    Take(E),
}

impl<E> From<CodecError> for DecodeError<E> {
    fn from(error: CodecError) -> Self {
        Self::Codec(error)
    }
}

impl StreamDecoder {
    /// Of a value of `raw_len` bytes.
    pub(crate) const fn new(method: CompressionMethod, raw_len: usize) -> Self {
        let state = match method {
            CompressionMethod::Lz4 => State::Lz4(Lz4Next::Token),
            CompressionMethod::Pglz => State::Pglz { control: 0, left: 0, next: PglzNext::Item },
        };
        Self {
            state,
            raw_len,
            made: Vec::new(),
            given: 0,
            target_offset: 0,
            source_offset: 0,
            item_offset: 0,
            pending: None,
        }
    }

    /// Takes the next piece of the stream.
    pub(crate) fn push<E>(
        &mut self,
        piece: &[u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        let mut rest = piece;
        while let Some((byte, behind)) = rest.split_first() {
            // Bytes that are copied as they are come in runs.
            if let State::Lz4(Lz4Next::Literals { left, match_len }) = self.state {
                let count = left.min(rest.len());
                self.literals(&rest[..count])?;
                self.source_offset += count;
                rest = &rest[count..];
                self.state = State::Lz4(match left - count {
                    0 => Lz4Next::DistanceLow { match_len },
                    left => Lz4Next::Literals { left, match_len },
                });
            } else {
                match self.state {
                    State::Pglz { control, left, next } => self.pglz(*byte, control, left, next)?,
                    State::Lz4(next) => self.lz4(*byte, next)?,
                }
                self.source_offset += 1;
                rest = behind;
            }
            while let Some((distance, len)) = self.pending {
                let count = len.min(PIECE);
                self.copy(distance, count);
                self.pending = (count < len).then_some((distance, len - count));
                if self.pending.is_some() {
                    self.give(take)?;
                }
            }
            if self.made.len() - self.given >= PIECE {
                self.give(take)?;
            }
        }
        Ok(())
    }

    /// Ends the stream.
    pub(crate) fn finish<E>(
        mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        let (source_offset, target_offset) = (self.item_offset, self.target_offset);
        let expected = self.raw_len;
        match self.state {
            State::Pglz {
                next: PglzNext::SecondByte { .. } | PglzNext::ThirdByte { .. }, ..
            } => {
                let error = PglzError::Truncated { source_offset, target_offset };
                return Err(CodecError::Pglz(error).into());
            }
            State::Pglz { .. } if target_offset < expected => {
                return Err(CodecError::Pglz(PglzError::Short { target_offset, expected }).into());
            }
            State::Pglz { .. } => {}
            // The last sequence of a block ends behind its literals.
            State::Lz4(Lz4Next::DistanceLow { .. }) if target_offset == expected => {}
            State::Lz4(Lz4Next::DistanceLow { .. }) => {
                return Err(CodecError::Short { target_offset, expected }.into());
            }
            State::Lz4(_) => {
                return Err(CodecError::Truncated { source_offset, target_offset }.into());
            }
        }
        self.give(take)
    }

    /// Gives out what has not been, and forgets what no match can look back to.
    fn give<E>(
        &mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), DecodeError<E>> {
        take(&self.made[self.given..]).map_err(DecodeError::Take)?;
        let forgotten = self.made.len().saturating_sub(WINDOW);
        self.made.drain(..forgotten);
        self.given = self.made.len();
        Ok(())
    }

    fn pglz(&mut self, byte: u8, control: u8, left: u8, next: PglzNext) -> Result<(), CodecError> {
        if self.target_offset == self.raw_len && matches!(next, PglzNext::Item) {
            let source_offset = self.source_offset;
            let source_len = source_offset.saturating_add(1);
            return Err(CodecError::Pglz(PglzError::Trailing { source_offset, source_len }));
        }
        let next_item = |next| State::Pglz { control: control >> 1, left: left - 1, next };
        self.state = match next {
            PglzNext::Item if left == 0 => {
                State::Pglz { control: byte, left: 8, next: PglzNext::Item }
            }
            PglzNext::Item if control & 1 == 0 => {
                self.made.push(byte);
                self.target_offset += 1;
                next_item(PglzNext::Item)
            }
            PglzNext::Item => {
                self.item_offset = self.source_offset;
                State::Pglz { control, left, next: PglzNext::SecondByte { first: byte } }
            }
            PglzNext::SecondByte { first } => {
                let distance = u16::from(first & 0xf0) << 4 | u16::from(byte);
                let len = usize::from(first & 0x0f) + 3;
                if len == 18 {
                    State::Pglz { control, left, next: PglzNext::ThirdByte { distance } }
                } else {
                    self.pglz_match(distance, len)?;
                    next_item(PglzNext::Item)
                }
            }
            PglzNext::ThirdByte { distance } => {
                self.pglz_match(distance, 18 + usize::from(byte))?;
                next_item(PglzNext::Item)
            }
        };
        Ok(())
    }

    /// A match past the end of the value is cut off there, as servers do.
    fn pglz_match(&mut self, distance: u16, len: usize) -> Result<(), CodecError> {
        let (source_offset, target_offset) = (self.item_offset, self.target_offset);
        if distance == 0 || usize::from(distance) > target_offset {
            let error = PglzError::Distance { source_offset, target_offset, distance };
            return Err(CodecError::Pglz(error));
        }
        self.pending = Some((distance, len.min(self.raw_len - target_offset)));
        Ok(())
    }

    fn lz4(&mut self, byte: u8, next: Lz4Next) -> Result<(), CodecError> {
        self.state = State::Lz4(match next {
            Lz4Next::Token => {
                self.item_offset = self.source_offset;
                let (len, match_len) = (usize::from(byte >> 4), byte & 0x0f);
                match len {
                    15 => Lz4Next::MoreLiterals { len, match_len },
                    0 => Lz4Next::DistanceLow { match_len },
                    left => Lz4Next::Literals { left, match_len },
                }
            }
            Lz4Next::MoreLiterals { len, match_len } => {
                let len = len.saturating_add(byte.into());
                match byte {
                    255 => Lz4Next::MoreLiterals { len, match_len },
                    _ => Lz4Next::Literals { left: len, match_len },
                }
            }
            // `push` takes literals in runs.
            Lz4Next::Literals { left, match_len } => Lz4Next::Literals { left, match_len },
            Lz4Next::DistanceLow { match_len } => Lz4Next::DistanceHigh { low: byte, match_len },
            Lz4Next::DistanceHigh { low, match_len } => {
                let distance = u16::from_le_bytes([low, byte]);
                let (source_offset, target_offset) = (self.item_offset, self.target_offset);
                if distance == 0 || usize::from(distance) > target_offset {
                    return Err(CodecError::Distance { source_offset, target_offset, distance });
                }
                let len = usize::from(match_len) + 4;
                if match_len == 15 {
                    Lz4Next::MoreMatch { len, distance }
                } else {
                    self.lz4_match(distance, len)?;
                    Lz4Next::Token
                }
            }
            Lz4Next::MoreMatch { len, distance } => {
                let len = len.saturating_add(byte.into());
                if byte == 255 {
                    Lz4Next::MoreMatch { len, distance }
                } else {
                    self.lz4_match(distance, len)?;
                    Lz4Next::Token
                }
            }
        });
        Ok(())
    }

    fn lz4_match(&mut self, distance: u16, len: usize) -> Result<(), CodecError> {
        self.room_for(len)?;
        self.pending = Some((distance, len));
        Ok(())
    }

    fn literals(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        self.room_for(bytes.len())?;
        self.made.extend_from_slice(bytes);
        self.target_offset += bytes.len();
        Ok(())
    }

    const fn room_for(&self, produced: usize) -> Result<(), CodecError> {
        let (source_offset, target_offset) = (self.item_offset, self.target_offset);
        let room = self.raw_len - target_offset;
        if produced > room {
            return Err(CodecError::Overrun { source_offset, target_offset, produced, room });
        }
        Ok(())
    }

    /// What was made `distance` bytes ago, again; more than that much of it repeats itself. The value has room
    /// for it.
    fn copy(&mut self, distance: u16, len: usize) {
        let start = self.made.len() - usize::from(distance);
        self.target_offset += len;
        let mut left = len;
        while left > 0 {
            // Each round has twice as much to copy from as the one before.
            let count = left.min(self.made.len() - start);
            self.made.extend_from_within(start..start + count);
            left -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{compress, decompress_to_vec};

    fn stream(
        method: CompressionMethod,
        stream: &[u8],
        raw_len: usize,
        piece: usize,
    ) -> Result<Vec<u8>, CodecError> {
        let mut decoder = StreamDecoder::new(method, raw_len);
        let mut made = Vec::new();
        let mut take = |piece: &[u8]| {
            made.extend_from_slice(piece);
            Ok::<(), core::convert::Infallible>(())
        };
        let work = || {
            for piece in stream.chunks(piece) {
                decoder.push(piece, &mut take)?;
            }
            decoder.finish(&mut take)
        };
        match work() {
            Ok(()) => Ok(made),
            Err(DecodeError::Codec(error)) => Err(error),
            Err(DecodeError::Take(never)) => match never {},
        }
    }

    fn values() -> Vec<Vec<u8>> {
        let mut state = 9_u64;
        let mut random = |len: usize, below: u64| -> Vec<u8> {
            (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    u8::try_from((state >> 33) % below).unwrap()
                })
                .collect()
        };
        let words = random(3000, 7);
        vec![
            vec![b'a'; 1_000_000],
            words.repeat(300),
            random(200_000, 4),
            [random(70_000, 256), words.clone(), random(60_000, 256), words].concat(),
            b"one and two and one and two and ".repeat(40_000),
        ]
    }

    const METHODS: [CompressionMethod; 2] = [CompressionMethod::Pglz, CompressionMethod::Lz4];

    #[test]
    fn a_stream_in_pieces_gives_what_it_gives_as_a_whole() {
        for value in values() {
            for method in METHODS {
                let Some(compressed) = compress(method, &value) else { continue };
                for piece in [1, 3, 1996, 1 << 20] {
                    assert!(stream(method, &compressed, value.len(), piece).as_ref() == Ok(&value));
                }
            }
        }
    }

    #[test]
    fn a_broken_stream_fails_as_it_does_as_a_whole_or_gives_the_same() {
        let value = b"one and two and three and one and two and four; ".repeat(30);
        for method in METHODS {
            let compressed = compress(method, &value).expect("it repeats itself");
            let mut failures = 0;
            for at in 0..compressed.len() {
                for bits in [0x01, 0x80, 0xff] {
                    let mut broken = compressed.clone();
                    broken[at] ^= bits;
                    let whole = decompress_to_vec(method, &broken, value.len());
                    let pieces = stream(method, &broken, value.len(), 7);
                    assert_eq!(
                        pieces.is_ok(),
                        whole.is_ok(),
                        "{method:?} {at} {bits}: {whole:?} {pieces:?}"
                    );
                    assert!(whole.is_err() || pieces == whole);
                    failures += usize::from(whole.is_err());
                }
                let cut = &compressed[..at];
                assert!(stream(method, cut, value.len(), 7).is_err(), "{method:?} cut at {at}");
            }
            assert!(failures > 10, "{method:?}: {failures}");
            let longer = [&compressed[..], &[0]].concat();
            assert!(stream(method, &longer, value.len(), 7).is_err());
            // A length that the stream does not have; a match past the end of the value is cut off.
            for len in [value.len() - 1, value.len() - 100, value.len() + 1] {
                let whole = decompress_to_vec(method, &compressed, len);
                assert_eq!(
                    stream(method, &compressed, len, 7).is_ok(),
                    whole.is_ok(),
                    "{method:?} {len}"
                );
            }
        }
    }

    #[test]
    fn little_is_held_however_much_is_made() {
        let value = vec![b'x'; 8 << 20];
        for method in METHODS {
            let compressed = compress(method, &value).expect("it repeats itself");
            let mut decoder = StreamDecoder::new(method, value.len());
            let mut take = |_: &[u8]| Ok::<(), core::convert::Infallible>(());
            for piece in compressed.chunks(100) {
                assert!(decoder.push(piece, &mut take).is_ok());
                assert!(decoder.made.len() <= WINDOW + 2 * PIECE, "{}", decoder.made.len());
            }
            assert!(decoder.finish(&mut take).is_ok());
        }
    }
}
