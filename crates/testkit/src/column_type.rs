//! The types that generated columns have, and values of them.
use crate::{Corpus, Rng, hex};

/// A type, and how to make the text of a value of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnType {
    /// As SQL writes it.
    pub(crate) sql: &'static str,
    /// Whether its values have variable length and may be compressed and moved out of line.
    pub(crate) toastable: bool,
    value: fn(&mut Rng) -> String,
}

impl ColumnType {
    /// The text of a value, as it stands between quotes once its own are doubled.
    pub(crate) fn value(&self, rng: &mut Rng) -> String {
        (self.value)(rng)
    }
}

/// What must be run once before any generated table.
pub(crate) const PRELUDE: &str = "\
    CREATE TYPE generated_pair AS (small int2, wide int8, words text);\
    CREATE TYPE generated_mood AS ENUM ('sad', 'fair', 'happy');\
    CREATE DOMAIN generated_words AS varchar(200);";

/// Every length and alignment there is: 1, 2, 4, 6, 8, 12, 16, 24, 32 and 64 bytes, varlenas aligned
/// to 4 and to 8.
pub(crate) const COLUMN_TYPES: &[ColumnType] = &[
    fixed("bool", |rng| rng.chance(50).to_string()),
    fixed("\"char\"", |rng| letter(rng).to_string()),
    fixed("int2", |rng| int2(rng).to_string()),
    fixed("int4", |rng| int4(rng).to_string()),
    fixed("int8", |rng| int8(rng).to_string()),
    fixed("oid", |rng| word(rng).to_string()),
    fixed("xid", |rng| word(rng).to_string()),
    fixed("float4", real),
    fixed("float8", real),
    fixed("money", |rng| format!("{}.{:02}", rng.below(1_000_000), rng.below(100))),
    fixed("name", |rng| letters(rng, 63)),
    fixed("uuid", uuid),
    fixed("date", date),
    fixed("time", time),
    fixed("timetz", |rng| format!("{}+{:02}", time(rng), rng.below(14))),
    fixed("timestamp", |rng| format!("{} {}", date(rng), time(rng))),
    fixed("timestamptz", |rng| format!("{} {}+00", date(rng), time(rng))),
    fixed("interval", |rng| {
        format!("{} months {} days {} s", rng.below(99), rng.below(99), rng.below(9999))
    }),
    fixed("macaddr", |rng| mac(rng, 6)),
    fixed("macaddr8", |rng| mac(rng, 8)),
    fixed("point", point),
    fixed("box", |rng| format!("{},{}", point(rng), point(rng))),
    fixed("circle", |rng| format!("<{},{}>", point(rng), rng.below(1000))),
    fixed("line", |rng| format!("{{1,{},{}}}", rng.below(100), rng.below(100))),
    fixed("lseg", |rng| format!("[{},{}]", point(rng), point(rng))),
    fixed("tid", |rng| format!("({},{})", word(rng), rng.below(1 << 16))),
    fixed("pg_lsn", |rng| format!("{:X}/{:X}", word(rng), word(rng))),
    fixed("generated_mood", |rng| rng.pick(&["sad", "fair", "happy"]).to_owned()),
    varlena("text", text),
    varlena("text", text),
    varlena("varchar(9000)", text),
    varlena("char(20)", |rng| letters(rng, 20)),
    varlena("generated_words", |rng| letters(rng, 200)),
    varlena("bytea", bytea),
    varlena("numeric", numeric),
    varlena("json", json),
    varlena("jsonb", json),
    varlena("inet", |rng| format!("{}/{}", address(rng), rng.below(33))),
    varlena("cidr", |rng| format!("{}/32", address(rng))),
    varlena("bit(11)", |rng| bits(rng, 11)),
    varlena("varbit", |rng| {
        let len = rng.below(300);
        bits(rng, len)
    }),
    varlena("path", points),
    varlena("polygon", points),
    varlena("int4range", |rng| {
        let low = rng.below(1000);
        format!("[{low},{})", low + 1 + rng.below(1000))
    }),
    varlena("numrange", |rng| format!("[{},]", rng.below(1000))),
    varlena("tsvector", |rng| Corpus::Prose.text(rng, 120).replace(['.', ':'], " ")),
    varlena("int2[]", |rng| array(rng, |rng| int2(rng).to_string())),
    varlena("int4[]", |rng| array(rng, |rng| int4(rng).to_string())),
    varlena("float8[]", |rng| array(rng, real)),
    varlena("text[]", |rng| array(rng, |rng| letters(rng, 12))),
    varlena("tid[]", |rng| array(rng, |rng| format!("\"({},{})\"", rng.below(99), rng.below(99)))),
    varlena("generated_pair", |rng| format!("({},{},{})", int2(rng), int8(rng), letters(rng, 150))),
    fixed("int2vector", |rng| format!("{} {}", rng.below(99), rng.below(99))),
];

const fn fixed(sql: &'static str, value: fn(&mut Rng) -> String) -> ColumnType {
    ColumnType { sql, toastable: false, value }
}

const fn varlena(sql: &'static str, value: fn(&mut Rng) -> String) -> ColumnType {
    ColumnType { sql, toastable: true, value }
}

