//! Tools took every page to have 8192 bytes: they refused others, or summed the wrong span. Here a page says its
//! length, a store keeps to the one that it was made with, and a disagreement names both numbers.
use std::fs;

use pgtoast_store::{BlockSize, Isolation, Storage, Store, StoreError, StoreOptions};

use super::{documents, insert, noise, open, rows};

#[test]
fn every_block_size_is_kept_and_another_one_is_refused() {
    for block_size in BlockSize::ALL {
        let (directory, store) = open(StoreOptions::new().block_size(block_size));
        let table = store.create_table("t", documents(Storage::External)).expect("a table");
        let bodies: Vec<_> =
            (0..20).zip((100..).step_by(1500)).map(|(id, len)| noise(id, len)).collect();
        for (id, body) in (0..).zip(&bodies) {
            insert(&store, &table, id, body);
        }
        let relations = table.relations();
        let toast = relations.toast.expect("a relation");
        store.close().expect("closed");

        // The page's size and its version, 4, share a word: 0x0404 to 0x8004.
        let path = directory.path().join(format!("base/{toast}"));
        let bytes = fs::read(&path).expect("the file");
        assert!(bytes.len().is_multiple_of(block_size.bytes()));
        let word = u16::from_le_bytes([bytes[18], bytes[19]]);
        assert_eq!(word, block_size.bytes_u16() | 4);
        // Four chunks to a page, whatever its size: the first one's tuple ends where the page does.
        let quarter = block_size.bytes() / 4;
        let item = u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]);
        assert!((item >> 17) as usize > quarter - 64, "a chunk of {} bytes", item >> 17);

        let other =
            if block_size == BlockSize::KIB_8 { BlockSize::KIB_16 } else { BlockSize::KIB_8 };
        let refused = Store::open(directory.path(), StoreOptions::new().block_size(other));
        let (stored, asked) = (block_size.bytes_u16().into(), other.bytes_u16().into());
        assert_eq!(refused.map(|_| ()), Err(StoreError::BlockSize { stored, asked }));

        let store = Store::open(directory.path(), StoreOptions::new()).expect("there");
        assert_eq!(store.block_size(), block_size);
        let table = store.table("t").expect("there");
        let found = rows(&mut store.begin(Isolation::ReadCommitted), &table);
        assert!(found.iter().map(|(_, body)| body).eq(&bodies), "{block_size}");
        let verified = store.verify(&table, |finding| panic!("{finding}")).expect("readable");
        assert_eq!((verified.rows, verified.findings), (20, 0));
    }
}
