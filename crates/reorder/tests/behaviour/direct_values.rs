//! Direct values are trees of chunks that name one another by where they are. They come before their row like
//! other chunks, and somebody who knows trees puts them together.
use std::cell::RefCell;

use pgtoast_base::{BlockSize, ItemPointer, Lsn, Oid};
use pgtoast_direct::{ChunkStore, DirectRelation, MemoryStore, Parameters};
use pgtoast_reorder::{
    Catalog, Change, CohortPages, DirectChunks, DirectValues, Eviction, InsertFlags, MemorySpill,
    Options, Relation, RelationMap, ReorderBuffer, ReorderError,
};
use pgtoast_varlena::ToastPointer;

use crate::common::{TOAST, catalog, insert, row, text_of};

/// Walks trees with the crate that writes them.
struct Trees {
    relations: RelationMap,
}

/// The tuples that came, as a store of chunks that is only read.
struct Came<'c>(RefCell<&'c mut dyn DirectChunks>);

impl ChunkStore for Came<'_> {
    type Error = Option<ReorderError>;
    type Tuple<'s>
        = std::rc::Rc<[u8]>
    where
        Self: 's;

    fn insert_with(
        &mut self,
        _len: usize,
        _fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, Self::Error> {
        Err(None)
    }

    fn fetch(&self, tid: ItemPointer) -> Result<Self::Tuple<'_>, Self::Error> {
        let mut tuple = Vec::new();
        match self.0.borrow_mut().fetch(tid, &mut tuple) {
            Ok(true) => Ok(tuple.into()),
            Ok(false) => Err(None),
            Err(error) => Err(Some(error)),
        }
    }

    fn delete(&mut self, _tid: ItemPointer) -> Result<(), Self::Error> {
        Err(None)
    }
}

impl DirectValues for Trees {
    fn rebuild(
        &self,
        pointer: &ToastPointer,
        chunks: &mut dyn DirectChunks,
    ) -> Result<Option<Vec<u8>>, ReorderError> {
        let ToastPointer::Direct(direct) = pointer else { return Ok(None) };
        if !chunks.fetch(direct.root(), &mut Vec::new())? {
            return Ok(None);
        }
        let relation = DirectRelation::new(pointer.toast_rel_id(), Parameters::default());
        let mut value = vec![0; pointer.raw_payload_len().expect("we made it")];
        let came = Came(RefCell::new(chunks));
        relation.read_into(&came, direct, &mut value).expect("all of it came");
        Ok(Some(value))
    }
}

impl Catalog for Trees {
    fn relation(&self, id: Oid, lsn: Lsn) -> Option<&Relation> {
        self.relations.relation(id, lsn)
    }

    fn direct_values(&self) -> Option<&dyn DirectValues> {
        Some(self)
    }
}

#[test]
fn a_tree_that_came_before_its_row_is_put_together_from_memory_and_from_files() {
    let value: Vec<u8> = (0..320_000_u32).map(|at| b'a' + (at % 23) as u8).collect();
    let mut store = Recorder { inner: MemoryStore::new(BlockSize::KIB_8), inserted: Vec::new() };
    let relation = DirectRelation::new(TOAST, Parameters::default());
    let pointer = relation.write(&mut store, &value).expect("there is room");
    let mut datum = [0; 22];
    ToastPointer::Direct(pointer).encode(&mut datum).expect("there is room");
    let tuple = row(1, Some(&datum), None);
    for eviction in [Eviction::AtLimit, Eviction::Immediate] {
        let layout = CohortPages::new().expect("it holds nothing");
        let options = Options { eviction, ..Options::default() };
        let mut buffer = ReorderBuffer::new(layout, MemorySpill::new(), options);
        let trees = Trees { relations: catalog() };
        let lines = text_of(&mut buffer, &trees, |feeder| {
            for (tid, chunk) in &store.inserted {
                let flags = InsertFlags::ON_TOAST_RELATION;
                let (relation, new, tid) = (TOAST, Some(&chunk[..]), Some(*tid));
                feeder.change(700, Change::Insert { relation, new, tid, flags });
            }
            feeder.change(700, insert(&tuple));
            // The chunks went with the row before.
            feeder.change(700, insert(&tuple));
            feeder.commit(700);
        });
        assert!(lines[1].contains(std::str::from_utf8(&value).expect("letters")));
        assert!(lines[2].contains("note[text]:unchanged-toast-datum"));
        assert_eq!(buffer.stats().longest_rebuilt_bytes, value.len());
    }
}

/// A store that notes what is put into it.
struct Recorder {
    inner: MemoryStore,
    inserted: Vec<(ItemPointer, Vec<u8>)>,
}

impl ChunkStore for Recorder {
    type Error = <MemoryStore as ChunkStore>::Error;
    type Tuple<'s> = <MemoryStore as ChunkStore>::Tuple<'s>;

    fn insert_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<ItemPointer, Self::Error> {
        let tid = self.inner.insert_with(len, fill)?;
        self.inserted.push((tid, self.inner.fetch(tid)?.to_vec()));
        Ok(tid)
    }

    fn fetch(&self, tid: ItemPointer) -> Result<Self::Tuple<'_>, Self::Error> {
        self.inner.fetch(tid)
    }

    fn delete(&mut self, tid: ItemPointer) -> Result<(), Self::Error> {
        self.inner.delete(tid)
    }
}
