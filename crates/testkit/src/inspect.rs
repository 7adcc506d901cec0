//! Asks a server about its pages, with its own `pageinspect`.
use std::path::PathBuf;
use std::{fs, str};

use anyhow::{Context as _, Result};
use postgres::{Client, Row};

use crate::facts::{Attribute, Header, HeapItem, HeapTuple};

/// The columns of `relation` in order, dropped ones included.
///
/// # Errors
/// When there is no such relation.
pub fn attributes(client: &mut Client, relation: &str) -> Result<Vec<Attribute>> {
    let sql = "SELECT attname::text, CASE WHEN attisdropped THEN '-' \
                      ELSE format_type(atttypid, atttypmod) END, \
                      attlen, attalign::text, attbyval, attstorage::text, attisdropped, \
                      atthasmissing \
               FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 \
               ORDER BY attnum";
    let letter = |row: &Row, index: usize| row.get::<_, &str>(index).chars().next().unwrap_or('?');
    Ok(client
        .query(sql, &[&relation])?
        .iter()
        .map(|row| Attribute {
            name: row.get(0),
            type_name: row.get(1),
            len: row.get(2),
            align: letter(row, 3),
            by_value: row.get(4),
            storage: letter(row, 5),
            dropped: row.get(6),
            has_missing: row.get(7),
        })
        .collect())
}

/// One block of a relation's main fork as the server has it now, which may be newer than the file.
/// Needs `pageinspect`.
///
/// # Errors
/// When the block is not there.
pub fn raw_page(client: &mut Client, relation: &str, block: u32) -> Result<Vec<u8>> {
    let sql = "SELECT get_raw_page($1, $2)";
    Ok(client.query_one(sql, &[&relation, &i64::from(block)])?.get(0))
}

/// The items of a page of the heap `relation`, as the server takes it apart. Needs `pageinspect`.
///
/// # Errors
/// When it is not a heap page of that relation.
pub fn heap_items(client: &mut Client, relation: &str, page: &[u8]) -> Result<Vec<HeapItem>> {
    let sql = "SELECT lp::int4, lp_off::int4, lp_flags::int4, lp_len::int4, \
                      t_xmin::text::int8, t_xmax::text::int8, t_field3::int8, t_ctid::text, \
                      t_infomask2, t_infomask, t_hoff::int4, \
                      tuple_data_split($1::text::regclass, t_data, t_infomask, t_infomask2, t_bits) \
               FROM heap_page_items($2) ORDER BY lp";
    let rows = client.query(sql, &[&relation, &page])?;
    rows.iter().map(heap_item).collect()
}

/// What the server computes as the checksum of a page. Needs `pageinspect`.
///
/// # Errors
/// When it is no page.
pub fn checksum(client: &mut Client, page: &[u8], block: u32) -> Result<u16> {
    let sql = "SELECT page_checksum($1, $2)::int4 & 65535";
    number::<i32, _>(&client.query_one(sql, &[&page, &i64::from(block)])?, 0)
}

/// The header of a page as the server reads it. Needs `pageinspect`.
///
/// # Errors
/// When it is no page.
pub fn header(client: &mut Client, page: &[u8]) -> Result<Header> {
    let sql = "SELECT (lsn - '0/0'::pg_lsn)::int8, checksum::int4 & 65535, flags::int4, \
                      lower::int4, upper::int4, special::int4, pagesize::int4, version::int4, \
                      prune_xid::text::int8 \
               FROM page_header($1)";
    let row = client.query_one(sql, &[&page])?;
    Ok(Header {
        lsn: number::<i64, _>(&row, 0)?,
        checksum: number::<i32, _>(&row, 1)?,
        flags: number::<i32, _>(&row, 2)?,
        lower: number::<i32, _>(&row, 3)?,
        upper: number::<i32, _>(&row, 4)?,
        special: number::<i32, _>(&row, 5)?,
        page_size: number::<i32, _>(&row, 6)?,
        version: number::<i32, _>(&row, 7)?,
        prune_xid: number::<i64, _>(&row, 8)?,
    })
}

/// The TOAST table of `relation`, as `pg_toast.pg_toast_<oid>`; `None` if it has none.
///
/// # Errors
/// When there is no such relation.
pub fn toast_relation(client: &mut Client, relation: &str) -> Result<Option<String>> {
    let sql = "SELECT CASE WHEN reltoastrelid <> 0 THEN reltoastrelid::regclass::text END \
               FROM pg_class WHERE oid = $1::text::regclass";
    Ok(client.query_one(sql, &[&relation])?.get(0))
}

/// The files of a fork that starts in `first`, one after the other: `first`, `first.1`, ….
///
/// # Errors
/// When the first cannot be read.
pub fn fork_bytes(first: &PathBuf) -> Result<Vec<u8>> {
    let mut bytes = fs::read(first).with_context(|| format!("cannot read {}", first.display()))?;
    for segment in 1.. {
        let mut name = first.clone().into_os_string();
        name.push(format!(".{segment}"));
        match fs::read(PathBuf::from(name)) {
            Ok(more) => bytes.extend(more),
            Err(_) => break,
        }
    }
    Ok(bytes)
}

fn heap_item(row: &Row) -> Result<HeapItem> {
    let ctid: Option<&str> = row.get(7);
    let tuple = match ctid {
        None => None,
        Some(ctid) => Some(HeapTuple {
            xmin: number::<i64, _>(row, 4)?,
            xmax: number::<i64, _>(row, 5)?,
            field3: number::<i64, _>(row, 6)?,
            ctid: tid(ctid)?,
            infomask2: number::<i32, _>(row, 8)?,
            infomask: number::<i32, _>(row, 9)?,
            header_len: number::<i32, _>(row, 10)?,
            attributes: row.get(11),
        }),
    };
    Ok(HeapItem {
        item: number::<i32, _>(row, 0)?,
        offset: number::<i32, _>(row, 1)?,
        flags: number::<i32, _>(row, 2)?,
        len: number::<i32, _>(row, 3)?,
        tuple,
    })
}

/// `(block,item)` out of SQL's text.
///
/// # Errors
/// When it is no tid.
pub fn tid(text: &str) -> Result<(u32, u16)> {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let (block, item) =
        inner.and_then(|inner| inner.split_once(',')).with_context(|| format!("no tid: {text}"))?;
    Ok((block.parse()?, item.parse()?))
}

/// A column of the row in the type it has here: SQL has no unsigned numbers.
fn number<'a, S, T>(row: &'a Row, index: usize) -> Result<T>
where
    S: postgres::types::FromSql<'a> + TryInto<T> + Copy + std::fmt::Display,
{
    let wide: S = row.get(index);
    wide.try_into().ok().with_context(|| format!("column {index}: {wide} is out of range"))
}
