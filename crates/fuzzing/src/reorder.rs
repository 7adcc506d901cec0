//! A reorder buffer against the plainest one: lists of changes, sorted when their transaction commits.
mod flaky_spill;
mod receiver;

use pgtoast_base::{BlockSize, Lsn, Oid, Oid8, Xid};
use pgtoast_memctx::BlockSizes;
use pgtoast_page::Value;
use pgtoast_reorder::{
    Action, BuiltinType, BumpPerTransaction, Change, CohortPages, Column, Eviction, InsertFlags,
    Layout, Options, Record, Relation, RelationMap, ReorderBuffer, ReorderError, RowAction,
    SharedGeneration,
};
use pgtoast_toast::{Chunk, ChunkSize, OutOfLine, ValueIdWidth};

use self::flaky_spill::{FlakySpill, NO_SPACE};
use self::receiver::{Cell, Event, Receiver, Sent};
use crate::input::Input;

/// A program of transactions: the layout, the limit and the ways of evicting from the first three bytes, then
/// operations of four bytes each.
///
/// # Panics
/// When what comes out is not what was committed, or an account is not the sum of what it counts.
pub fn reorder_program(data: &[u8]) {
    let mut input = Input::new(data);
    let (layout, limit, ways) = (input.u8(), input.u8(), input.u8());
    let options = Options {
        work_mem: [400, 3000, 20_000, 1 << 20][usize::from(limit) % 4],
        eviction: if ways & 1 == 0 { Eviction::AtLimit } else { Eviction::Immediate },
        drops_aborted: ways & 2 == 0,
    };
    let (streams, is_flaky) = (ways & 4 != 0, ways & 8 != 0);
    let program = input.rest();
    match layout % 4 {
        0 => {
            run(CohortPages::new().expect("it holds nothing"), options, streams, is_flaky, program)
        }
        1 => run(BumpPerTransaction::new(BlockSizes::SMALL), options, streams, is_flaky, program),
        shape => {
            let sizes = BlockSizes::fixed([8 << 10, 64 << 10][usize::from(shape - 2)]);
            let layout = SharedGeneration::new(sizes).expect("there is memory for a block");
            run(layout, options, streams, is_flaky, program);
        }
    }
}

const OP: usize = 4;
/// Transactions that are open at once, and subtransactions that one of them is in.
const SLOTS: usize = 5;
const DEPTH: usize = 3;

const TABLE: Oid = Oid::new(16_384);
const TOAST: Oid = Oid::new(16_390);
const TOAST8: Oid = Oid::new(16_391);

/// Changes in the model, by where they are in the log.
#[derive(Debug, Default)]
struct Open {
    xid: u32,
    /// All that were not undone, the innermost last.
    subtransactions: Vec<u32>,
    /// Of those, the ones that the program is in.
    nested: Vec<u32>,
    events: Vec<(u32, Event)>,
}

/// The program at work.
struct Player<L: Layout> {
    buffer: ReorderBuffer<L, FlakySpill>,
    catalog: RelationMap,
    receiver: Receiver,
    options: Options,
    open: [Open; SLOTS],
    expected: Vec<Sent>,
    table: Relation,
    next_xid: u32,
    next_lsn: u64,
    next_value: u64,
    is_flaky: bool,
}

fn run<L: Layout>(layout: L, options: Options, streams: bool, is_flaky: bool, program: &[u8]) {
    let columns = vec![
        Column::new("id", BuiltinType::INT4),
        Column::new("note", BuiltinType::TEXT),
        Column::new("big", BuiltinType::BYTEA),
    ];
    let table = Relation::table(TABLE, "public", "t", columns).expect("few columns");
    let toast = [(TOAST, ValueIdWidth::Oid), (TOAST8, ValueIdWidth::Oid8)];
    let toast = toast.map(|(id, width)| Relation::toast(id, width));
    let catalog = RelationMap::new(toast.into_iter().chain([table.clone()]));
    let store = FlakySpill::new(is_flaky);
    let mut player = Player {
        buffer: ReorderBuffer::new(layout, store, options),
        catalog,
        receiver: Receiver::new(streams),
        options,
        open: Default::default(),
        expected: Vec::new(),
        table,
        next_xid: 700,
        next_lsn: 1 << 32,
        next_value: 1,
        is_flaky,
    };
    for op in program.chunks_exact(OP) {
        let [op, who, a, b] = *op else { break };
        player.play(op, who, a, b);
        player.check();
    }
    player.finish();
}

