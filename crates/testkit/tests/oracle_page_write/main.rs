//! What `pgtoast-page` writes, held against live servers in both directions.
//!
//! - `same_image`: after the same inserts, updates, deletes and vacuums our pages equal the server's,
//!   byte for byte.
//! - `index_image`: what a server does to a page of a B-tree, hash or GiST index, done by us to the same page,
//!   makes the same page.
//! - `placed`: tables that we wrote, put under a stopped server, are its own when it starts again.
mod index_image;
mod placed;
mod same_image;

use anyhow::{Context as _, Result};
use pgtoast_page::AttributeDescriptor;
use pgtoast_testkit::inspect;
use pgtoast_testkit::postgres::Client;

/// The columns of a table, as the catalog has them.
fn columns(client: &mut Client, table: &str) -> Result<Vec<AttributeDescriptor<'static>>> {
    let attributes = inspect::attributes(client, table)?;
    let letter = |letter: char| u8::try_from(letter).context("a letter");
    let column = |one: &pgtoast_testkit::facts::Attribute| {
        let (align, storage) = (letter(one.align)?, letter(one.storage)?);
        let column = AttributeDescriptor::from_catalog(one.len, one.by_value, align, storage)?;
        Ok(AttributeDescriptor { is_dropped: one.dropped, ..column })
    };
    attributes.iter().map(column).collect()
}
