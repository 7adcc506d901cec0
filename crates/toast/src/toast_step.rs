//! What a toaster did and why, one step at a time, in words if need be.
use core::fmt;

use pgtoast_varlena::CompressionMethod;

/// A step towards a row that fits. `attribute` counts from 0 here and from 1 in words, as in SQL; lengths
/// are in bytes, those of tuples with their header, those of attributes with theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
#[non_exhaustive]
pub enum Step {
    /// The row has no value out of line and is not over the threshold: it is not looked at.
    LeftAlone { tuple_len: usize, threshold: usize },
    /// The passes begin: the goal is a tuple of at most `target` bytes.
    Begin { tuple_len: usize, target: usize },
    /// The header alone is over the target: a server then takes no row to be over its goal, and skips all
    /// passes but the last.
    HeaderOverTarget { header_len: usize, target: usize },
    /// An attribute was compressed from `from` to `to`.
    Compressed { pass: Pass, attribute: usize, method: CompressionMethod, from: usize, to: usize },
    /// Compressing an attribute of `len` would not save enough.
    Incompressible { pass: Pass, attribute: usize, method: CompressionMethod, len: usize },
    /// An attribute of `len` is not to be compressed: its column is external.
    NotToCompress { pass: Pass, attribute: usize, len: usize },
    /// An attribute of `len` went out of line; a pointer of `pointer_len` took its place.
    MovedOut { pass: Pass, attribute: usize, len: usize, pointer_len: usize, why: MoveReason },
    /// A pass found no more to do, and the tuple is still over its goal.
    NothingLeft { pass: Pass, tuple_len: usize, goal: usize },
    /// A pass is not possible: the table has no TOAST relation.
    NoToastRelation { pass: Pass, tuple_len: usize, goal: usize },
    /// The row fits.
    Done { tuple_len: usize },
    /// The row fits no page.
    TooBig { size: usize, limit: usize, reason: TooBigReason },
}

/// Which of the rules a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Before the four: every attribute over the lengths of a [`SizePolicy`](crate::SizePolicy).
    Policy,
    /// The first: compress extended columns, and move out what alone is over the goal.
    Compress,
    /// The second: move out extended and external columns.
    MoveOut,
    /// The third: compress main columns.
    CompressMain,
    /// The fourth: move out main columns, until the tuple fits a page.
    MoveOutMain,
}

/// Why an attribute went out of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant's line names its fields")]
pub enum MoveReason {
    /// It alone is over the `goal` that all attributes together have.
    AloneOverGoal { goal: usize },
    /// It is the biggest that may go, the first of equals, and the tuple is over its goal.
    Biggest,
    /// It is over the `limit` of the policy.
    OverLimit { limit: usize },
}

/// Why a row fits no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TooBigReason {
    /// Attributes that may go out of line have nowhere to go.
    NoToastRelation,
    /// Everything that may go out of line is out, or takes no more room than a pointer.
    NothingLeft,
    /// The header is over the target, so that only main columns were looked at.
    HeaderOverTarget,
}

impl Pass {
    /// Its number, 1 to 4; 0 for the policy's.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy => f.write_str("policy"),
            pass => write!(f, "pass {}", pass.number()),
        }
    }
}

impl fmt::Display for TooBigReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoToastRelation => "the table has no toast relation to move values to",
            Self::HeaderOverTarget => {
                "the header is over the target, so only main columns may move"
            }
            Self::NothingLeft => "no column is left that may be moved out and is over a pointer",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LeftAlone { tuple_len, threshold } => write!(
                f,
                "a row of {tuple_len} bytes is left alone: it is not over {threshold}, whatever the \
                 target"
            ),
            Self::Begin { tuple_len, target } => {
                write!(f, "a row of {tuple_len} bytes is to become {target} or less")
            }
            Self::HeaderOverTarget { header_len, target } => write!(
                f,
                "the header of {header_len} bytes alone is over the target of {target}: the server goes \
                 straight to pass 4"
            ),
            Self::Compressed { pass, attribute, method, from, to } => {
                write!(
                    f,
                    "{pass}: column {} compressed with {method}, {from} to {to} bytes",
                    attribute + 1
                )
            }
            Self::Incompressible { pass, attribute, method, len } => write!(
                f,
                "{pass}: column {} of {len} bytes stays as it is: {method} would not save enough",
                attribute + 1
            ),
            Self::NotToCompress { pass, attribute, len } => write!(
                f,
                "{pass}: column {} of {len} bytes is external and not compressed",
                attribute + 1
            ),
            Self::MovedOut { pass, attribute, len, pointer_len, why } => {
                write!(
                    f,
                    "{pass}: column {} moved out of line, {len} bytes to a pointer of {pointer_len}: ",
                    attribute + 1
                )?;
                match why {
                    MoveReason::AloneOverGoal { goal } => {
                        write!(f, "it alone is over the {goal} bytes that all columns have")
                    }
                    MoveReason::Biggest => f.write_str("it is the biggest that may go"),
                    MoveReason::OverLimit { limit } => write!(f, "it is over {limit} bytes"),
                }
            }
            Self::NothingLeft { pass, tuple_len, goal } => {
                write!(f, "{pass}: nothing left to do, {tuple_len} bytes are over {goal}")
            }
            Self::NoToastRelation { pass, tuple_len, goal } => write!(
                f,
                "{pass}: no toast relation to move values to, {tuple_len} bytes are over {goal}"
            ),
            Self::Done { tuple_len } => write!(f, "the row takes {tuple_len} bytes"),
            Self::TooBig { size, limit, reason } => {
                write!(f, "row is too big: size {size}, maximum size {limit}: {reason}")
            }
        }
    }
}