impl<L: Layout> Player<L> {
    fn play(&mut self, op: u8, who: u8, a: u8, b: u8) {
        let slot = usize::from(who) % SLOTS;
        let (a, b) = (usize::from(a), usize::from(b));
        match op % 16 {
            0..=3 => self.insert(slot, a, b),
            4 => self.update(slot, a, b),
            5 => self.delete(slot, a),
            6 => self.truncate(slot, a),
            7 => self.message(slot, a, b),
            8..=9 => self.toasted(slot, a, b),
            10 => self.orphan(slot, a, b),
            11 => self.begin_subtransaction(slot, b),
            12 => self.end_subtransaction(slot, a),
            13 => self.abort(slot),
            _ => self.commit(slot),
        }
    }

    fn lsn(&mut self) -> Lsn {
        self.next_lsn += 8;
        Lsn::new(self.next_lsn)
    }

    fn new_xid(&mut self) -> u32 {
        self.next_xid += 1;
        self.next_xid
    }

    /// The transaction in a slot, which begins if there is none, and whose the next change in it is.
    fn xids(&mut self, slot: usize) -> (u32, u32) {
        if self.open[slot].xid == 0 {
            self.open[slot].xid = self.new_xid();
        }
        let open = &self.open[slot];
        (open.xid, open.nested.last().copied().unwrap_or(open.xid))
    }

    fn apply(&mut self, lsn: Lsn, xid: u32, action: Action<'_>) {
        let record = Record { lsn, xid: Xid::new(xid), action };
        let size = self.buffer.stats().accounted_bytes;
        match self.buffer.apply(&record, &self.catalog, &mut self.receiver) {
            Ok(()) => {
                let stats = self.buffer.stats();
                let added = stats.accounted_bytes.saturating_sub(size);
                let limit = self.options.work_mem + added;
                assert!(self.is_flaky || stats.accounted_bytes < limit);
            }
            Err(ReorderError::Store { os_error: Some(NO_SPACE), .. }) => assert!(self.is_flaky),
            Err(error) => panic!("{error}"),
        }
    }

    fn change(&mut self, slot: usize, change: Change<'_>, event: Option<Event>) {
        let (_, xid) = self.xids(slot);
        let lsn = self.lsn();
        self.apply(lsn, xid, Action::Change(change));
        self.open[slot].events.extend(event.map(|event| (xid, event)));
    }

    fn tuple(&self, cells: &[Option<&[u8]>]) -> Vec<u8> {
        let values: Vec<_> =
            cells.iter().map(|cell| cell.map_or(Value::Null, Value::stored)).collect();
        let descriptor = self.table.descriptor().expect("few columns");
        let len = descriptor.tuple_len(&values).expect("values of their types");
        let mut tuple = vec![0; len];
        descriptor.form(&values, &mut tuple).expect("there is room");
        tuple
    }

    /// A row with a text of `len` bytes, or null.
    fn row(&self, id: usize, len: usize) -> (Vec<u8>, Vec<Cell>) {
        let id = [low(id), 0, 0, 0];
        let text = vec![b'a' + low(len % 26); len];
        let datum = long_datum(&text);
        let note = (len != 7).then_some(&datum[..]);
        let tuple = self.tuple(&[Some(&id), note, None]);
        let note = if len == 7 { Cell::Null } else { Cell::Bytes(text) };
        (tuple, vec![Cell::Bytes(id.to_vec()), note, Cell::Null])
    }

    fn insert(&mut self, slot: usize, a: usize, b: usize) {
        let (tuple, cells) = self.row(a, b);
        let flags = InsertFlags::empty();
        let new = (a != 9).then_some(&tuple[..]);
        let change = Change::Insert { relation: TABLE, new, tid: None, flags };
        let event = Event::Row { action: RowAction::Insert, old: None, new: new.map(|_| cells) };
        self.change(slot, change, Some(event));
        if a == 10 {
            let flags = InsertFlags::NO_LOGICAL;
            self.change(slot, Change::Insert { relation: TABLE, new, tid: None, flags }, None);
        }
    }

    fn update(&mut self, slot: usize, a: usize, b: usize) {
        let ((old, old_cells), (new, new_cells)) = (self.row(a, b / 2), self.row(a + 1, b));
        let old = (!b.is_multiple_of(3)).then_some(&old[..]);
        let change = Change::Update { relation: TABLE, old, new: Some(&new) };
        let (old, new) = (old.map(|_| old_cells), Some(new_cells));
        self.change(slot, change, Some(Event::Row { action: RowAction::Update, old, new }));
    }

