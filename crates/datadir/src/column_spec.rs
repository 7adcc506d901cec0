//! Columns from a text, for a relation's file without the catalogs that describe it.
//!
//! ```text
//! columns   = column { "," column }
//! column    = name type [ storage ] [ "dropped" ]
//! name      = identifier | '"' anything '"'
//! type      = words [ "(" numbers ")" ] [ "[]" ] | "type" "(" attlen "," attalign ")"
//! storage   = "plain" | "external" | "extended" | "main"
//! ```
//! The sizes of the types are those of `pg_type.dat` (REL_18).
use pgtoast_base::{Alignment, Oid};
use pgtoast_page::{AttributeLen, Storage, TupleDescriptor};

use crate::{Column, DatadirError};

pub(crate) fn parse(spec: &str) -> Result<Vec<Column>, DatadirError> {
    let mut words = Words { text: spec, offset: 0 };
    let mut columns = Vec::new();
    loop {
        let column = words.column(u16::try_from(columns.len() + 1).unwrap_or(u16::MAX))?;
        columns.push(column);
        if columns.len() > TupleDescriptor::MAX_ATTRIBUTES {
            return Err(words.here());
        }
        if words.is_done() {
            return Ok(columns);
        }
        words.expect(',')?;
    }
}

/// A text of which a front part has been read.
struct Words<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Words<'a> {
    fn column(&mut self, number: u16) -> Result<Column, DatadirError> {
        let name = self.name()?;
        let (len, alignment, mut storage) = self.column_type()?;
        let mut is_dropped = false;
        while let Some(word) = self.peek_word() {
            match (word.to_ascii_lowercase().as_str(), storage_of(word)) {
                ("dropped", _) => is_dropped = true,
                (_, Some(named)) => storage = named,
                _ => return Err(self.here()),
            }
            self.offset += word.len();
        }
        Ok(Column {
            number,
            name,
            type_oid: Oid::INVALID,
            type_modifier: -1,
            len,
            by_value: matches!(len, AttributeLen::Fixed(1 | 2 | 4 | 8)),
            alignment,
            storage,
            compression: None,
            is_not_null: false,
            is_dropped,
            missing: None,
        })
    }

    fn name(&mut self) -> Result<String, DatadirError> {
        self.skip_space();
        if !self.rest().starts_with('"') {
            return Ok(self.word()?.to_lowercase());
        }
        let (mut name, mut letters) = (String::new(), self.rest()[1..].char_indices().peekable());
        while let Some((at, letter)) = letters.next() {
            if letter == '"' && letters.next_if(|(_, next)| *next == '"').is_none() {
                self.offset += 1 + at + 1;
                return Ok(name);
            }
            name.push(letter);
        }
        Err(self.here())
    }

    fn column_type(&mut self) -> Result<(AttributeLen, Alignment, Storage), DatadirError> {
        self.skip_space();
        let start = self.here();
        let first = self.word()?.to_ascii_lowercase();
        if first == "type" {
            return self.own_type();
        }
        let mut name = first;
        // SQL has types of several words; what is no more of one belongs to the column.
        while let Some(word) = self.peek_word() {
            let longer = format!("{name} {}", word.to_ascii_lowercase());
            if !MANY_WORDS.iter().any(|known| known.starts_with(&longer)) {
                break;
            }
            self.offset += word.len();
            name = longer;
        }
        if self.take('(') {
            while !self.take(')') {
                self.number()?;
                self.take(',');
            }
        }
        // `timestamp(3) with time zone`, whose zone comes behind the digits.
        if let Some(word @ ("with" | "without")) = self.peek_word() {
            self.offset += word.len();
            for expected in ["time", "zone"] {
                if self.word()? != expected {
                    return Err(self.here());
                }
            }
            name = format!("{name} {word} time zone");
        }
        let found = TYPES.iter().find(|(names, ..)| names.contains(&name.as_str()));
        let &(_, len, align, storage) = found.ok_or(start)?;
        if self.take('[') {
            self.expect(']')?;
            // The elements' alignment is their array's if it is wider than that of its header.
            let align = if align == b'd' { b'd' } else { b'i' };
            return described(-1, align, b'x').ok_or(start);
        }
        described(len, align, storage).ok_or(start)
    }

    /// A type by what the catalog has of it.
    fn own_type(&mut self) -> Result<(AttributeLen, Alignment, Storage), DatadirError> {
        self.expect('(')?;
        let start = self.here();
        let len = self.number()?;
        self.expect(',')?;
        let align = self.word()?;
        self.expect(')')?;
        let storage = if len == -1 { b'x' } else { b'p' };
        match (align.as_bytes(), i16::try_from(len)) {
            ([align], Ok(len)) => described(len, *align, storage).ok_or(start),
            _ => Err(start),
        }
    }

    fn number(&mut self) -> Result<i32, DatadirError> {
        self.skip_space();
        let len = self.rest().find(|letter: char| !letter.is_ascii_digit() && letter != '-');
        let digits = &self.rest()[..len.unwrap_or(self.rest().len())];
        let number = digits.parse().map_err(|_| self.here())?;
        self.offset += digits.len();
        Ok(number)
    }

    fn word(&mut self) -> Result<&'a str, DatadirError> {
        let word = self.peek_word().ok_or(self.here())?;
        self.offset += word.len();
        Ok(word)
    }

    fn peek_word(&mut self) -> Option<&'a str> {
        self.skip_space();
        let rest = &self.text[self.offset..];
        let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let word = &rest[..end.unwrap_or(rest.len())];
        (!word.is_empty()).then_some(word)
    }

    fn take(&mut self, letter: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(letter);
        self.offset += if found { letter.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, letter: char) -> Result<(), DatadirError> {
        if self.take(letter) { Ok(()) } else { Err(self.here()) }
    }

    fn is_done(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty()
    }

    fn skip_space(&mut self) {
        self.offset += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    const fn here(&self) -> DatadirError {
        DatadirError::ColumnSpec { offset: self.offset }
    }
}

fn described(len: i16, align: u8, storage: u8) -> Option<(AttributeLen, Alignment, Storage)> {
    Some((
        AttributeLen::from_attlen(len)?,
        Alignment::from_typalign(align)?,
        Storage::from_attstorage(storage)?,
    ))
}

fn storage_of(word: &str) -> Option<Storage> {
    Some(match word.to_ascii_lowercase().as_str() {
        "plain" => Storage::Plain,
        "external" => Storage::External,
        "extended" => Storage::Extended,
        "main" => Storage::Main,
        _ => return None,
    })
}

/// Names of several words, those without which a shorter name would be taken first.
const MANY_WORDS: [&str; 7] = [
    "bit varying",
    "character varying",
    "double precision",
    "time with time zone",
    "time without time zone",
    "timestamp with time zone",
    "timestamp without time zone",
];

/// Names, `typlen`, `typalign`, `typstorage`.
type KnownType = (&'static [&'static str], i16, u8, u8);

