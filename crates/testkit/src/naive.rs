//! Slow, obvious versions of what the crates do fast, written from the rules of the formats and
//! from nothing else. A fast version that agrees with these and with a server is right.
//!
//! They trust their input and panic where it is wrong: they are for tests that made it.

pub mod deform;
pub mod form;
pub mod page;
pub mod pglz;
