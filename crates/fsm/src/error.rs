use core::fmt;

/// Why something is no page of a map, or no question to ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum FsmError {
    /// A page's contents, its header left out, are `found` bytes long instead of `expected`.
    ContentLength { expected: usize, found: usize },
    /// No page has room for `needed_bytes`; `limit` is the most to ask for.
    RequestTooLong { needed_bytes: usize, limit: usize },
}

impl fmt::Display for FsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ContentLength { expected, found } => {
                write!(f, "free space map page: {found} bytes of contents, expected {expected}")
            }
            Self::RequestTooLong { needed_bytes, limit } => {
                write!(f, "no page has {needed_bytes} bytes free, {limit} are the most")
            }
        }
    }
}

impl core::error::Error for FsmError {}