#[rustfmt::skip]
const TYPES: &[KnownType] = &[
    (&["bool", "boolean"], 1, b'c', b'p'),
    (&["char"], 1, b'c', b'p'),
    (&["int2", "smallint"], 2, b's', b'p'),
    (&["int4", "int", "integer", "float4", "real", "date", "oid", "xid", "cid", "regclass", "regproc", "regtype"], 4, b'i', b'p'),
    (&["int8", "bigint", "float8", "double precision", "money", "pg_lsn", "xid8"], 8, b'd', b'p'),
    (&["timestamp", "timestamptz", "time", "timestamp with time zone", "timestamp without time zone", "time without time zone"], 8, b'd', b'p'),
    (&["timetz", "time with time zone"], 12, b'd', b'p'),
    (&["interval", "point"], 16, b'd', b'p'),
    (&["lseg", "box"], 32, b'd', b'p'),
    (&["circle", "line"], 24, b'd', b'p'),
    (&["uuid"], 16, b'c', b'p'),
    (&["macaddr"], 6, b'i', b'p'),
    (&["macaddr8"], 8, b'i', b'p'),
    (&["tid"], 6, b's', b'p'),
    (&["name"], 64, b'c', b'p'),
    (&["text", "varchar", "character varying", "bpchar", "character", "bytea", "json", "jsonb", "xml", "jsonpath", "bit", "varbit", "bit varying", "tsvector"], -1, b'i', b'x'),
    (&["numeric", "decimal"], -1, b'i', b'm'),
    (&["inet", "cidr"], -1, b'i', b'm'),
    (&["path", "polygon"], -1, b'd', b'x'),
    (&["tsquery"], -1, b'i', b'p'),
    (&["int4range", "numrange", "daterange"], -1, b'i', b'x'),
    (&["int8range", "tsrange", "tstzrange"], -1, b'd', b'x'),
    (&["int2vector", "oidvector"], -1, b'i', b'p'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_a_name_a_type_and_a_storage() {
        let spec = "id int4, \"a \"\"b\"\"\" timestamp(3) with time zone, n numeric(10, 2), \
                    tags text[], at point[], old varchar(10) dropped, raw bytea EXTERNAL, \
                    own type(24,d), v type(-1,i) main, c double precision, t character varying(9)";
        let columns = parse(spec).unwrap();
        let found: Vec<_> = columns
            .iter()
            .map(|one| {
                let letters = [one.alignment.typalign(), one.storage.attstorage()];
                let letters = String::from_utf8(letters.to_vec()).unwrap();
                (one.name.as_str(), one.len.attlen(), letters, one.is_dropped)
            })
            .collect();
        let expected = [
            ("id", 4, "ip", false),
            ("a \"b\"", 8, "dp", false),
            ("n", -1, "im", false),
            ("tags", -1, "ix", false),
            ("at", -1, "dx", false),
            ("old", -1, "ix", true),
            ("raw", -1, "ie", false),
            ("own", 24, "dp", false),
            ("v", -1, "im", false),
            ("c", 8, "dp", false),
            ("t", -1, "ix", false),
        ];
        assert_eq!(found, expected.map(|(n, l, s, d)| (n, l, s.to_owned(), d)));
    }

    #[test]
    fn what_is_no_column_is_pointed_at() {
        for (spec, offset) in [
            ("", 0),
            ("id", 2),
            ("id int4,", 8),
            ("id int5", 3),
            ("id int4 note text", 8),
            ("id int4; note text", 7),
            ("\"id int4", 0),
            ("a type(0,i)", 7),
            ("a type(4,q)", 7),
            ("a type(70000,i)", 7),
            ("a text[", 7),
            ("ä int4, ö inti", 12),
        ] {
            assert_eq!(parse(spec), Err(DatadirError::ColumnSpec { offset }), "{spec}");
        }
    }
}
