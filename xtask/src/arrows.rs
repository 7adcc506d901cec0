//! The arrows drawn in `ARCHITECTURE.md`, compared with what cargo says uses what.
//!
//! ```text
//! varlena → base        codec → varlena, pglz        base → ∅
//! ```
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};

use crate::workspace::{self, Package};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// One line for each member whose arrows are drawn wrong, or not at all.
pub(crate) fn drawn_wrong(packages: &[Package]) -> Result<Vec<String>> {
    let path = workspace::root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let drawn = drawn(&text);
    let real = real(packages, &drawn);
    Ok(differences(&drawn, &real))
}

/// A member's name as the drawing has it.
fn short(name: &str) -> String {
    name.strip_prefix("pgtoast-").unwrap_or(name).to_owned()
}

/// The arrows of what is published, and of any other member drawn: tools for ourselves may use
/// whatever they test.
fn real(packages: &[Package], drawn: &Arrows) -> Arrows {
    let uses = |package: &Package| package.uses.iter().map(|name| short(name)).collect();
    let looked_at = packages
        .iter()
        .filter(|package| package.published || drawn.contains_key(&short(&package.name)));
    looked_at.map(|package| (short(&package.name), uses(package))).collect()
}

/// Arrows are those of lines inside code fences; two or more spaces part the arrows of a line.
fn drawn(text: &str) -> Arrows {
    let mut arrows = Arrows::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if in_code {
            let parts = line.split("  ").filter_map(|part| part.split_once('→'));
            arrows.extend(parts.map(|(user, used)| {
                let used = used.split(',').map(str::trim).filter(|name| *name != "∅");
                (user.trim().to_owned(), used.map(str::to_owned).collect())
            }));
        }
    }
    arrows
}

fn differences(drawn: &Arrows, real: &Arrows) -> Vec<String> {
    let show = |used: Option<&BTreeSet<String>>| match used {
        None => "nothing said".to_owned(),
        Some(used) if used.is_empty() => "∅".to_owned(),
        Some(used) => used.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let members: BTreeSet<&String> = drawn.keys().chain(real.keys()).collect();
    let wrong = members.into_iter().filter(|member| drawn.get(*member) != real.get(*member));
    wrong
        .map(|member| {
            let (drawn, real) = (show(drawn.get(member)), show(real.get(member)));
            format!("ARCHITECTURE.md: {member} → {drawn}, by its manifest: {real}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "x → y\n```text\nbase → ∅    varlena → base\ncodec → varlena, pglz\n```\n";

    fn arrows(list: &[(&str, &[&str])]) -> Arrows {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        list.iter().map(|(user, used)| ((*user).to_owned(), owned(used))).collect()
    }

    #[test]
    fn arrows_are_read_from_drawings_alone() {
        let expected =
            arrows(&[("base", &[]), ("varlena", &["base"]), ("codec", &["pglz", "varlena"])]);
        assert_eq!(drawn(TEXT), expected);
    }

    #[test]
    fn an_arrow_missing_or_too_many_is_named() {
        let real = arrows(&[("base", &[]), ("varlena", &[]), ("pglz", &[]), ("codec", &["pglz"])]);
        assert_eq!(
            differences(&drawn(TEXT), &real),
            [
                "ARCHITECTURE.md: codec → pglz, varlena, by its manifest: pglz",
                "ARCHITECTURE.md: pglz → nothing said, by its manifest: ∅",
                "ARCHITECTURE.md: varlena → base, by its manifest: ∅",
            ]
        );
    }

    #[test]
    fn the_drawing_in_the_tree_is_what_cargo_sees() {
        let packages = workspace::packages().unwrap();
        assert_eq!(drawn_wrong(&packages).unwrap(), Vec::<String>::new());
    }
}
