//! Fails on purpose: a harness that does not find this finds nothing.

/// Panics on any input that starts with the short varlena `pg`.
///
/// # Panics
/// That is what it is for.
pub fn canary(data: &[u8]) {
    // One comparison a byte, so that coverage leads a fuzzer there.
    let sings =
        b"\x07pg".iter().enumerate().all(|(at, byte)| data.get(at).is_some_and(|b| b == byte));
    assert!(!sings, "the canary sings");
}
