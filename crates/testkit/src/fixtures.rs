//! What real servers wrote, kept in `testdata/` so that tests need no server.
//!
//! ```text
//! testdata/<major>/<name>.page       one page, as it lay in the file
//! testdata/<major>/<name>.facts      what the server says of it, one record a line
//! testdata/<major>/datums            attributes of every storage form, with their chunks
//! testdata/<major>/datadir.tar.lz4  a data directory, trimmed to what is read of one
//! testdata/pglz_vectors              streams and refusals
//! ```
//! A record is its kind and its fields, with tabs between them; bytes are in hexadecimal and `-` is
//! a null. `testdata/README.md` lists the kinds and how to make everything again.
use std::fs;
use std::path::{Path, PathBuf};
use std::str::{FromStr, Split};

use anyhow::{Context as _, Result, bail};

use crate::facts::{Attribute, Header, HeapItem, HeapTuple};
use crate::hex;

/// The majors that wrote the fixtures.
pub const MAJORS: [u32; 2] = [15, 18];

/// Where the fixtures are.
#[must_use]
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// The files of a data directory that was stopped cleanly, by their paths in it.
///
/// # Errors
/// When they cannot be read.
pub fn data_directory(major: u32) -> Result<Vec<(String, Vec<u8>)>> {
    let path = directory().join(major.to_string()).join("datadir.tar.lz4");
    crate::archive::unpack(&fs::read(&path).with_context(|| path.display().to_string())?)
}

/// How a transaction ended, as its server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was rolled back.
    Aborted,
    /// It was committed.
    Committed,
    /// It had not ended when the page was taken.
    NotYet,
}

/// One page and what its server says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name, without a suffix.
    pub name: String,
    /// The major that wrote it.
    pub major: u32,
    /// The page.
    pub bytes: Vec<u8>,
    /// Its number in its fork, which the checksum needs.
    pub block: u32,
    /// Its header fields.
    pub header: Header,
    /// The columns of its table, for a heap page.
    pub attributes: Vec<Attribute>,
    /// Its items, for a heap page.
    pub items: Vec<HeapItem>,
    /// How transactions named in it ended.
    pub transactions: Vec<(u32, Ended)>,
    /// Members of the multixacts named in it: the multixact, the transaction, its mode as
    /// `pg_get_multixact_members` calls it.
    pub multixacts: Vec<(u32, u32, String)>,
    /// The items that a new snapshot saw when the page was taken.
    pub visible: Vec<u16>,
    /// Other facts, by name; `testdata/README.md` says which.
    pub notes: Vec<(String, String)>,
}

impl Page {
    /// The page of that name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn load(major: u32, name: &str) -> Result<Self> {
        let path = directory().join(major.to_string()).join(name);
        let bytes = fs::read(path.with_extension("page"))
            .with_context(|| format!("no fixture {major}/{name}.page"))?;
        let text = fs::read_to_string(path.with_extension("facts"))
            .with_context(|| format!("no fixture {major}/{name}.facts"))?;
        let mut page = Self {
            name: name.to_owned(),
            major,
            bytes,
            block: 0,
            header: Header::default(),
            attributes: Vec::new(),
            items: Vec::new(),
            transactions: Vec::new(),
            multixacts: Vec::new(),
            visible: Vec::new(),
            notes: Vec::new(),
        };
        for line in text.lines() {
            page.take(line).with_context(|| format!("{major}/{name}.facts: {line}"))?;
        }
        Ok(page)
    }

    /// Every page of every major, in order of their names.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn load_all() -> Result<Vec<Self>> {
        let mut pages = Vec::new();
        for major in MAJORS {
            let mut names: Vec<_> = fs::read_dir(directory().join(major.to_string()))?
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .filter(|path| path.extension().is_some_and(|extension| extension == "page"))
                .filter_map(|path| path.file_stem()?.to_str().map(str::to_owned))
                .collect();
            names.sort();
            for name in names {
                pages.push(Self::load(major, &name)?);
            }
        }
        Ok(pages)
    }

    /// The note of that name.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let mut fields = Fields::of(line);
        match fields.text()? {
            "block" => self.block = fields.number()?,
            "header" => self.header = fields.header()?,
            "attribute" => self.attributes.push(fields.attribute()?),
            "item" => self.items.push(fields.item()?),
            "transaction" => self.transactions.push((fields.number()?, fields.ended()?)),
            "multixact" => {
                let member = (fields.number()?, fields.number()?, fields.text()?.to_owned());
                self.multixacts.push(member);
            }
            "visible" => self.visible.push(fields.number()?),
            "note" => self.notes.push((fields.text()?.to_owned(), fields.text()?.to_owned())),
            other => bail!("no record is called {other}"),
        }
        Ok(())
    }
}

/// A chunk of a value stored out of line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The value's number.
    pub id: u32,
    /// Its place among the value's chunks, from 0.
    pub seq: i32,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// One attribute as it lay in a tuple, and the value that SQL gives for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datum {
    /// What it shows.
    pub name: String,
    /// The column's storage: `p`, `e`, `m` or `x`.
    pub storage: char,
    /// What `pg_column_compression` says.
    pub compression: Option<String>,
    /// What `pg_column_size` says, in bytes.
    pub column_size: u32,
    /// The attribute's bytes in the tuple.
    pub stored: Vec<u8>,
    /// The value without any header.
    pub value: Vec<u8>,
    /// Its chunks in order, if it is stored out of line.
    pub chunks: Vec<Chunk>,
}

