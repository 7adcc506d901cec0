//! Values of many types: how SQL writes one, and the bytes a server stores for it.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "numbers that are small, or of which any bits will do"
)]
use pgtoast_reorder::BuiltinType;
use pgtoast_testkit::{Corpus, Rng, hex};
use pgtoast_varlena::encode_long;

/// A column's type, which says how its values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) builtin: BuiltinType,
    /// As SQL writes it.
    pub(crate) sql: &'static str,
    /// A domain's name, where it is one.
    pub(crate) domain: Option<&'static str>,
}

/// A value that is not null.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) sql: String,
    pub(crate) datum: Vec<u8>,
}

const fn kind(builtin: BuiltinType, sql: &'static str) -> Kind {
    Kind { builtin, sql, domain: None }
}

pub(crate) const INT4: Kind = kind(BuiltinType::INT4, "int4");
pub(crate) const INT8: Kind = kind(BuiltinType::INT8, "int8");
pub(crate) const TEXT: Kind = kind(BuiltinType::TEXT, "text");
pub(crate) const BYTEA: Kind = kind(BuiltinType::BYTEA, "bytea");
pub(crate) const INT4_ARRAY: Kind = kind(BuiltinType::INT4_ARRAY, "int4[]");
pub(crate) const SMALL_INT: Kind =
    Kind { builtin: BuiltinType::INT4, sql: "small_int", domain: Some("small_int") };
pub(crate) const LONG_TEXT: Kind =
    Kind { builtin: BuiltinType::TEXT, sql: "long_text", domain: Some("long_text") };

/// One of each.
pub(crate) const KINDS: &[Kind] = &[
    kind(BuiltinType::BOOL, "bool"),
    BYTEA,
    kind(BuiltinType::CHAR, "\"char\""),
    kind(BuiltinType::NAME, "name"),
    INT8,
    kind(BuiltinType::INT2, "int2"),
    INT4,
    TEXT,
    kind(BuiltinType::OID, "oid"),
    kind(BuiltinType::JSON, "json"),
    kind(BuiltinType::FLOAT4, "float4"),
    kind(BuiltinType::FLOAT8, "float8"),
    kind(BuiltinType::INT2_ARRAY, "int2[]"),
    INT4_ARRAY,
    kind(BuiltinType::TEXT_ARRAY, "text[]"),
    kind(BuiltinType::INT8_ARRAY, "int8[]"),
    kind(BuiltinType::FLOAT8_ARRAY, "float8[]"),
    kind(BuiltinType::BPCHAR, "char(9)"),
    kind(BuiltinType::VARCHAR, "varchar(90000)"),
    kind(BuiltinType::DATE, "date"),
    kind(BuiltinType::TIMESTAMP, "timestamp"),
    kind(BuiltinType::BIT, "bit(11)"),
    kind(BuiltinType::VARBIT, "varbit"),
    kind(BuiltinType::NUMERIC, "numeric"),
    kind(BuiltinType::UUID, "uuid"),
    SMALL_INT,
    LONG_TEXT,
];

