//! Rows of one shape: a log, an array of objects, a table of numbers.
use std::fmt::Write as _;

use pgtoast_testkit::Rng;

use super::hex;
use super::prose::word;

/// One line of a service's log.
pub(super) fn log_entry(rng: &mut Rng, text: &mut String) {
    let level = rng.pick(&["info", "info", "info", "info", "debug", "warning", "error"]);
    let service = rng.pick(&["checkout", "catalog", "search", "sessions", "mailer", "gateway"]);
    let path = rng.pick(&[
        "/api/v1/orders",
        "/api/v1/orders/items",
        "/api/v2/products",
        "/api/v1/users/me",
        "/health",
        "/static/app.js",
    ]);
    let (hour, minute) = (rng.below(24), rng.below(60));
    let (second, micros) = (rng.below(60), rng.below(1_000_000));
    let status = rng.pick(&[200, 200, 200, 200, 201, 204, 304, 404, 500]);
    let (trace, elapsed, bytes) = (hex(rng, 8), rng.below(250_000), rng.below(60_000));
    let message = (word(rng), word(rng), word(rng));
    let _ = writeln!(
        text,
        "{{\"ts\":\"2026-03-{:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z\",\
         \"level\":\"{level}\",\"service\":\"{service}\",\"trace_id\":\"{trace}\",\
         \"method\":\"GET\",\"path\":\"{path}\",\"status\":{status},\"duration_us\":{elapsed},\
         \"bytes\":{bytes},\"message\":\"{} {} {}\"}}",
        rng.between(1, 31),
        message.0,
        message.1,
        message.2,
    );
}

/// One object of an array, and a comma.
pub(super) fn json_row(rng: &mut Rng, text: &mut String) {
    let (id, price) = (rng.below(10_000_000), rng.below(100_000));
    let (first, second) = (word(rng), word(rng));
    let stock = rng.pick(&["in_stock", "in_stock", "sold_out", "preorder"]);
    let (tag, other) = (word(rng), word(rng));
    let active = rng.chance(80);
    let _ = write!(
        text,
        "{{\"id\": {id}, \"sku\": \"{}\", \"name\": \"{first} {second}\", \
         \"price\": {}.{:02}, \"currency\": \"EUR\", \"availability\": \"{stock}\", \
         \"active\": {active}, \"tags\": [\"{tag}\", \"{other}\"], \
         \"dimensions\": {{\"width\": {}, \"height\": {}, \"depth\": {}}}}}, ",
        hex(rng, 4),
        price / 100,
        price % 100,
        rng.below(500),
        rng.below(500),
        rng.below(500),
    );
}

/// One line: a counter that grows, measurements that vary, a flag.
pub(super) fn csv_row(rng: &mut Rng, text: &mut String) {
    let second = 1_760_000_000 + text.len() / 40;
    let _ = writeln!(
        text,
        "{second},{},{}.{:03},{}.{:03},-{}.{:02},{}",
        rng.between(1, 400),
        rng.between(18, 24),
        rng.below(1000),
        rng.between(980, 1040),
        rng.below(1000),
        rng.below(90),
        rng.below(100),
        rng.below(2),
    );
}
