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
    let mut versions: [Option<Mix>; 3] = [Some(mix_baseline), None, None];
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    #[expect(unsafe_code, reason = "calls behind run-time detection")]
    {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the closure is made only where AVX2 was found.
            versions[1] = Some(|page| unsafe { mix_avx2(page) });
        }
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the closure is made only where AVX-512F was found.
            versions[2] = Some(|page| unsafe { mix_avx512(page) });
        }
    }
    versions.into_iter().flatten()
}
