//! How bad a finding is.
use core::fmt;

/// How bad a finding is. The worst one of a run decides its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A crash leaves such things behind in a directory that is well; servers mend them in passing.
    Note,
    /// Space is wasted, nothing else.
    Waste,
    /// Something that can be made anew from what is there: an index, a map.
    Derived,
    /// Something is not as a server leaves it, but what was stored can be read.
    Suspect,
    /// Something that was stored cannot be read, or not be trusted.
    Lost,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Waste => "waste",
            Self::Derived => "can be rebuilt",
            Self::Suspect => "suspect",
            Self::Lost => "lost",
        })
    }
}
