//! Every input that fuzzing kept, on stable: as it is, cut at some lengths, and with single bytes
//! changed. The corpora are `fuzz/corpus/<target>`.
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use pgtoast_fuzzing::{TARGETS, canary};

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .map(|path| (path.display().to_string(), fs::read(&path).expect("a readable input")))
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn every_kept_input_passes_whole_cut_and_mutated() {
    for target in TARGETS {
        let inputs = corpus(target.name);
        assert!(!inputs.is_empty(), "{}: no corpus", target.name);
        for (name, input) in &inputs {
            for (what, variant) in variants(input) {
                let verdict = catch_unwind(|| (target.body)(&variant));
                assert!(verdict.is_ok(), "{}: {name}, {what}", target.name);
            }
        }
    }
}

/// The input, ten cuts of it, and about two hundred single-byte changes spread over it.
fn variants(input: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut variants = vec![("whole".into(), input.to_vec())];
    for tenth in 0..10 {
        let len = input.len() * tenth / 10;
        variants.push((format!("cut at {len}"), input[..len].to_vec()));
    }
    for at in (0..input.len()).step_by(input.len() / 50 + 1) {
        for change in [0x01, 0x80, 0xff, input[at]] {
            let mut variant = input.to_vec();
            variant[at] ^= change;
            variants.push((format!("byte {at} ^ {change:#04x}"), variant));
        }
    }
    variants
}

#[test]
fn the_canary_fails_on_its_corpus_and_on_nothing_else() {
    let inputs = corpus("canary");
    assert!(!inputs.is_empty());
    for (name, input) in inputs {
        assert!(catch_unwind(|| canary(&input)).is_err(), "{name} must fail");
        assert!(catch_unwind(|| canary(&input[1..])).is_ok());
    }
    canary(b"");
}

#[test]
fn every_target_is_also_a_cargo_fuzz_target_of_the_same_name() {
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/Cargo.toml"))
            .expect("the fuzz package");
    for name in TARGETS.iter().map(|target| target.name).chain(["canary"]) {
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"\n")), "{name}");
    }
}
