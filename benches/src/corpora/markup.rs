//! Markup: many like tags around a little text.
use std::fmt::Write as _;

use pgtoast_testkit::Rng;

use super::hex;
use super::prose::word;

/// The head of a page and its navigation.
pub(super) fn html_head(rng: &mut Rng, text: &mut String) {
    let title = (word(rng), word(rng));
    let _ = write!(
        text,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n  <meta charset=\"utf-8\">\n  \
         <title>{} {}</title>\n  <link rel=\"stylesheet\" href=\"/assets/{}.css\">\n</head>\n<body>\n  \
         <nav class=\"top-nav\">\n    <ul>\n",
        title.0,
        title.1,
        hex(rng, 6),
    );
    for _ in 0..rng.between(3, 7) {
        let word = word(rng);
        let _ = writeln!(
            text,
            "      <li class=\"nav-item\"><a href=\"/{word}\" class=\"nav-link\">{word}</a></li>"
        );
    }
    text.push_str("    </ul>\n  </nav>\n  <main class=\"container\">\n");
}

/// One entry of a listing.
pub(super) fn html_entry(rng: &mut Rng, text: &mut String) {
    let id = rng.below(1_000_000);
    let _ = write!(
        text,
        "    <article class=\"card {}\" id=\"post-{id}\">\n      <h2 class=\"card-title\">\
         <a href=\"/posts/{id}\">{} {}</a></h2>\n      <p class=\"card-text\">",
        rng.pick(&["card-wide", "card-narrow", "card-wide featured"]),
        word(rng),
        word(rng),
    );
    for _ in 0..rng.between(8, 30) {
        text.push_str(word(rng));
        text.push(' ');
    }
    let _ = write!(
        text,
        "</p>\n      <div class=\"card-footer\"><span class=\"author\">{}</span> \
         <time datetime=\"2026-{:02}-{:02}\"></time></div>\n    </article>\n",
        word(rng),
        rng.between(1, 12),
        rng.between(1, 28),
    );
}

/// The declaration and the outer element.
pub(super) fn xml_head(text: &mut String) {
    text.push_str(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <inv:invoices xmlns:inv=\"urn:example:invoice:2\" xmlns:p=\"urn:example:party:1\">\n",
    );
}

/// One record with a few lines in it.
pub(super) fn xml_record(rng: &mut Rng, text: &mut String) {
    let _ = write!(
        text,
        "  <inv:invoice number=\"{}\" currency=\"{}\">\n    <p:seller><p:name>{} {}</p:name>\
         <p:taxId>DE{:09}</p:taxId></p:seller>\n    <p:buyer><p:name>{} {}</p:name></p:buyer>\n    \
         <inv:lines>\n",
        rng.below(10_000_000),
        rng.pick(&["EUR", "EUR", "USD", "GBP"]),
        word(rng),
        word(rng),
        rng.below(1_000_000_000),
        word(rng),
        word(rng),
    );
    for line in 1..=rng.between(1, 6) {
        let _ = writeln!(
            text,
            "      <inv:line id=\"{line}\"><inv:description>{} {} {}</inv:description>\
             <inv:quantity unit=\"C62\">{}</inv:quantity><inv:amount>{}.{:02}</inv:amount></inv:line>",
            word(rng),
            word(rng),
            word(rng),
            rng.between(1, 40),
            rng.below(5000),
            rng.below(100),
        );
    }
    text.push_str("    </inv:lines>\n  </inv:invoice>\n");
}
