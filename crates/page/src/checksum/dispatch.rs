//! One loop, compiled for several processors; the widest that this one runs is called.
//!
//! This is the crate's only unsafe code. Its contract: a function marked
//! `#[target_feature(enable = "f")]` is called only behind a test that this processor has `f`. The
//! functions themselves are safe Rust and share their body with the baseline version.

/// [`super::mix`] by the widest version there is.
#[inline]
#[cfg_attr(
    all(feature = "std", target_arch = "x86_64"),
    expect(unsafe_code, reason = "calls behind run-time detection")
)]
pub(super) fn mix(page: &[u8]) -> u32 {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the only requirement is AVX-512F, and the line above has found it.
            return unsafe { mix_avx512(page) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the only requirement is AVX2, and the line above has found it.
            return unsafe { mix_avx2(page) };
        }
    }
    mix_baseline(page)
}

/// [`super::mix`] for whatever the crate is compiled for.
#[inline(never)]
pub(super) fn mix_baseline(page: &[u8]) -> u32 {
    super::mix(page)
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx512f")]
fn mix_avx512(page: &[u8]) -> u32 {
    super::mix(page)
}

#[cfg(all(feature = "std", target_arch = "x86_64"))]
#[target_feature(enable = "avx2")]
fn mix_avx2(page: &[u8]) -> u32 {
    super::mix(page)
}

#[cfg(test)]
pub(super) type Mix = fn(&[u8]) -> u32;

/// Every version that this processor runs, for tests: [`mix`] alone would leave all but one untested.
#[cfg(test)]
pub(super) fn versions() -> impl Iterator<Item = Mix> {
    core::iter::once(mix_baseline as Mix).chain(wide_versions().into_iter().flatten())
}

#[cfg(all(test, feature = "std", target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "calls behind run-time detection")]
fn wide_versions() -> [Option<Mix>; 2] {
    // SAFETY: the function is handed out only where AVX2 was found.
    let avx2: Mix = |page| unsafe { mix_avx2(page) };
    // SAFETY: the function is handed out only where AVX-512F was found.
    let avx512: Mix = |page| unsafe { mix_avx512(page) };
    [
        std::is_x86_feature_detected!("avx2").then_some(avx2),
        std::is_x86_feature_detected!("avx512f").then_some(avx512),
    ]
}

#[cfg(all(test, not(all(feature = "std", target_arch = "x86_64"))))]
fn wide_versions() -> [Option<Mix>; 2] {
    [None, None]
}
