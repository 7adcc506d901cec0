//! Every damage: what is done, and what exactly is found.
use anyhow::{Context as _, Result};
use pgtoast_base::{BlockSize, OffsetNumber};
use pgtoast_datadir::Fork;
use pgtoast_page::{Infomask, Infomask2, LinePointer, Page};

use super::wound::{Wound, flags, put};

/// What a table was like before.
///
/// Ids are rows: 1 to 8 have a short note and a body of 5000 bytes in three chunks; 9 a compressed note in
/// chunks; 10 a compressed note in place; 13 a long note in place. Row 14 was pruned to a redirect; 11 was
/// updated to 111, heap-only; 12 was deleted, and the chunks of its body are vacuumed away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As described.
    Busy,
    /// Rows 1 to 10, frozen.
    Settled,
    /// A table whose rows are too short for a TOAST relation.
    Short,
}

/// A damage.
pub(crate) struct Damage {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// The class of the server's own checker, where it has one.
    pub(crate) class: &'static str,
    /// Whether checksums are made anew, so that they hide it.
    pub(crate) redo_checksums: bool,
    pub(crate) inflict: fn(&mut Wound<'_>) -> Result<()>,
    /// All that is found, in any order. `*: kind` stands for one or more of a kind, wherever.
    pub(crate) found: &'static [&'static str],
}

const fn hidden(
    name: &'static str,
    class: &'static str,
    inflict: fn(&mut Wound<'_>) -> Result<()>,
    found: &'static [&'static str],
) -> Damage {
    Damage { name, shape: Shape::Busy, class, redo_checksums: true, inflict, found }
}

const fn settled(damage: Damage) -> Damage {
    Damage { shape: Shape::Settled, ..damage }
}

const fn open(damage: Damage) -> Damage {
    Damage { redo_checksums: false, ..damage }
}

const NONE: Infomask = Infomask::empty();
const NONE2: Infomask2 = Infomask2::empty();