impl Kind {
    pub(crate) fn random(self, rng: &mut Rng) -> Cell {
        let (text, datum) = match self.builtin {
            BuiltinType::BOOL => {
                let is = rng.chance(50);
                (is.to_string(), vec![u8::from(is)])
            }
            BuiltinType::BYTEA => {
                let len = long_len(rng);
                let bytes = rng.pick(&Corpus::ALL).bytes(rng, len);
                (format!("\\x{}", hex::encode(&bytes)), long(&bytes))
            }
            BuiltinType::CHAR => {
                let letter = rng.pick(b"az'\\ ");
                (char::from(letter).to_string(), vec![letter])
            }
            BuiltinType::NAME => {
                let len = rng.below(40);
                let text = Corpus::Prose.text(rng, len).trim().to_owned();
                let mut datum = text.clone().into_bytes();
                datum.resize(64, 0);
                (text, datum)
            }
            BuiltinType::INT8 => number(int(rng)),
            BuiltinType::INT2 => number(low16(int(rng))),
            BuiltinType::INT4 => number(low32(int(rng))),
            BuiltinType::OID => number(low32(int(rng)).cast_unsigned()),
            BuiltinType::FLOAT4 => {
                let value = rng.pick(&[0.1_f32, -1e7, 1.5e-9, f32::NAN, 16_777_216.0, 3.0]);
                (value.to_string(), value.to_le_bytes().to_vec())
            }
            BuiltinType::FLOAT8 => {
                let value = float(rng);
                (value.to_string(), value.to_le_bytes().to_vec())
            }
            BuiltinType::DATE => {
                let days = rng.between(0, 800_000) as i32 - 700_000;
                let sql = format!("date '2000-01-01' + ({days})");
                return Cell { sql, datum: days.to_le_bytes().to_vec() };
            }
            BuiltinType::TIMESTAMP => {
                let micros = low40(int(rng)) * 1000;
                let millis = micros / 1000;
                let sql =
                    format!("timestamp '2000-01-01' + make_interval(secs => {millis} / 1000.0)");
                return Cell { sql, datum: micros.to_le_bytes().to_vec() };
            }
            BuiltinType::BIT => bits(rng, 11),
            BuiltinType::VARBIT => {
                let len = rng.below(100);
                bits(rng, len)
            }
            BuiltinType::NUMERIC => numeric(rng),
            BuiltinType::UUID => {
                let bytes = rng.bytes(16);
                (hex::encode(&bytes), bytes)
            }
            BuiltinType::BPCHAR => {
                let len = rng.below(10);
                let text = letters(rng, len);
                let datum = long(format!("{text:9}").as_bytes());
                (text, datum)
            }
            BuiltinType::JSON => {
                let len = long_len(rng);
                let text = format!("{{\"a\": \"{}\"}}", letters(rng, len));
                let datum = long(text.as_bytes());
                (text, datum)
            }
            BuiltinType::INT2_ARRAY => array(rng, 21, 2, |rng| number(low16(int(rng)))),
            BuiltinType::INT4_ARRAY => array(rng, 23, 4, |rng| number(low32(int(rng)))),
            BuiltinType::INT8_ARRAY => array(rng, 20, 8, |rng| number(int(rng))),
            BuiltinType::FLOAT8_ARRAY => array(rng, 701, 8, |rng| {
                let value = float(rng);
                (value.to_string(), value.to_le_bytes().to_vec())
            }),
            BuiltinType::TEXT_ARRAY => array(rng, 25, 4, |rng| {
                let text =
                    rng.pick(&["", "null", "plain", "with space", "a,b", "{x}", "\"q\"", "\\"]);
                (text.to_owned(), long(text.as_bytes()))
            }),
            _ => {
                let len = long_len(rng);
                let mut text = rng.pick(&Corpus::TEXT).text(rng, len);
                if rng.chance(10) {
                    // Texts that read like something else are texts.
                    let odd = ["unchanged-toast-datum", "null", "it''s", "a\\b", ""];
                    text = rng.pick(&odd).to_owned();
                }
                let datum = long(text.as_bytes());
                (text, datum)
            }
        };
        Cell { sql: format!("'{}'", text.replace('\'', "''")), datum }
    }
}

/// A whole number, as the first column has it.
pub(crate) fn int4(value: i32) -> Cell {
    Cell { sql: value.to_string(), datum: value.to_le_bytes().to_vec() }
}

pub(crate) fn long(payload: &[u8]) -> Vec<u8> {
    let mut datum = Vec::new();
    encode_long(payload, &mut datum).expect("far below a gigabyte");
    datum
}

fn int(rng: &mut Rng) -> i64 {
    let shift = rng.below(64);
    rng.next_u64().cast_signed() >> shift
}

fn low16(value: i64) -> i16 {
    value as i16
}

fn low32(value: i64) -> i32 {
    value as i32
}

fn low40(value: i64) -> i64 {
    value % (1 << 40)
}

fn float(rng: &mut Rng) -> f64 {
    if rng.chance(50) {
        return rng.pick(&[0.0, -0.5, 1e15, 1e14, 1e-4, 1e-5, f64::INFINITY, f64::NAN, 0.1 + 0.2]);
    }
    f64::from_bits(rng.next_u64() & !(1 << 62))
}

/// Mostly short, and often long enough to go out of line.
fn long_len(rng: &mut Rng) -> usize {
    match rng.below(10) {
        0..6 => rng.below(60),
        6..8 => rng.between(100, 1500),
        8 => rng.between(2100, 7000),
        _ => rng.between(7000, 40_000),
    }
}

fn letters(rng: &mut Rng, len: usize) -> String {
    (0..len).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
}

