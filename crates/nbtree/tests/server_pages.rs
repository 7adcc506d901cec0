//! Pages of the index of a TOAST table with 1000 entries, as servers wrote them, against what their
//! `pageinspect` says about them.
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_nbtree::{Entry, KeyWidth, Meta, NodeFlags, NodePage};

fn file(release: &str, name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(release).join(name)
}

#[test]
fn every_item_is_what_pageinspect_shows() {
    for release in ["15", "18"] {
        for name in ["btree_leaf_first", "btree_leaf_last", "btree_root"] {
            let bytes = fs::read(file(release, &format!("{name}.page"))).unwrap();
            let facts = fs::read_to_string(file(release, &format!("{name}.facts"))).unwrap();
            let page = NodePage::parse(&bytes, BlockNumber::new(9), KeyWidth::Oid).unwrap();
            let count = format!("\"live_items\":{},", page.item_count());
            assert!(facts.contains(&count), "{release} {name}: {count}");
            for (item, entry) in page.entries() {
                let shown = match entry.unwrap() {
                    Entry::Row { key, mut tids } => {
                        let id = u32::try_from(key.chunk_id.get()).unwrap().to_le_bytes();
                        let data = hex([&id[..], &key.chunk_seq.to_le_bytes()].concat());
                        let tid = tids.next().unwrap();
                        format!(
                            "\"ctid\":\"{tid}\",\"itemlen\":16,\"nulls\":false,\"vars\":false,\"data\":\"{data}\""
                        )
                    }
                    Entry::Pivot { chunk_id: None, child, .. } => {
                        format!(
                            "\"ctid\":\"({child},0)\",\"itemlen\":8,\"nulls\":false,\"vars\":false,\"data\":\"\""
                        )
                    }
                    Entry::Pivot { chunk_id: Some(id), chunk_seq, tid, child } => {
                        assert_eq!((chunk_seq, tid), (None, None));
                        let id = u32::try_from(id.get()).unwrap().to_le_bytes();
                        let data = hex([&id[..], &[0; 4]].concat());
                        format!(
                            "\"ctid\":\"({child},1)\",\"itemlen\":16,\"nulls\":false,\"vars\":false,\"data\":\"{data}\""
                        )
                    }
                };
                let note = format!("{{\"itemoffset\":{item},{shown}");
                assert!(facts.contains(&note), "{release} {name}: {note}");
                assert!(!page.is_dead(item));
            }
            let special = page.special();
            let link = |block: Option<BlockNumber>| block.map_or(0, BlockNumber::get);
            let stats = format!(
                "\"btpo_prev\":{},\"btpo_next\":{},\"btpo_level\":{},\"btpo_flags\":{}",
                link(special.prev()),
                link(special.next()),
                special.level(),
                special.flags().bits()
            );
            assert!(facts.contains(&stats), "{release} {name}: {stats}");
        }
        let bytes = fs::read(file(release, "btree_meta.page")).unwrap();
        let meta = Meta::parse(&bytes).unwrap();
        assert_eq!(meta.root(), Some((BlockNumber::new(3), 1)));
        assert_eq!(meta.fast_root(), meta.root());
        assert!(meta.is_all_equal_image());
        let mut ours = vec![0; bytes.len()];
        meta.init(&mut ours, BlockSize::KIB_8);
        // Log position and checksum apart.
        assert_eq!(ours[10..], bytes[10..]);
    }
}

fn hex(bytes: Vec<u8>) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        let space = if at > 0 { " " } else { "" };
        let _ = write!(text, "{space}{byte:02x}");
    }
    text
}

#[test]
fn what_is_reset_after_a_crash_is_an_index_without_entries() {
    for release in ["15", "18"] {
        let bytes = fs::read(file(release, "init_fork.page")).unwrap();
        assert_eq!(Meta::parse(&bytes).unwrap().root(), None);
        let error = NodePage::parse(&bytes, BlockNumber::new(0), KeyWidth::Oid).err();
        let flags = NodeFlags::META.bits();
        assert_eq!(error, Some(pgtoast_nbtree::NbtreeError::Flags { block: 0, found: flags }));
    }
}