    fn delete(&mut self, slot: usize, a: usize) {
        if a.is_multiple_of(4) {
            self.change(slot, Change::Delete { relation: TOAST, old: None }, None);
            return;
        }
        let (old, cells) = self.row(a, a);
        let old = (a % 4 != 1).then_some(&old[..]);
        let event = Event::Row { action: RowAction::Delete, old: old.map(|_| cells), new: None };
        self.change(slot, Change::Delete { relation: TABLE, old }, Some(event));
    }

    fn truncate(&mut self, slot: usize, a: usize) {
        let relations = vec![TABLE; a % 4];
        let (cascade, restart_identity) = (a & 4 != 0, a & 8 != 0);
        let change = Change::Truncate { relations: &relations, cascade, restart_identity };
        let relations = relations.iter().map(|id| id.get()).collect();
        self.change(slot, change, Some(Event::Truncate { relations, cascade, restart_identity }));
    }

    fn message(&mut self, slot: usize, a: usize, b: usize) {
        let (content, prefix) = (vec![low(b); a], "prefix");
        let is_transactional = !b.is_multiple_of(4);
        let change = Change::Message { is_transactional, prefix, content: &content };
        if is_transactional {
            let prefix = prefix.to_owned();
            let event = Event::Message { prefix, content: content.clone() };
            self.change(slot, change, Some(event));
        } else {
            self.change(slot, change, None);
            self.expected.push(Sent::Message(content));
        }
    }

    /// The chunks of a value, and the pointer to it.
    fn chunks(&mut self, slot: usize, value: &[u8], width: ValueIdWidth) -> (u64, Vec<u8>) {
        self.next_value += 1;
        let high = if width == ValueIdWidth::Oid8 { 5 << 32 } else { 0 };
        let id = self.next_value + high;
        let relation = if width == ValueIdWidth::Oid8 { TOAST8 } else { TOAST };
        let datum = long_datum(value);
        let out = OutOfLine::new(&datum).expect("a datum");
        let chunk_size = ChunkSize::of(BlockSize::KIB_8, width);
        for (seq, data) in out.chunks(chunk_size) {
            let chunk = Chunk { value_id: Oid8::new(id), seq, data, tid: None };
            let mut tuple = vec![0; chunk.tuple_len(width)];
            chunk.form(width, &mut tuple).expect("there is room");
            let flags = InsertFlags::ON_TOAST_RELATION;
            let change = Change::Insert { relation, new: Some(&tuple), tid: None, flags };
            self.change(slot, change, None);
        }
        let pointer = out.pointer_of(width, Oid8::new(id), relation).expect("it is not 0");
        let mut bytes = vec![0; pointer.datum_len()];
        pointer.encode(&mut bytes).expect("there is room");
        (id, bytes)
    }

    /// Rows of one command whose values are out of line: as many as it takes, the last of which clears.
    fn toasted(&mut self, slot: usize, a: usize, b: usize) {
        let width = if a & 1 == 0 { ValueIdWidth::Oid } else { ValueIdWidth::Oid8 };
        let count = 1 + a / 2 % 3;
        let mut rows = Vec::new();
        for number in 0..count {
            let value = vec![low(b + number); 1990 + b * (number + 1) * 8];
            let (id, pointer) = self.chunks(slot, &value, width);
            rows.push((id, pointer, value));
        }
        // The second to come first.
        rows.reverse();
        let last = rows.len() - 1;
        for (number, (_, pointer, value)) in rows.into_iter().enumerate() {
            let tuple = self.tuple(&[Some(&[1, 0, 0, 0]), None, Some(&pointer)]);
            let keeps = number < last;
            let flags = if keeps { InsertFlags::KEEPS_TOAST } else { InsertFlags::empty() };
            let change = Change::Insert { relation: TABLE, new: Some(&tuple), tid: None, flags };
            let new = vec![Cell::Bytes(vec![1, 0, 0, 0]), Cell::Null, Cell::Bytes(value)];
            let action = RowAction::Insert;
            self.change(slot, change, Some(Event::Row { action, old: None, new: Some(new) }));
        }
    }

