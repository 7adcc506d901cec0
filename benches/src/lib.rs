//! The suites behind `cargo xtask bench`.
