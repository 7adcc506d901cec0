//! Pages that cannot be had. An insert that is stopped by one leaves an index that is sound, perhaps with
//! a split whose second step is still to come: whoever comes by next takes it. A check used to take the
//! root for broken while that was the root's. Source: `nbtinsert.c`, `_bt_finish_split` (REL_18).
mod support;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_nbtree::{Index, IndexError, IndexPages, Insertion, KeyWidth, MemoryPages};
use support::{entries, key, tid};

/// Pages in memory, one of which is refused once.
struct Refusing {
    pages: MemoryPages,
    /// So many pages are had first.
    left: Cell<Option<u32>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused;

impl Refusing {
    fn ask(&self) -> Result<(), Refused> {
        match self.left.get() {
            None => Ok(()),
            Some(0) => {
                self.left.set(None);
                Err(Refused)
            }
            Some(left) => {
                self.left.set(Some(left - 1));
                Ok(())
            }
        }
    }
}

fn sure<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

impl IndexPages for Refusing {
    type Error = Refused;
    type Read<'a> = <MemoryPages as IndexPages>::Read<'a>;
    type Write<'a> = <MemoryPages as IndexPages>::Write<'a>;

    fn block_size(&self) -> BlockSize {
        self.pages.block_size()
    }

    fn block_count(&self) -> Result<u32, Refused> {
        Ok(sure(self.pages.block_count()))
    }

    fn read(&self, block: BlockNumber) -> Result<Option<Self::Read<'_>>, Refused> {
        self.ask()?;
        Ok(sure(self.pages.read(block)))
    }

    fn write(&self, block: BlockNumber) -> Result<Option<Self::Write<'_>>, Refused> {
        self.ask()?;
        Ok(sure(self.pages.write(block)))
    }

    fn try_write(&self, block: BlockNumber) -> Result<Option<Self::Write<'_>>, Refused> {
        self.ask()?;
        Ok(sure(self.pages.try_write(block)))
    }

    fn extend(&self) -> Result<(BlockNumber, Self::Write<'_>), Refused> {
        self.ask()?;
        Ok(sure(self.pages.extend()))
    }

    fn take_free(&self) -> Option<BlockNumber> {
        self.pages.take_free()
    }

    fn put_free(&self, block: BlockNumber) {
        self.pages.put_free(block);
    }

    fn next_xid(&self) -> u64 {
        self.pages.next_xid()
    }

    fn is_past(&self, xid: u64) -> bool {
        self.pages.is_past(xid)
    }
}

#[test]
fn an_insert_that_is_refused_a_page_leaves_an_index_that_is_sound() {
    let mut open_roots = 0;
    // At first each insert is refused its first page, then its second, and so on.
    for skip in 0..12 {
        for ascending in [true, false] {
            let pages =
                Refusing { pages: MemoryPages::new(BlockSize::KIB_1), left: Cell::new(None) };
            let index = Index::create(pages, KeyWidth::Oid).unwrap();
            let mut model = BTreeMap::new();
            for n in 0..1500_u32 {
                let id = if ascending { n } else { n.wrapping_mul(7919) % 1500 };
                let (key, tid) = (key(20_000 + u64::from(id), 0), tid(n));
                index.pages().left.set(Some(skip));
                let outcome = index.insert(key, tid);
                index.pages().left.set(None);
                match outcome {
                    Ok(Insertion::Done) => {}
                    Err(IndexError::Storage(Refused)) => {
                        let report = index.check().unwrap();
                        let entries = model.len() as u64;
                        open_roots += u32::from(report.levels == 1 && report.leaf_pages == 2);
                        // The entry may be in already, with a downlink missing.
                        if report.entries == entries {
                            assert_eq!(index.insert(key, tid), Ok(Insertion::Done));
                        } else {
                            assert_eq!(report.entries, entries + 1);
                            assert_eq!(index.get(key), Ok(Some(tid)));
                        }
                    }
                    other => panic!("{other:?}"),
                }
                model.insert(key, tid);
            }
            assert_eq!(index.check().unwrap().entries, 1500);
            assert!(entries(&index).into_iter().eq(model), "skip {skip}");
        }
    }
    assert!(open_roots > 0, "no split of the root was left open");
}

/// Where a vacuum left one page of a level, searches begin there; while that page is split, two are there.
#[test]
fn a_split_below_the_root_where_searches_begin_may_wait_for_its_second_step() {
    let mut open_splits = 0;
    for skip in 0..12 {
        let pages = Refusing { pages: MemoryPages::new(BlockSize::KIB_1), left: Cell::new(None) };
        let index = Index::create(pages, KeyWidth::Oid).unwrap();
        for n in 0..1500 {
            let inserted = index.insert(key(u64::from(n) + 20_000, 0), tid(n));
            assert_eq!(inserted, Ok(Insertion::Done));
        }
        let kept: Vec<_> = (1490..1500).map(tid).collect();
        for _ in 0..2 {
            index.vacuum(&mut |tid| !kept.contains(&tid)).unwrap();
        }
        let before = index.check().unwrap();
        assert_eq!((before.entries, before.leaf_pages), (10, 1), "{before:?}");
        assert!(before.levels > 1);
        for n in 1500..1700 {
            let (key, tid) = (key(u64::from(n) + 20_000, 0), tid(n));
            index.pages().left.set(Some(skip));
            let outcome = index.insert(key, tid);
            index.pages().left.set(None);
            if outcome.is_err() {
                let report = index.check().unwrap();
                open_splits += u32::from(report.leaf_pages == 2 && report.levels == before.levels);
                if index.get(key) == Ok(None) {
                    assert_eq!(index.insert(key, tid), Ok(Insertion::Done));
                }
            }
        }
        assert_eq!(index.check().unwrap().entries, 210);
    }
    assert!(open_splits > 0, "no split was left open");
}