impl Datum {
    /// Every datum of a major.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn load_all(major: u32) -> Result<Vec<Self>> {
        let mut datums: Vec<Self> = Vec::new();
        for (number, line) in read_lines(&format!("{major}/datums"))? {
            let mut fields = Fields::of(&line);
            let kind = fields.text()?;
            if kind == "datum" {
                datums.push(fields.datum().with_context(|| format!("datums, line {number}"))?);
                continue;
            }
            let datum = datums.last_mut().with_context(|| format!("{kind} before any datum"))?;
            match kind {
                "stored" => datum.stored = fields.bytes()?,
                "value" => datum.value = fields.bytes()?,
                "chunk" => datum.chunks.push(Chunk {
                    id: fields.number()?,
                    seq: fields.number()?,
                    data: fields.bytes()?,
                }),
                other => bail!("datums, line {number}: no record is called {other}"),
            }
        }
        Ok(datums)
    }

    /// The datum of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn load(major: u32, name: &str) -> Result<Self> {
        let found = Self::load_all(major)?.into_iter().find(|datum| datum.name == name);
        found.with_context(|| format!("no datum {name} of {major}"))
    }
}

/// An input, and what a server made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PglzVector {
    /// What it shows.
    pub name: String,
    /// The value.
    pub input: Vec<u8>,
    /// The stream alone, no header; `None` where the value was stored uncompressed.
    pub stream: Option<Vec<u8>>,
}

impl PglzVector {
    /// All of them; 15 and 18 agree on each.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn load_all() -> Result<Vec<Self>> {
        let lines = read_lines("pglz_vectors")?;
        let vector = |(number, line): (usize, String)| {
            let mut fields = Fields::of(&line);
            fields.vector().with_context(|| format!("pglz_vectors, line {number}"))
        };
        lines.into_iter().map(vector).collect()
    }
}

fn read_lines(name: &str) -> Result<Vec<(usize, String)>> {
    let path = directory().join(name);
    let text = fs::read_to_string(path).with_context(|| format!("no fixture {name}"))?;
    Ok(text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned())).collect())
}

/// The fields of a record, taken one after the other.
struct Fields<'a>(Split<'a, char>);

impl<'a> Fields<'a> {
    fn of(line: &'a str) -> Self {
        Self(line.split('\t'))
    }

    fn text(&mut self) -> Result<&'a str> {
        self.0.next().context("a field is missing")
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        let text = self.text()?;
        text.parse().ok().with_context(|| format!("no number: {text}"))
    }

    fn letter(&mut self) -> Result<char> {
        self.text()?.chars().next().context("an empty field")
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        self.nullable_bytes()?.context("a null")
    }

    fn nullable_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        match self.text()? {
            "-" => Ok(None),
            digits => hex::decode(digits).map(Some),
        }
    }

    fn ended(&mut self) -> Result<Ended> {
        match self.text()? {
            "aborted" => Ok(Ended::Aborted),
            "committed" => Ok(Ended::Committed),
            "in progress" => Ok(Ended::NotYet),
            other => bail!("no transaction ends {other}"),
        }
    }

    fn header(&mut self) -> Result<Header> {
        Ok(Header {
            lsn: self.number()?,
            checksum: self.number()?,
            flags: self.number()?,
            lower: self.number()?,
            upper: self.number()?,
            special: self.number()?,
            page_size: self.number()?,
            version: self.number()?,
            prune_xid: self.number()?,
        })
    }

    fn attribute(&mut self) -> Result<Attribute> {
        Ok(Attribute {
            name: self.text()?.to_owned(),
            type_name: self.text()?.to_owned(),
            len: self.number()?,
            align: self.letter()?,
            by_value: self.number()?,
            storage: self.letter()?,
            dropped: self.number()?,
            has_missing: self.number()?,
        })
    }

    fn item(&mut self) -> Result<HeapItem> {
        let (item, offset) = (self.number()?, self.number()?);
        let (flags, len) = (self.number()?, self.number()?);
        let Some(xmin) = self.0.next() else {
            return Ok(HeapItem { item, offset, flags, len, tuple: None });
        };
        let tuple = HeapTuple {
            xmin: xmin.parse()?,
            xmax: self.number()?,
            field3: self.number()?,
            ctid: (self.number()?, self.number()?),
            infomask2: self.number()?,
            infomask: self.number()?,
            header_len: self.number()?,
            attributes: self.rest_nullable_bytes()?,
        };
        Ok(HeapItem { item, offset, flags, len, tuple: Some(tuple) })
    }

    fn rest_nullable_bytes(&mut self) -> Result<Vec<Option<Vec<u8>>>> {
        let mut all = Vec::new();
        for field in self.0.by_ref() {
            all.push(if field == "-" { None } else { Some(hex::decode(field)?) });
        }
        Ok(all)
    }

    fn datum(&mut self) -> Result<Datum> {
        Ok(Datum {
            name: self.text()?.to_owned(),
            storage: self.letter()?,
            compression: Some(self.text()?).filter(|text| *text != "-").map(str::to_owned),
            column_size: self.number()?,
            stored: Vec::new(),
            value: Vec::new(),
            chunks: Vec::new(),
        })
    }

    fn vector(&mut self) -> Result<PglzVector> {
        Ok(PglzVector {
            name: self.text()?.to_owned(),
            input: self.bytes()?,
            stream: self.nullable_bytes()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_a_tuple_has_four_fields() {
        let item = Fields::of("3\t0\t3\t0").item().unwrap();
        assert_eq!(item, HeapItem { item: 3, offset: 0, flags: 3, len: 0, tuple: None });
    }

    #[test]
    fn a_null_and_an_empty_attribute_are_told_apart() {
        let item = Fields::of("1\t8152\t1\t33\t700\t0\t0\t0\t1\t2\t2050\t24\t-\t\t05ff").item();
        let attributes = item.unwrap().tuple.unwrap().attributes;
        assert_eq!(attributes, [None, Some(vec![]), Some(vec![5, 0xff])]);
    }
}