    /// Chunks that no row points to; and an update that does not touch a value out of line.
    fn orphan(&mut self, slot: usize, a: usize, b: usize) {
        if a.is_multiple_of(2) {
            self.chunks(slot, &vec![3; 2000 + b], ValueIdWidth::Oid);
            return;
        }
        let datum = long_datum(&[0; 4000]);
        let out = OutOfLine::new(&datum).expect("a datum");
        let value_id = 4_000_000_000 + u32::from(low(b));
        let pointer = out.pointer(Oid::new(value_id), TOAST);
        let mut bytes = vec![0; pointer.datum_len()];
        pointer.encode(&mut bytes).expect("there is room");
        let tuple = self.tuple(&[Some(&[1, 0, 0, 0]), None, Some(&bytes)]);
        let change = Change::Update { relation: TABLE, old: None, new: Some(&tuple) };
        let unchanged = Cell::Unchanged(value_id.into());
        let new = vec![Cell::Bytes(vec![1, 0, 0, 0]), Cell::Null, unchanged];
        let action = RowAction::Update;
        self.change(slot, change, Some(Event::Row { action, old: None, new: Some(new) }));
    }

    fn begin_subtransaction(&mut self, slot: usize, b: usize) {
        let (top, _) = self.xids(slot);
        if self.open[slot].nested.len() == DEPTH {
            return;
        }
        let xid = self.new_xid();
        self.open[slot].subtransactions.push(xid);
        self.open[slot].nested.push(xid);
        // Who streams has to know at once, which a server's log then says.
        if self.receiver.streams || b.is_multiple_of(2) {
            let lsn = self.lsn();
            self.apply(lsn, xid, Action::Assign { top: Xid::new(top) });
        }
    }

    /// Releases the innermost subtransaction, or undoes it with those that were released into it.
    fn end_subtransaction(&mut self, slot: usize, a: usize) {
        let Some(xid) = self.open[slot].nested.pop() else { return };
        if a.is_multiple_of(2) {
            return;
        }
        let open = &mut self.open[slot];
        let from = open.subtransactions.iter().position(|one| *one == xid).expect("it is open");
        let gone = open.subtransactions.split_off(from);
        open.events.retain(|(of, _)| !gone.contains(of));
        let inner: Vec<_> = gone[1..].iter().copied().map(Xid::new).collect();
        let lsn = self.lsn();
        self.apply(lsn, xid, Action::Abort { subtransactions: &inner });
    }

    fn abort(&mut self, slot: usize) {
        let Open { xid, subtransactions, .. } = core::mem::take(&mut self.open[slot]);
        if xid == 0 {
            return;
        }
        let subtransactions: Vec<_> = subtransactions.into_iter().map(Xid::new).collect();
        let lsn = self.lsn();
        self.apply(lsn, xid, Action::Abort { subtransactions: &subtransactions });
    }

    fn commit(&mut self, slot: usize) {
        let Open { xid, subtransactions, events, .. } = core::mem::take(&mut self.open[slot]);
        if xid == 0 {
            return;
        }
        let subtransactions: Vec<_> = subtransactions.into_iter().map(Xid::new).collect();
        let lsn = self.lsn();
        self.apply(lsn, xid, Action::Commit { subtransactions: &subtransactions });
        let events: Vec<_> = events.into_iter().map(|(_, event)| event).collect();
        if !events.is_empty() {
            self.expected.push(Sent::Transaction(xid, events));
        }
    }

    fn check(&mut self) {
        let stats = self.buffer.stats();
        let xids = self.open.iter().flat_map(|open| open.subtransactions.iter().chain([&open.xid]));
        let sum: usize =
            xids.filter_map(|xid| self.buffer.accounted_bytes_of(Xid::new(*xid))).sum();
        assert_eq!(sum, stats.accounted_bytes, "the whole is the sum of its parts");
        assert_eq!(stats.held_changes == 0, stats.accounted_bytes == 0);
        assert!(stats.accounted_bytes <= stats.peak_accounted_bytes);
        assert_eq!(self.receiver.sent, self.expected);
        self.receiver.sent.clear();
        self.expected.clear();
    }

    fn finish(&mut self) {
        for slot in 0..SLOTS {
            if slot % 2 == 0 { self.commit(slot) } else { self.abort(slot) }
        }
        self.check();
        let stats = self.buffer.stats();
        let held = (stats.accounted_bytes, stats.held_changes, stats.open_transactions);
        assert_eq!(held, (0, 0, 0));
        assert_eq!(self.buffer.layout().account().subtree_live_bytes(), 0);
        assert_eq!(self.buffer.store().inner.xids().count(), 0, "no file is left");
        assert!(self.receiver.streamed.is_empty());
    }
}

fn low(number: usize) -> u8 {
    number.to_le_bytes()[0]
}

fn long_datum(payload: &[u8]) -> Vec<u8> {
    let mut datum = Vec::new();
    pgtoast_varlena::encode_long(payload, &mut datum).expect("it is short");
    datum
}
