//! A value of any size through a buffer of a fixed one.
//!
//! ```text
//! buffer  | the last 4095 bytes handed out | the next bytes of the value ... |
//!           `- a match looks back no farther, so this is all that must be kept
//! ```
use crate::PglzError;
use crate::decompress::{State, reader};

/// How far back a match can look.
const WINDOW: usize = 4095;
/// Bytes of the buffer.
const BUFFER: usize = 16 << 10;
/// More bytes of a stream than the fast loop leaves over at its end.
const SOURCE_REST: usize = 16;
/// More than so few can decompress to: five longest matches and a literal.
const TARGET_REST: usize = 2 << 10;

/// Decompresses a whole value of `raw_len` bytes and hands it to `sink` piece by piece, in order, from
/// a 16 KiB buffer on the stack, whatever the value's size.
///
/// A sink that writes is a closure, since a [`PglzError`] becomes a `std::io::Error`:
///
/// ```
/// # use std::io::Write;
/// # fn main() -> std::io::Result<()> {
/// # let mut file = Vec::new();
/// let stream = [0x02, b'a', 0x0f, 0x01, 0xff];
/// pgtoast_pglz::decompress_pieces(&stream, 274, |piece| file.write_all(piece))?;
/// assert_eq!(file, [b'a'; 274]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// What `sink` returns, at once. Those of [`decompress`](crate::decompress()); the pieces handed out
/// before are what the stream said so far, and no whole value.
pub fn decompress_pieces<E: From<PglzError>>(
    source: &[u8],
    raw_len: usize,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = [0; BUFFER];
    // Where the buffer starts in the value; `state` counts from there.
    let mut start = 0;
    let mut state = State::START;
    loop {
        let known = state.target_offset;
        let room = BUFFER.min(raw_len - start);
        let target = &mut buffer[..room];
        state = reader::advance(source, target, state).map_err(|error| error.behind(start))?;
        // Little is left of the value, or of the stream and there is room for all that it can be.
        let little_left = source.len() - state.source_offset < SOURCE_REST;
        let last = room < BUFFER || little_left && room - state.target_offset >= TARGET_REST;
        if last {
            state = reader::finish(source, target, state).map_err(|error| error.behind(start))?;
        }
        let end = state.target_offset;
        if end > known {
            sink(&target[known..end])?;
        }
        if last {
            state.target_offset += start;
            return Ok(state.complete(source.len(), raw_len)?);
        }
        let kept = end.min(WINDOW);
        buffer.copy_within(end - kept..end, 0);
        state.target_offset = kept;
        start += end - kept;
    }
}