trait Bytes {
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! bytes {
    ($($number:ty)*) => { $(impl Bytes for $number {
        fn bytes(&self) -> Vec<u8> {
            self.to_le_bytes().to_vec()
        }
    })* };
}
bytes!(i16 i32 i64 u32);

fn number(value: impl ToString + Bytes) -> (String, Vec<u8>) {
    (value.to_string(), value.bytes())
}

fn bits(rng: &mut Rng, len: usize) -> (String, Vec<u8>) {
    let bits: Vec<bool> = (0..len).map(|_| rng.chance(50)).collect();
    let text = bits.iter().map(|bit| if *bit { '1' } else { '0' }).collect();
    let mut payload = i32::try_from(len).expect("short").to_le_bytes().to_vec();
    payload.resize(4 + len.div_ceil(8), 0);
    for (at, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
        payload[4 + at / 8] |= 0x80 >> (at % 8);
    }
    (text, long(&payload))
}

fn numeric(rng: &mut Rng) -> (String, Vec<u8>) {
    if rng.chance(5) {
        return ("NaN".to_owned(), long(&[0, 0xc0]));
    }
    let most = if rng.chance(10) { 90 } else { 20 };
    let (whole_len, scale) = (rng.below(30), rng.below(most));
    let digit = |rng: &mut Rng| if rng.chance(30) { 0 } else { rng.below(10) as u16 };
    let whole: Vec<u16> = (0..whole_len).map(|_| digit(rng)).collect();
    let fraction: Vec<u16> = (0..scale).map(|_| digit(rng)).collect();
    let is_zero = whole.iter().chain(&fraction).all(|digit| *digit == 0);
    let is_negative = !is_zero && rng.chance(50);
    let print = |digits: &[u16]| digits.iter().map(u16::to_string).collect::<String>();
    let mut text = format!("{}0{}", if is_negative { "-" } else { "" }, print(&whole));
    if scale > 0 {
        text = format!("{text}.{}", print(&fraction));
    }
    // To base 10 000, from the point to both sides.
    let mut padded = vec![0; whole_len.next_multiple_of(4) - whole_len];
    padded.extend(whole);
    let mut weight = padded.len() as i16 / 4 - 1;
    padded.extend(fraction);
    padded.resize(padded.len().next_multiple_of(4), 0);
    let mut digits: Vec<u16> =
        padded.chunks(4).map(|four| four.iter().fold(0, |sum, digit| sum * 10 + digit)).collect();
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    weight -= zeros as i16;
    if digits.is_empty() {
        weight = 0;
    }
    let scale = scale as u16;
    let mut payload = Vec::new();
    if scale <= 63 && (-64..64).contains(&weight) {
        let sign = if is_negative { 0x2000 } else { 0 };
        let header = 0x8000 | sign | scale << 7 | (weight & 0x7f).cast_unsigned();
        payload.extend(header.to_le_bytes());
    } else {
        let sign = if is_negative { 0x4000 } else { 0 };
        payload.extend((sign | scale).to_le_bytes());
        payload.extend(weight.to_le_bytes());
    }
    payload.extend(digits.iter().flat_map(|digit| digit.to_le_bytes()));
    (text, long(&payload))
}

/// An array of one dimension, with nulls now and then.
fn array(
    rng: &mut Rng,
    element: u32,
    align: usize,
    make: fn(&mut Rng) -> (String, Vec<u8>),
) -> (String, Vec<u8>) {
    let count = if rng.chance(15) { rng.between(500, 3000) } else { rng.below(6) };
    if count == 0 {
        let words = [0, 0, element];
        let payload: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        return ("{}".to_owned(), long(&payload));
    }
    let with_nulls = rng.chance(30);
    let cells: Vec<_> =
        (0..count).map(|_| (!with_nulls || rng.chance(70)).then(|| make(rng))).collect();
    let has_null = cells.iter().any(Option::is_none);
    let header = 4 + 12 + 8;
    let data = if has_null { header + count.div_ceil(8) } else { header }.next_multiple_of(8);
    let words = [1, if has_null { data as u32 } else { 0 }, element, count as u32, 1];
    // The length word is counted here, and replaced below.
    let mut bytes = vec![0; 4];
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    bytes.resize(data, 0);
    let mut texts = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let Some((text, datum)) = cell else {
            texts.push("NULL".to_owned());
            continue;
        };
        if has_null {
            bytes[header + at / 8] |= 1 << (at % 8);
        }
        bytes.extend(datum);
        bytes.resize(bytes.len().next_multiple_of(align), 0);
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        texts.push(format!("\"{text}\""));
    }
    (format!("{{{}}}", texts.join(",")), long(&bytes[4..]))
}
