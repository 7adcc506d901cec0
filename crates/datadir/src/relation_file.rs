//! The files of a relation: its number, its forks, their segments.
//!
//! ```text
//! 16384        main fork, segment 0        16384_fsm    free space map
//! 16384.1      main fork, segment 1        16384_vm.1   visibility map, segment 1
//! ```
//! Source: `relpath.c`, `md.c` (REL_18).
use core::fmt;

use crate::Folder;
use crate::file::decimal;

/// A segment of a relation's fork. It prints as its name: `16384_fsm.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationFile {
    /// Where it is.
    pub folder: Folder,
    /// Whose it is.
    pub filenode: Filenode,
    /// Which fork.
    pub fork: Fork,
    /// Which piece of it, from 0.
    pub segment: u32,
}

impl RelationFile {
    /// The file of that name in a folder; `None` for any other name, those of temporary relations
    /// among them.
    #[must_use]
    pub fn in_folder(folder: Folder, name: &str) -> Option<Self> {
        let (stem, segment) = match name.split_once('.') {
            Some((stem, number)) => (stem, decimal(number).filter(|number| *number != 0)?),
            None => (name, 0),
        };
        let digits = stem.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let suffix = &stem[digits.len()..];
        let fork = Fork::ALL.into_iter().find(|fork| fork.suffix() == suffix)?;
        let filenode = Filenode::new(decimal(digits)?);
        filenode.is_valid().then_some(Self { folder, filenode, fork, segment })
    }
}

impl fmt::Display for RelationFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.filenode, self.fork.suffix())?;
        if self.segment == 0 { Ok(()) } else { write!(f, ".{}", self.segment) }
    }
}

/// The number in a relation's file names. It starts as the relation's own id and changes with every
/// rewrite, so it is a type of its own.
#[doc(alias = "relfilenode")]
#[doc(alias = "RelFileNumber")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filenode(u32);

impl Filenode {
    /// Any 32 bits.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether it names a file: catalogs say 0 for "see the map" and for relations without files.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Filenode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One of the files that a relation consists of.
#[doc(alias = "ForkNumber")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fork {
    /// The relation itself.
    #[default]
    Main,
    /// Its free space map.
    FreeSpaceMap,
    /// Its visibility map.
    VisibilityMap,
    /// What a crash resets an unlogged relation to.
    Init,
}

impl Fork {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Main, Self::FreeSpaceMap, Self::VisibilityMap, Self::Init];

    /// What it adds to the file's name.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::FreeSpaceMap => "_fsm",
            Self::VisibilityMap => "_vm",
            Self::Init => "_init",
        }
    }
}