pub(crate) const ALL: &[Damage] = &[
    // Line pointers.
    hidden(
        "redirect to item 0",
        "LP1",
        |w| {
            let (tid, _) = w.redirect()?;
            w.line_pointer_at(w.table.main, tid, |_| LinePointer::redirect(OffsetNumber::INVALID))
        },
        &["(0,14): redirect-outside", "row 114: heap-only-unreached"],
    ),
    hidden(
        "redirect past the last item",
        "LP2",
        |w| {
            let (tid, _) = w.redirect()?;
            w.line_pointer_at(w.table.main, tid, |_| LinePointer::redirect(OffsetNumber::new(200)))
        },
        &["(0,14): redirect-outside", "row 114: heap-only-unreached"],
    ),
    hidden(
        "redirect to an unused item",
        "LP3",
        |w| {
            let (_, target) = w.redirect()?;
            let tid = pgtoast_base::ItemPointer::new(pgtoast_base::BlockNumber::new(0), target);
            w.line_pointer_at(w.table.main, tid, |_| LinePointer::UNUSED)
        },
        &["(0,14): redirect-to-no-tuple"],
    ),
    hidden(
        "redirect to a dead item",
        "LP4",
        |w| {
            let (_, target) = w.redirect()?;
            let tid = pgtoast_base::ItemPointer::new(pgtoast_base::BlockNumber::new(0), target);
            w.line_pointer_at(w.table.main, tid, |_| LinePointer::dead())
        },
        &["(0,14): redirect-to-no-tuple"],
    ),
    hidden(
        "redirect to a redirect",
        "LP5",
        |w| {
            let (tid, _) = w.redirect()?;
            w.line_pointer(10, |_| LinePointer::redirect(tid.item))
        },
        &["row 10: redirect-to-no-tuple"],
    ),
    hidden(
        "item off its alignment",
        "LP6",
        |w| w.line_pointer(3, |old| LinePointer::normal(old.offset() + 4, old.len() - 4)),
        &["row 3: item-misaligned"],
    ),
    hidden(
        "item shorter than a header",
        "LP7",
        |w| w.line_pointer(3, |old| LinePointer::normal(old.offset(), 20)),
        &["row 3: item-too-short"],
    ),
    hidden(
        "item past the end of the page",
        "LP8",
        |w| w.line_pointer(3, |old| LinePointer::normal(old.offset(), 8000)),
        &["row 3: item-outside"],
    ),
    hidden(
        "item among the line pointers",
        "",
        |w| w.line_pointer(3, |old| LinePointer::normal(64, old.len())),
        &["row 3: item-outside"],
    ),
    hidden(
        "two items share their bytes",
        "",
        |w| w.line_pointer(10, |old| LinePointer::normal(old.offset() - 8, old.len())),
        &["*: item-overlap", "row 10: data-start"],
    ),
    hidden(
        "dead item with a length",
        "",
        |w| w.line_pointer(10, |old| LinePointer::from_word(old.word() | 3 << 15)),
        &["row 10: item-stored"],
    ),
    // Chains.
    hidden(
        "redirect to a row that no update made",
        "HC1",
        |w| {
            let (tid, _) = w.redirect()?;
            let item = w.table.rows.get(&13).context("no row 13")?.item;
            w.line_pointer_at(w.table.main, tid, |_| LinePointer::redirect(item))
        },
        &["(0,14): redirect-not-heap-only", "row 114: heap-only-unreached"],
    ),
    hidden(
        "two redirects to one row",
        "HC2",
        |w| {
            let (_, target) = w.redirect()?;
            w.line_pointer(10, |_| LinePointer::redirect(target))
        },
        &["(0,14): chain-shared"],
    ),
    hidden(
        "heap-only version of an update that was not",
        "HC3",
        |w| w.flags2(11, NONE2, Infomask2::HOT_UPDATED),
        &["row 11: hot-missing"],
    ),
    hidden(
        "plain version of a heap-only update",
        "HC4",
        |w| w.flags2(111, NONE2, Infomask2::HEAP_ONLY),
        &["row 11: hot-unfounded"],
    ),
    hidden(
        "new version of a row that was never there",
        "HC5",
        |w| w.flags(11, Infomask::XMIN_INVALID, Infomask::XMIN_COMMITTED),
        &["row 11: successor-first"],
    ),
    hidden(
        "heap-only row that nothing leads to",
        "HC6",
        |w| w.line_pointer(11, |_| LinePointer::UNUSED),
        &["row 111: heap-only-unreached"],
    ),
    // Headers.
    hidden(
        "attributes start past the tuple",
        "TH1",
        |w| w.tuple(3, |tuple| tuple[22] = 248),
        &["row 3: data-past-end"],
    ),
    hidden(
        "multixact that committed",
        "TH2",
        |w| {
            w.flags(
                3,
                Infomask::XMAX_IS_MULTI | Infomask::XMAX_COMMITTED | Infomask::XMAX_LOCK_ONLY,
                Infomask::XMAX_INVALID,
            )
        },
        &["row 3: multi-committed", "row 3: multi-outside"],
    ),
    hidden(
        "heap-only update by nobody",
        "TH3",
        |w| {
            w.flags2(3, Infomask2::HOT_UPDATED, NONE2)?;
            w.flags(3, NONE, Infomask::XMAX_INVALID)
        },
        &["row 3: hot-without-xmax"],
    ),
    hidden(
        "heap-only, of no update",
        "TH4",
        |w| w.flags2(3, Infomask2::HEAP_ONLY, NONE2),
        &["row 3: heap-only-without-update", "row 3: heap-only-unreached"],
    ),
    hidden(
        "attributes start elsewhere",
        "TH5",
        |w| w.tuple(3, |tuple| tuple[22] = 32),
        &["row 3: data-start"],
    ),
    // Transaction ids.
    hidden(
        "xmin that was never given out",
        "xmin",
        |w| {
            let xid = w.future();
            w.tuple(3, |tuple| put(tuple, 0, xid))
        },
        &["row 3: xid-outside"],
    ),
    hidden(
        "xmin older than the table",
        "xmin",
        |w| {
            let xid = w.table.frozen_xid - 1;
            w.tuple(3, |tuple| put(tuple, 0, xid))
        },
        &["row 3: xid-outside"],
    ),
    hidden(
        "xmin older than the cluster",
        "xmin",
        |w| w.tuple(3, |tuple| put(tuple, 0, 5)),
        &["row 3: xid-outside"],
    ),
    hidden(
        "xmax that was never given out",
        "xmax",
        |w| {
            let xid = w.future();
            w.tuple(3, |tuple| put(tuple, 4, xid))?;
            w.flags(3, NONE, Infomask::XMAX_INVALID)
        },
        &["row 3: xid-outside"],
    ),
    hidden(
        "xmax older than the table",
        "xmax",
        |w| {
            let xid = w.table.frozen_xid - 1;
            w.tuple(3, |tuple| put(tuple, 4, xid))?;
            w.flags(3, NONE, Infomask::XMAX_INVALID)
        },
        &["row 3: xid-outside"],
    ),
    hidden(
        "mover that was never given out",
        "xvac",
        |w| {
            let xid = w.future();
            w.tuple(3, |tuple| put(tuple, 8, xid))?;
            w.flags(3, Infomask::MOVED_OFF, Infomask::XMIN_COMMITTED)
        },
        &["row 3: xid-outside"],
    ),
    hidden(
        "multixact 0",
        "multi",
        |w| w.flags(3, Infomask::XMAX_IS_MULTI | Infomask::XMAX_LOCK_ONLY, NONE),
        &["row 3: multi-outside"],
    ),
    hidden(
        "multixact that was never given out",
        "multi",
        |w| {
            w.tuple(3, |tuple| put(tuple, 4, 1_000_000))?;
            w.flags(3, Infomask::XMAX_IS_MULTI | Infomask::XMAX_LOCK_ONLY, Infomask::XMAX_INVALID)
        },
        &["row 3: multi-outside"],
    ),
    settled(hidden(
        "frozen row that is not frozen any more",
        "xmin",
        |w| w.flags(3, NONE, Infomask::XMIN_INVALID),
        &["row 3: xid-outside"],
    )),
    // Attributes.
    hidden(
        "more attributes than columns",
        "AT0",
        |w| w.tuple(3, |tuple| tuple[18] = 5),
        &["row 3: attribute-count"],
    ),
    hidden(
        "tuple ends in its first attribute",
        "AT2",
        |w| w.line_pointer(3, |old| LinePointer::normal(old.offset(), 26)),
        &["row 3 id: attribute-end"],
    ),
    hidden(
        "tuple ends before an attribute",
        "AT1",
        |w| w.line_pointer(3, |old| LinePointer::normal(old.offset(), 28)),
        &["row 3 note: attribute-end"],
    ),
    hidden(
        "attribute longer than its tuple",
        "AT2",
        |w| w.value(3, "note", |value| value[0] = 0xff),
        &["row 3 note: attribute-end"],
    ),
    hidden(
        "pointer with an unknown tag",
        "AT3",
        |w| w.value(3, "body", |value| value[1] = 99),
        &["row 3 body: pointer-tag"],
    ),
    hidden(
        "pointer into a server's memory",
        "AT3",
        |w| w.value(3, "body", |value| value[1] = 1),
        &["row 3 body: pointer-tag"],
    ),
    hidden(
        "raw size beyond any value's",
        "AT4",
        |w| w.value(3, "body", |value| put(value, 2, 0x4000_0000)),
        &["row 3 body: raw-length"],
    ),
    hidden(
        "method that does not exist",
        "AT5",
        |w| w.value(9, "note", |value| value[9] |= 0x80),
        &["row 9 note: compression-method"],
    ),
    hidden(
        "pointer in a tuple without any",
        "AT6",
        |w| w.flags(3, NONE, Infomask::HAS_EXTERNAL),
        &["row 3 body: external-unflagged"],
    ),
    Damage {
        name: "pointer in a table without TOAST relation",
        shape: Shape::Short,
        class: "AT7",
        redo_checksums: true,
        inflict: |w| {
            w.flags(1, Infomask::HAS_EXTERNAL, NONE)?;
            w.value(1, "note", |value| {
                value[0..2].copy_from_slice(&[1, 18]);
                put(value, 2, 5004);
                put(value, 6, 5000);
                put(value, 10, 16_500);
                put(value, 14, 16_400);
            })
        },
        found: &["row 1 note: toast-relation-missing"],
    },
    hidden(
        "length of 1 in a header of 4 bytes",
        "",
        |w| w.value(13, "note", |value| put(value, 0, 4)),
        &["row 13 note: attribute"],
    ),
    hidden(
        "length of 1 GiB in place",
        "AT2",
        |w| w.value(13, "note", |value| put(value, 0, 0xffff_fffc)),
        &["row 13 note: attribute-end"],
    ),
    hidden(
        "length one byte past the tuple",
        "AT2",
        |w| {
            w.value(13, "note", |value| {
                put(value, 0, u32::from_le_bytes([value[0], value[1], 0, 0]) + 4)
            })
        },
        &["row 13 note: attribute-end"],
    ),
    hidden(
        "inline value that claims a gigabyte",
        "",
        |w| w.value(10, "note", |value| put(value, 4, 0x3fff_ffff)),
        &["row 10 note: inline-compression"],
    ),
    hidden(
        "inline stream that does not decompress",
        "",
        |w| w.value(10, "note", |value| value[8..16].fill(0xff)),
        &["row 10 note: decompress"],
    ),
    // Values.
    hidden(
        "no chunk",
        "TV1",
        |w| (0..3).try_for_each(|seq| w.chunk_pointer(3, "body", seq, |_| LinePointer::UNUSED)),
        &["row 3 body: value-missing"],
    ),
    hidden(
        "chunk without a number",
        "TV2",
        |w| {
            w.chunk_pointer(3, "body", 1, |old| LinePointer::normal(old.offset(), old.len() - 4))?;
            w.chunk(3, "body", 1, |tuple| {
                flags(tuple, Infomask::HAS_NULL, NONE);
                tuple[23] = 0b101;
                let end = tuple.len();
                // The tuple was cut, so what is behind its end is lost and made up here.
                tuple.copy_within(32..end, 28);
                put(tuple, 28, 1996 << 2);
            })
        },
        &["row 3 body: chunk-null-sequence"],
    ),
    hidden(
        "chunk missing in the middle",
        "TV3",
        |w| w.chunk_pointer(3, "body", 1, |_| LinePointer::UNUSED),
        &["row 3 body: value-gap"],
    ),
    hidden(
        "chunk number twice",
        "TV3",
        |w| w.chunk(3, "body", 1, |tuple| put(tuple, 28, 0)),
        &["row 3 body: chunk-again"],
    ),
    hidden(
        "chunk number beyond sense",
        "TV3",
        |w| w.chunk(3, "body", 1, |tuple| put(tuple, 28, 0x6032_e974)),
        &["row 3 body: value-gap"],
    ),
    hidden(
        "chunk number below zero",
        "TV3",
        |w| w.chunk(3, "body", 1, |tuple| put(tuple, 28, u32::MAX)),
        &["row 3 body: value-gap"],
    ),
    hidden(
        "chunk without data",
        "TV4",
        |w| {
            w.chunk_pointer(3, "body", 1, |old| LinePointer::normal(old.offset(), 32))?;
            w.chunk(3, "body", 1, |tuple| {
                flags(tuple, Infomask::HAS_NULL, NONE);
                tuple[23] = 0b011;
            })
        },
        &["row 3 body: chunk-null-data"],
    ),
    hidden(
        "chunk that is compressed",
        "TV5",
        |w| w.chunk(3, "body", 1, |tuple| tuple[32] |= 2),
        &["row 3 body: chunk-toasted"],
    ),
    hidden(
        "chunk that is out of line",
        "TV5",
        |w| w.chunk(3, "body", 1, |tuple| tuple[32..34].copy_from_slice(&[1, 18])),
        &["row 3 body: chunk-toasted"],
    ),
    hidden(
        "chunks behind the last one",
        "TV6",
        |w| {
            w.value(3, "body", |value| {
                put(value, 2, 3996);
                put(value, 6, 3992);
            })
        },
        &["row 3 body: chunk-beyond"],
    ),
    hidden(
        "chunk too short",
        "TV7",
        |w| w.chunk(3, "body", 1, |tuple| put(tuple, 32, (1992 + 4) << 2)),
        &["row 3 body: chunk-size"],
    ),
    hidden(
        "size off by one",
        "TV7",
        |w| {
            w.value(3, "body", |value| {
                put(value, 2, 5005);
                put(value, 6, 5001);
            })
        },
        &["row 3 body: chunk-size"],
    ),
    hidden(
        "last chunk missing",
        "TV8",
        |w| w.chunk_pointer(3, "body", 2, |_| LinePointer::UNUSED),
        &["row 3 body: value-ended"],
    ),
    hidden(
        "pointer to a value that is not there",
        "TV1",
        |w| w.value(3, "body", |value| put(value, 10, 7)),
        &["row 3 body: value-missing", "toast row 3 body chunk 0: orphan"],
    ),
    hidden(
        "pointer to another TOAST relation",
        "",
        |w| w.value(3, "body", |value| put(value, 14, 16)),
        &["row 3 body: pointer-relation"],
    ),
    hidden(
        "sizes that cannot be",
        "",
        |w| w.value(3, "body", |value| put(value, 2, 100)),
        &["row 3 body: pointer-lengths"],
    ),
    hidden(
        "compression word that denies the pointer",
        "",
        |w| w.chunk(9, "note", 0, |tuple| tuple[36] ^= 1),
        &["row 9 note: compression-word"],
    ),
    hidden(
        "chunks of a compressed value that changed places",
        "",
        |w| {
            w.chunk(9, "note", 0, |tuple| put(tuple, 28, 1))?;
            w.chunk(9, "note", 1, |tuple| put(tuple, 28, 0))
        },
        &["row 9 note: compression-word"],
    ),
    hidden(
        "stream that does not decompress",
        "",
        |w| w.chunk(9, "note", 0, |tuple| tuple[60..200].fill(0xff)),
        &["row 9 note: decompress"],
    ),
    hidden(
        "row gone, its value still there",
        "",
        |w| w.line_pointer(3, |_| LinePointer::UNUSED),
        &["toast row 3 body chunk 0: orphan"],
    ),
    hidden(
        "chunks deleted, their row still there",
        "",
        |w| {
            let xid = w.table.frozen_xid;
            (0..3).try_for_each(|seq| {
                w.chunk(3, "body", seq, |tuple| {
                    put(tuple, 4, xid);
                    flags(tuple, Infomask::XMAX_COMMITTED, Infomask::XMAX_INVALID);
                })
            })
        },
        &["row 3 body: chunk-deleted", "*: not-visible"],
    ),
    hidden(
        "deleted row that came back",
        "TV1",
        |w| w.flags(12, Infomask::XMAX_INVALID, Infomask::XMAX_COMMITTED),
        &["row 12 body: value-missing"],
    ),
    hidden(
        "chunk that lacks a column",
        "",
        |w| w.chunk(3, "body", 1, |tuple| tuple[18] = 2),
        &["toast row 3 body chunk 1: chunk-tuple", "row 3 body: value-gap"],
    ),
    hidden(
        "chunk longer than its tuple",
        "AT2",
        |w| w.chunk(3, "body", 1, |tuple| put(tuple, 32, 3000 << 2)),
        &["toast row 3 body chunk 1 chunk_data: attribute-end", "row 3 body: value-gap"],
    ),
    hidden(
        "chunk with an xmin that was never given out",
        "xmin",
        |w| {
            let xid = w.future();
            w.chunk(3, "body", 1, |tuple| put(tuple, 0, xid))
        },
        &["toast row 3 body chunk 1: xid-outside", "row 3 body: value-gap"],
    ),
    // Pages.
    open(hidden(
        "byte changed between pointers and items",
        "",
        |w| {
            w.block(w.table.main, 0, |page| {
                page[1000] ^= 1;
                Ok(())
            })
        },
        &["block 0: checksum"],
    )),
    open(hidden(
        "byte changed in a chunk",
        "",
        |w| w.chunk(3, "body", 1, |tuple| tuple[500] ^= 1),
        &[
            "toast block 1: checksum",
            "row 2 body: chunk-distrusted",
            "row 3 body: chunk-distrusted",
        ],
    )),
    open(hidden("checksum 0", "", |w| w.header(8, 0), &["block 0: checksum"])),
    open(hidden(
        "torn page: an old half before a new one",
        "",
        |w| {
            w.block(w.table.main, 0, |page| {
                // As it was when it had ten rows.
                let old = Page::new(page, BlockSize::KIB_8)?;
                let tenth = old.line_pointer(OffsetNumber::new(10)).context("no tenth row")?;
                let (lower, upper) = (24 + 10 * 4, tenth.offset());
                page[12..14].copy_from_slice(&u16::to_le_bytes(lower));
                page[14..16].copy_from_slice(&upper.to_le_bytes());
                page[lower.into()..4096].fill(0);
                Ok(())
            })
        },
        &["block 0: checksum"],
    )),
    open(hidden(
        "torn page: a sector that was never written",
        "",
        |w| {
            w.block(w.table.main, 0, |page| {
                page[7680..].fill(0);
                Ok(())
            })
        },
        &[
            "block 0: checksum, torn at 7680",
            "row 1: data-start",
            "row 2: data-start",
            "row 3: data-start",
            "row 4: data-start",
            "row 5: data-start",
            "row 6: data-start",
            "row 7: data-start",
            "row 8: data-start",
            "row 9: data-start",
            "row 10 note: decompress",
        ],
    )),
    open(hidden(
        "torn page: half of the chunks were never written",
        "",
        |w| {
            w.block(w.toast()?, 0, |page| {
                page[4096..].fill(0);
                Ok(())
            })
        },
        &[
            "toast block 0: checksum, torn at 4096",
            "toast row 1 body chunk 0: data-start",
            "toast row 1 body chunk 1: data-start",
            "row 1 body: value-gap",
            "row 2 body: chunk-distrusted",
        ],
    )),
    hidden(
        "page that ends before it starts",
        "",
        |w| w.header(12, 8100),
        &["block 0: page-header"],
    ),
    hidden("page of another size", "", |w| w.header(18, 0x4004), &["block 0: page-size"]),
    hidden(
        "page with flags of no release",
        "",
        |w| w.header(10, 0x0100),
        &["block 0: page-header"],
    ),
    hidden(
        "heap page with an index's special space",
        "",
        |w| w.header(16, 8176),
        &["block 0: page-header"],
    ),
    hidden("new page that is not empty", "", |w| w.header(14, 0), &["block 0: new-not-zero"]),
    open(hidden(
        "block in another's place",
        "",
        |w| {
            let toast = w.toast()?;
            w.source.edit(toast, |bytes| {
                let (one, other) = bytes.split_at_mut(8192);
                one.swap_with_slice(&mut other[..8192]);
            })?;
            Ok(())
        },
        &[
            "toast block 0: checksum",
            "toast block 1: checksum",
            "row 1 body: chunk-distrusted",
            "row 2 body: chunk-distrusted",
            "row 3 body: chunk-distrusted",
        ],
    )),
    // Files.
    hidden(
        "bytes behind the last block",
        "",
        |w| {
            w.source.edit(w.table.main, |bytes| bytes.extend([1, 2, 3]))?;
            Ok(())
        },
        &["file: file-fragment"],
    ),
    open(hidden(
        "bytes inserted",
        "",
        |w| {
            let toast = w.toast()?;
            w.source.edit(toast, |bytes| {
                bytes.splice(4000..4000, [0; 6]);
            })?;
            Ok(())
        },
        &[
            "toast file: file-fragment",
            "toast block 0: checksum, torn at 4096",
            "toast block 1: bytes-shifted",
            "*: item-misaligned",
            "*: value-gap",
            "*: value-missing",
            "*: attribute-end",
            "*: chunk-toasted",
            "*: value-ended",
            "*: compression-word",
            "*: data-start",
            "*: data-past-end",
            "*: xid-outside",
            "*: chunk-tuple",
            "*: attribute",
            "*: multi-outside",
        ],
    )),
    hidden(
        "table's file gone",
        "",
        |w| {
            w.source.remove(w.table.main);
            Ok(())
        },
        &["file: file-missing"],
    ),
    hidden(
        "TOAST relation's file gone",
        "",
        |w| {
            let toast = w.toast()?;
            w.source.remove(toast);
            Ok(())
        },
        &["toast file: file-missing"],
    ),
    hidden(
        "TOAST relation's last block gone",
        "",
        |w| {
            let toast = w.toast()?;
            w.source.edit(toast, |bytes| bytes.truncate(bytes.len() - 8192))?;
            Ok(())
        },
        &["*: value-missing", "*: value-ended", "*: free-space", "*: visibility-past-end"],
    ),
    // Maps.
    hidden(
        "free space map whose node denies its children",
        "",
        |w| {
            w.block(w.fork(Fork::FreeSpaceMap), 2, |page| {
                page[28] ^= 0x55;
                Ok(())
            })
        },
        &["fsm block 2: free-space"],
    ),
    hidden(
        "free space map whose search starts nowhere",
        "",
        |w| {
            w.block(w.fork(Fork::FreeSpaceMap), 2, |page| {
                put(page, 24, 2_000_000_000);
                Ok(())
            })
        },
        &["fsm block 2: free-space"],
    ),
    open(hidden(
        "free space map with a wrong checksum",
        "",
        |w| {
            w.block(w.fork(Fork::FreeSpaceMap), 0, |page| {
                page[28] ^= 0x55;
                Ok(())
            })
        },
        &["fsm block 0: checksum"],
    )),
    hidden(
        "visibility map ahead of the page",
        "",
        |w| {
            w.block(w.fork(Fork::VisibilityMap), 0, |page| {
                page[24] |= 1;
                Ok(())
            })
        },
        &["block 0: visibility-flag"],
    ),
    settled(hidden(
        "all frozen, and not all visible",
        "",
        |w| {
            w.block(w.fork(Fork::VisibilityMap), 0, |page| {
                page[24] = page[24] & !3 | 2;
                Ok(())
            })
        },
        &["vm block 0: visibility-bits"],
    )),
    settled(hidden(
        "visibility of a block behind the end",
        "",
        |w| {
            w.block(w.fork(Fork::VisibilityMap), 0, |page| {
                page[30] |= 1;
                Ok(())
            })
        },
        &["vm block 24: visibility-past-end"],
    )),
    hidden(
        "page that promises more than its rows keep",
        "",
        |w| {
            w.block(w.table.main, 0, |page| {
                page[10] |= 4;
                Ok(())
            })
        },
        &["row 11: not-visible", "row 12: not-visible"],
    ),
    settled(hidden(
        "locked row in a block that is all frozen",
        "",
        |w| {
            let xid = w.control.next_xid().get() - 1;
            w.tuple(3, |tuple| put(tuple, 4, xid))?;
            w.flags(
                3,
                Infomask::XMAX_LOCK_ONLY | Infomask::XMAX_KEYSHR_LOCK,
                Infomask::XMAX_INVALID,
            )
        },
        &["row 3: not-frozen"],
    )),
    // Indexes.
    hidden(
        "TOAST index of zeros",
        "",
        |w| {
            let index = w.table.index.context("no index")?;
            w.source.edit(index, |bytes| bytes.fill(0))?;
            Ok(())
        },
        &["index file: index-empty"],
    ),
    hidden(
        "TOAST index gone",
        "",
        |w| {
            w.source.remove(w.table.index.context("no index")?);
            Ok(())
        },
        &["index file: file-missing"],
    ),
    hidden(
        "chunks of a plain value that changed places",
        "",
        |w| {
            w.chunk(3, "body", 0, |tuple| put(tuple, 28, 1))?;
            w.chunk(3, "body", 1, |tuple| put(tuple, 28, 0))
        },
        &["index file: index-entry-missing", "index file: index-entry-missing"],
    ),
    hidden(
        "index entry that leads to another value",
        "",
        |w| {
            let other = w.chunk_tid(4, "body", 1)?;
            w.index_entry(3, "body", 1, |tid| *tid = other)
        },
        &["index file: index-entry-missing"],
    ),
    hidden(
        "index entries out of order",
        "",
        |w| {
            let index = w.table.index.context("no index")?;
            w.block(index, 1, |page| {
                let (one, other) = page[24..32].split_at_mut(4);
                one.swap_with_slice(other);
                Ok(())
            })
        },
        &["*: index"],
    ),
];