fn int2(rng: &mut Rng) -> i16 {
    let [low, high, ..] = rng.next_u64().to_le_bytes();
    i16::from_le_bytes([low, high])
}

/// Any 32 bits, on a machine whose `usize` has no more too.
fn word(rng: &mut Rng) -> u64 {
    rng.next_u64() >> 32
}

fn int4(rng: &mut Rng) -> i32 {
    let [a, b, c, d, ..] = rng.next_u64().to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn int8(rng: &mut Rng) -> i64 {
    rng.next_u64().cast_signed()
}

fn real(rng: &mut Rng) -> String {
    format!("{}.{:03}e{}", int2(rng), rng.below(1000), rng.below(30))
}

fn numeric(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => "NaN".to_owned(),
        1 => "0".to_owned(),
        2 => int8(rng).to_string(),
        _ => {
            let (whole, fraction) = (rng.between(1, 60), rng.below(40));
            let sign = rng.pick(&["", "-"]);
            format!("{sign}1{}.{}5", digits(rng, whole), digits(rng, fraction))
        }
    }
}

fn digits(rng: &mut Rng, len: usize) -> String {
    (0..len).map(|_| char::from(b'0' + small(rng, 10))).collect()
}

fn bits(rng: &mut Rng, len: usize) -> String {
    (0..len).map(|_| char::from(b'0' + small(rng, 2))).collect()
}

fn letter(rng: &mut Rng) -> char {
    char::from(b'a' + small(rng, 26))
}

/// Up to `longest` letters.
fn letters(rng: &mut Rng, longest: usize) -> String {
    (0..rng.below(longest + 1)).map(|_| letter(rng)).collect()
}

fn small(rng: &mut Rng, bound: usize) -> u8 {
    u8::try_from(rng.below(bound)).expect("a bound below 256")
}

fn uuid(rng: &mut Rng) -> String {
    hex::encode(&rng.bytes(16))
}

fn mac(rng: &mut Rng, len: usize) -> String {
    let parts: Vec<_> = rng.bytes(len).iter().map(|byte| hex::encode(&[*byte])).collect();
    parts.join(":")
}

fn address(rng: &mut Rng) -> String {
    let parts: Vec<_> = rng.bytes(4).iter().map(u8::to_string).collect();
    parts.join(".")
}

fn date(rng: &mut Rng) -> String {
    format!("{:04}-{:02}-{:02}", rng.between(1900, 2100), rng.between(1, 12), rng.between(1, 28))
}

fn time(rng: &mut Rng) -> String {
    format!(
        "{:02}:{:02}:{:02}.{:06}",
        rng.below(24),
        rng.below(60),
        rng.below(60),
        rng.below(1_000_000)
    )
}

fn point(rng: &mut Rng) -> String {
    format!("({}.5,{}.25)", int2(rng), int2(rng))
}

fn points(rng: &mut Rng) -> String {
    let count = if rng.chance(10) { rng.between(100, 300) } else { rng.between(1, 8) };
    let points: Vec<_> = (0..count).map(|_| point(rng)).collect();
    format!("({})", points.join(","))
}

fn array(rng: &mut Rng, element: fn(&mut Rng) -> String) -> String {
    let count = if rng.chance(10) { rng.between(100, 700) } else { rng.below(8) };
    let null = |rng: &mut Rng| if rng.chance(10) { "NULL".to_owned() } else { element(rng) };
    let elements: Vec<_> = (0..count).map(|_| null(rng)).collect();
    let quoted: Vec<_> = elements
        .into_iter()
        .map(|one| if one.is_empty() { "\"\"".to_owned() } else { one })
        .collect();
    format!("{{{}}}", quoted.join(","))
}

fn json(rng: &mut Rng) -> String {
    let count = if rng.chance(10) { rng.between(50, 300) } else { rng.below(6) };
    let members: Vec<_> =
        (0..count).map(|index| format!("\"{}{index}\":{}", letters(rng, 6), int4(rng))).collect();
    format!("{{{}}}", members.join(","))
}

fn text(rng: &mut Rng) -> String {
    let len = len(rng);
    rng.pick(&Corpus::TEXT).text(rng, len)
}

fn bytea(rng: &mut Rng) -> String {
    let len = len(rng);
    format!("\\x{}", hex::encode(&rng.pick(&Corpus::ALL).bytes(rng, len)))
}

/// Mostly short, often right where the header grows from one byte to four, now and then long enough
/// to be compressed or moved out of line.
fn len(rng: &mut Rng) -> usize {
    match rng.below(100) {
        0..35 => rng.below(12),
        35..60 => rng.below(126),
        60..80 => rng.between(123, 131),
        80..93 => rng.between(131, 1500),
        _ => rng.between(1500, 9000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_more_than_one_value() {
        for column in COLUMN_TYPES {
            let mut rng = Rng::new(1);
            let values: Vec<_> = (0..20).map(|_| column.value(&mut rng)).collect();
            assert!(values.iter().any(|value| *value != values[0]), "{}", column.sql);
        }
    }
}
