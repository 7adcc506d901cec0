//! What those who run databases wish for and servers do not offer.

/// Moves out every value over one length, and compresses every value over another, whatever the length
/// of its row. Plain columns keep what they have, external ones are not compressed; main ones count as
/// extended.
///
/// A server looks at a row only when it takes more than a quarter of a page, so values of a few hundred
/// bytes stay in the heap and make every scan of it longer. With `move_out_over: 100, compress_over: 2000`
/// they go, and what is over 2000 bytes is compressed on its way. A row that is still too long afterwards
/// meets the server's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizePolicy {
    /// Values longer than this go out of line, if they are longer than a pointer, rounded up to 24 bytes.
    /// Lengths here are in bytes, header included, and those before compression.
    pub move_out_over: usize,
    /// Values longer than this are compressed, where that saves enough.
    pub compress_over: usize,
}
