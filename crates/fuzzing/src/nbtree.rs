//! The index of plain TOAST under any pages and any program of operations.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use pgtoast_base::{BlockNumber, BlockSize, ItemPointer, OffsetNumber, Oid8};
use pgtoast_nbtree::{Index, Insertion, Key, KeyWidth, MemoryPages, NodePage};

use crate::input::Input;

type Rows = BTreeSet<(Key, ItemPointer)>;

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert { id: u16, seq: u8 },
    Run { id: u16, count: u8 },
    RowsOfOneKey { id: u16, count: u8 },
    Delete { id: u16, count: u8 },
    Vacuum,
    Settle,
    Range { id: u16, count: u8 },
    FreeId { id: u16 },
    Repack,
}

impl Op {
    /// The operation that some bytes stand for: which one, then two bytes, then one more.
    fn of(bytes: &[u8]) -> Self {
        let mut input = Input::new(bytes);
        let (kind, id, count) = (input.u8(), input.u16() % 400, input.u8());
        match kind % 16 {
            0..=3 => Self::Insert { id, seq: count },
            4..=6 => Self::Run { id, count: count / 2 },
            7 => Self::RowsOfOneKey { id, count: count / 3 },
            8..=9 => Self::Delete { id, count },
            10 => Self::Delete { id, count: 255 },
            11 => Self::Vacuum,
            12 => Self::Settle,
            13 => Self::Range { id, count },
            14 => Self::FreeId { id },
            _ => Self::Repack,
        }
    }
}

/// A program of operations: the index holds what a map holds, and passes its check after each.
pub fn nbtree_ops(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.u8();
    let width = if choice & 1 == 0 { KeyWidth::Oid } else { KeyWidth::Oid8 };
    let size = if choice & 0x0e == 0 { BlockSize::KIB_8 } else { BlockSize::KIB_1 };
    let base = match width {
        KeyWidth::Oid => u64::from(u32::MAX) - 700,
        KeyWidth::Oid8 => u64::from(u32::MAX) - 200,
    };
    let pages = MemoryPages::new(size);
    let Ok(index) = Index::create(pages, width) else { panic!("an empty store takes an index") };
    let mut model =
        Model { index, size, base, next_row: 0, rows: Rows::new(), alive: BTreeMap::new() };
    for bytes in input.rest().chunks(4).take(MOST_OPS) {
        model.apply(Op::of(bytes));
        let report = model.index.check().expect("sound after each operation");
        assert_eq!(report.entries, model.rows.len() as u64);
    }
    assert_eq!(model.read(0, u64::MAX), model.rows.iter().copied().collect::<Vec<_>>());
}

struct Model {
    index: Index<MemoryPages>,
    size: BlockSize,
    base: u64,
    next_row: u32,
    /// What the index holds, rows that are gone among them.
    rows: Rows,
    alive: BTreeMap<Key, ItemPointer>,
}

impl Model {
    fn key(&self, id: u64, seq: i32) -> Key {
        Key::new(Oid8::new(self.base + id), seq)
    }

    fn insert(&mut self, key: Key) {
        // Rows come in no order at all, so that those of one key do not either.
        let row = self.next_row.wrapping_mul(0x9e37_79b1) >> 4;
        let item = OffsetNumber::new(u16::try_from(row % 4 + 1).expect("at most 4"));
        let tid = ItemPointer::new(BlockNumber::new(row / 4), item);
        self.next_row += 1;
        let alive = self.alive.get(&key).copied();
        let expected = alive.map_or(Insertion::Done, Insertion::Duplicate);
        let conflicts = |tid| alive == Some(tid);
        let insertion = self.index.insert_unless(key, tid, conflicts).expect("a sound index");
        assert_eq!(insertion, expected);
        if alive.is_none() && self.rows.insert((key, tid)) {
            self.alive.insert(key, tid);
        }
    }

    fn read(&self, from: u64, to: u64) -> Vec<(Key, ItemPointer)> {
        let range = Key::new(Oid8::new(from), i32::MIN)..=Key::new(Oid8::new(to), i32::MAX);
        let entries: Vec<_> =
            self.index.range(range.clone()).map(|entry| entry.expect("a sound index")).collect();
        let mut visited = Vec::new();
        let visit = |key, tid| {
            visited.push((key, tid));
            ControlFlow::Continue(())
        };
        self.index.visit(range, visit).expect("a sound index");
        assert_eq!(visited, entries);
        entries
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insert { id, seq } => self.insert(self.key(id.into(), i32::from(seq) - 9)),
            Op::Run { id, count } => {
                for n in 0..count {
                    self.insert(self.key(u64::from(id) + u64::from(n / 3), i32::from(n % 3)));
                }
            }
            Op::RowsOfOneKey { id, count } => {
                let key = self.key(id.into(), 0);
                for _ in 0..count {
                    self.alive.remove(&key);
                    self.insert(key);
                }
            }
            Op::Delete { id, count } => {
                let (from, to) = (self.key(id.into(), i32::MIN), u64::from(id) + u64::from(count));
                let to = self.key(to, i32::MAX);
                self.alive.retain(|key, _| !(from..=to).contains(key));
            }
            Op::Vacuum => {
                let alive: BTreeSet<_> = self.alive.values().copied().collect();
                let report = self.index.vacuum(|tid| !alive.contains(&tid)).expect("a sound index");
                assert_eq!(report.left_tids, alive.len() as u64);
                assert_eq!(report.deleted_tids, (self.rows.len() - alive.len()) as u64);
                self.rows = self.alive.iter().map(|(key, tid)| (*key, *tid)).collect();
            }
            Op::Settle => self.index.pages_mut().settle(),
            Op::Range { id, count } => {
                let from = self.base + u64::from(id);
                let to = from + u64::from(count);
                let within = |key: &Key| (from..=to).contains(&key.chunk_id.get());
                let expected = self.rows.iter().filter(|(key, _)| within(key)).copied();
                assert_eq!(self.read(from, to), expected.collect::<Vec<_>>());
            }
            Op::FreeId { id } => {
                let from = self.base + u64::from(id);
                let ids: BTreeSet<_> =
                    self.rows.iter().map(|(key, _)| key.chunk_id.get()).collect();
                let taken = (from..).take_while(|id| ids.contains(id)).count() as u64;
                let found = self.index.first_free_id(Oid8::new(from)).expect("a sound index");
                assert_eq!((found.taken, found.chunk_id), (taken, Some(Oid8::new(from + taken))));
                let is_taken = self.index.contains_id(Oid8::new(from)).expect("a sound index");
                assert_eq!(is_taken, taken > 0);
            }
            Op::Repack => {
                let (pages, width) = (MemoryPages::new(self.size), self.index.width());
                let rows = self.rows.iter().copied();
                self.index = Index::build(pages, width, rows).expect("rows in order");
            }
        }
    }
}

