//! Rust functions: few words, used again soon after, in lines with the same beginnings.
use std::fmt::Write as _;

use pgtoast_testkit::Rng;

use super::prose::word;

/// One function with its documentation.
pub(super) fn function(rng: &mut Rng, text: &mut String) {
    // A function's few names come back in it again and again.
    let names: Vec<String> = (0..rng.between(3, 6)).map(|_| name(rng)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let kind = rng.pick(&["usize", "u64", "&[u8]", "&str", "Option<u32>", "BlockNumber"]);
    text.push_str("    /// ");
    for _ in 0..rng.between(5, 14) {
        text.push_str(word(rng));
        text.push(' ');
    }
    let returned = rng.pick(&["u32", "usize", "bool", "Result<(), Error>", "Option<usize>"]);
    let _ = writeln!(
        text,
        "\n    pub fn {}(&mut self, {}: {kind}) -> {returned} {{",
        rng.pick(&names),
        rng.pick(&names)
    );
    let mut depth = 2;
    for _ in 0..rng.between(4, 16) {
        statement(rng, &names, &mut depth, text);
    }
    while depth > 1 {
        depth -= 1;
        indent(text, depth);
        text.push_str("}\n");
    }
    text.push('\n');
}

fn statement(rng: &mut Rng, names: &[&str], depth: &mut usize, text: &mut String) {
    let (one, other) = (rng.pick(names), rng.pick(names));
    let number = rng.below(64);
    indent(text, *depth);
    let _ = match rng.below(9) {
        0 | 1 => writeln!(text, "let {one} = self.{other}.len();"),
        2 => writeln!(text, "let mut {one} = Vec::with_capacity({number});"),
        3 => {
            *depth += 1;
            writeln!(text, "if {one} < {other} {{")
        }
        4 => {
            *depth += 1;
            writeln!(text, "for {one} in self.{other}.iter() {{")
        }
        5 if *depth > 2 => {
            *depth -= 1;
            writeln!(text, "    return Err(Error::Truncated {{ offset: {one}, {other} }});")
        }
        6 => writeln!(text, "self.{one}.extend_from_slice(&{other}[{number}..]);"),
        7 => writeln!(text, "assert_eq!({one}.{other}(), Some({number}));"),
        _ => writeln!(text, "{one} += {other}.{}({number});", name(rng)),
    };
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("    ");
    }
}

/// `one_other` or `one`.
fn name(rng: &mut Rng) -> String {
    let plain = |word: &str| word.to_lowercase().replace(|c: char| !c.is_ascii_lowercase(), "_");
    let first = plain(word(rng));
    if rng.chance(60) { format!("{first}_{}", plain(word(rng))) } else { first }
}
