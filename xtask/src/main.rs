//! One command for each thing a contributor does.
fn main() {}