/// Any pages: nothing panics, and nothing goes round. Inputs start out as sound indexes, in which
/// bytes are changed, or as bytes altogether.
pub fn nbtree_image(data: &[u8]) {
    let mut input = Input::new(data);
    let (choice, count, id) = (input.u8(), input.u16() % 700, input.u16() % 300);
    let width = if choice & 1 == 0 { KeyWidth::Oid } else { KeyWidth::Oid8 };
    let rest = input.rest();
    let size = BlockSize::KIB_1;
    let image = if choice & 2 == 0 {
        let mut image = packed(width, size, count, choice & 4 != 0);
        for patch in rest.chunks_exact(4).take(64) {
            let mut patch = Input::new(patch);
            let (block, offset, value) = (patch.u8(), patch.u16(), patch.u8());
            let blocks = image.len() / size.bytes();
            let at =
                usize::from(block) % blocks * size.bytes() + usize::from(offset) % size.bytes();
            image[at] = value;
        }
        image
    } else {
        rest[..rest.len().min(64 * size.bytes())].to_vec()
    };
    for (block, page) in (0..).map(BlockNumber::new).zip(image.chunks_exact(size.bytes())) {
        if let Ok(page) = NodePage::parse(page, block, width) {
            for (item, entry) in page.entries() {
                let _ = (entry, page.is_dead(item));
            }
        }
    }
    let pages = MemoryPages::from_bytes(size, &image);
    let Ok(mut index) = Index::open(pages, width) else { return };
    let mut findings = 0;
    let Ok(_) = index.check_each(|_| findings += 1) else { panic!("memory does not fail") };
    let key = |id: u16, seq| Key::new(Oid8::new(20_000 + u64::from(id)), seq);
    let tid = ItemPointer::new(BlockNumber::new(77), OffsetNumber::new(1));
    let all = || Key::new(Oid8::new(0), i32::MIN)..=Key::new(Oid8::new(u64::MAX), i32::MAX);
    let most = (image.len() / 6 + 1) * (image.len() / size.bytes() + 1);
    assert!(index.range(all()).take(most + 1).count() <= most, "a scan goes round");
    let _ = (index.get(key(id, 0)), index.first_free_id(Oid8::new(20_000)));
    for n in 0..25 {
        let _ = index.insert(key(id, 10 + n), tid);
        let _ =
            index.insert_unless(key(id / 2, 0), ItemPointer::new(tid.block, item(n)), |_| false);
    }
    for _ in 0..2 {
        let _ = index.vacuum(|tid| tid.block.get() % 3 != 0);
        index.pages_mut().settle();
    }
    let _ = index.insert(key(id, -1), tid);
    let _ = index.vacuum(|_| true);
    if findings == 0 && rest.len() < 4 && choice & 2 == 0 {
        index.check().expect("an index that was sound stays so");
    }
}

fn item(n: i32) -> OffsetNumber {
    OffsetNumber::new(u16::try_from(n + 1).unwrap_or(1))
}

/// A sound index to start from.
fn packed(width: KeyWidth, size: BlockSize, count: u16, by_inserts: bool) -> Vec<u8> {
    let rows = (0..u32::from(count)).map(|n| {
        let key = Key::new(Oid8::new(20_000 + u64::from(n / 3)), i32::try_from(n % 3).unwrap_or(0));
        (key, ItemPointer::new(BlockNumber::new(n / 4), OffsetNumber::new(1)))
    });
    let index = if by_inserts {
        let index = Index::create(MemoryPages::new(size), width).expect("an empty store");
        for (key, tid) in rows {
            assert_eq!(index.insert(key, tid), Ok(Insertion::Done));
        }
        index
    } else {
        Index::build(MemoryPages::new(size), width, rows).expect("rows in order")
    };
    index.into_pages().to_bytes()
}

/// An input may be longer, but not a run.
const MOST_OPS: usize = 64;
