//! The fixtures hold together, and the naive models say of them what the servers said.
use anyhow::{Context as _, Result};
use pgtoast_testkit::fixtures::{Datum, Ended, MAJORS, Page, PglzVector};
use pgtoast_testkit::naive::deform::{Column, deform};
use pgtoast_testkit::naive::pglz::{Rules, compress, decompress};

#[test]
fn naive_deforming_finds_the_attributes_that_the_server_found() -> Result<()> {
    let mut compared = 0;
    for page in Page::load_all()? {
        let columns: Vec<_> = page
            .attributes
            .iter()
            .map(|one| Column { len: one.len, align: one.align_bytes() })
            .collect();
        for item in &page.items {
            let Some(expected) = &item.tuple else { continue };
            let start = usize::from(item.offset);
            let tuple = &page.bytes[start..start + usize::from(item.len)];
            let found = deform(tuple, &columns);
            for (index, bytes) in expected.attributes.iter().enumerate() {
                let found = found[index].clone().map(|range| tuple[range].to_vec());
                assert_eq!(
                    &found, bytes,
                    "{} {} item {} attribute {index}",
                    page.major, page.name, item.item
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 1000, "{compared}");
    Ok(())
}

#[test]
fn naive_pglz_agrees_with_every_vector() -> Result<()> {
    for PglzVector { name, input, stream } in PglzVector::load_all()? {
        let ours = compress(&input, Rules::DEFAULT, true);
        // The toaster has a rule of its own on top: 8 bytes of headers, and over 2 must be saved.
        let kept = ours.filter(|stream| 8 + stream.len() < input.len() - 2);
        assert_eq!(kept, stream, "{name}");
        if let Some(stream) = stream {
            assert_eq!(decompress(&stream, input.len()), Some(input), "{name}");
        }
    }
    Ok(())
}

#[test]
fn chunks_joined_are_the_value_or_its_compressed_form() -> Result<()> {
    for major in MAJORS {
        let mut external = 0;
        for datum in Datum::load_all(major)? {
            if datum.chunks.is_empty() {
                continue;
            }
            external += 1;
            let joined: Vec<u8> = datum.chunks.iter().flat_map(|one| one.data.clone()).collect();
            assert_eq!(joined.len(), usize::try_from(datum.column_size)?, "{}", datum.name);
            match datum.compression.as_deref() {
                None => assert_eq!(joined, datum.value, "{}", datum.name),
                Some("pglz") => {
                    let value = decompress(&joined[4..], datum.value.len());
                    assert_eq!(value, Some(datum.value), "{}", datum.name);
                }
                Some(_) => assert_eq!(joined[3] >> 6, 1, "{}: method bits of lz4", datum.name),
            }
        }
        assert!(external >= 9, "{major}: {external}");
    }
    Ok(())
}

#[test]
fn every_storage_form_is_there() -> Result<()> {
    for major in MAJORS {
        let first = |name| Datum::load(major, name).map(|datum| datum.stored[0]);
        assert_eq!(first("short")? & 1, 1);
        assert_eq!(first("short_longest")?, 0xff);
        assert_eq!(first("long_shortest")? & 3, 0);
        assert_eq!(first("inline_pglz")? & 3, 2);
        assert_eq!(first("plain_storage")? & 1, 1, "formed by the expression's type");
        assert_eq!(first("plain_storage_updated")? & 3, 0, "formed by the table's column");
        assert_eq!(Datum::load(major, "external_pglz")?.stored[..2], [1, 18]);
    }
    assert_eq!(Datum::load(15, "inline_lz4")?.compression.as_deref(), Some("lz4"));
    assert_eq!(Datum::load(15, "external_lz4")?.compression.as_deref(), Some("lz4"));
    Ok(())
}

#[test]
fn hint_bits_are_absent_on_the_fresh_page_and_present_on_the_other() -> Result<()> {
    for major in MAJORS {
        let (fresh, hinted) =
            (Page::load(major, "heap_states_fresh")?, Page::load(major, "heap_states")?);
        let unhinted = |page: &Page| {
            let tuples = page.items.iter().filter_map(|item| item.tuple.as_ref());
            let ended = tuples.filter(|tuple| {
                page.transactions
                    .iter()
                    .any(|(xid, end)| *xid == tuple.xmin && *end != Ended::NotYet)
            });
            ended.filter(|tuple| tuple.infomask & 0x0300 == 0).count()
        };
        assert!(unhinted(&fresh) > 3, "{major}: {}", unhinted(&fresh));
        assert_eq!(unhinted(&hinted), 0, "{major}");
        assert_eq!(fresh.visible, hinted.visible, "{major}");
        let frozen = hinted.items[0].tuple.as_ref().context("row 1")?;
        assert_eq!(frozen.infomask & 0x0300, 0x0300, "{major}");
    }
    Ok(())
}

#[test]
fn line_pointers_come_in_all_four_states() -> Result<()> {
    for major in MAJORS {
        let page = Page::load(major, "heap_pruned")?;
        for flags in 0..4 {
            assert!(page.items.iter().any(|item| item.flags == flags), "{major}: {flags}");
        }
    }
    Ok(())
}
