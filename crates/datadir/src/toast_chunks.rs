//! The chunks of a TOAST relation, by value, without its index.
//!
//! One pass over the relation notes where each chunk is. Chunks of a value that lie side by side, as they
//! do after an ordinary insert, share a note:
//!
//! ```text
//! value 16562   | chunks 0 … 3 at (7,1) … (7,4) |   value 16562   | chunks 4 … 7 at (8,1) … (8,4) |
//! ```
//! The notes are kept for values with ids between two bounds. With memory enough these are all ids.
//! Otherwise one bound moves in as the notes fill up, and whoever asks for a value outside of the bounds
//! causes another pass, for notes from that value on: upwards if it was above, downwards if it was below.
//! So whoever asks in the order of ids, or against it, causes the fewest passes.
//!
//! Source: `heaptoast.c`, `toast_internals.c` (REL_18) for what chunks are.
use core::ops::{ControlFlow, Range};

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber, Oid, Oid8};
use pgtoast_page::{Item, Page};
use pgtoast_toast::{
    Chunk, ChunkOrder, ChunkSource, ReadError, ToastError, ValueIdWidth, ValueKey,
};

use crate::problems::Problems;
use crate::{DatadirError, Table};

/// Random access to the values of a TOAST relation: a [`ChunkSource`] for
/// [`Detoaster`](pgtoast_toast::Detoaster). Nothing is read before the first question.
///
/// It takes every chunk that a server would take, deleted ones among them: see
/// [`TupleHeader::is_toast_visible`](pgtoast_page::TupleHeader::is_toast_visible). What cannot be read
/// in the pass is among its [`problems`](Self::problems), and its values lack chunks.
#[derive(Debug)]
pub struct ToastChunks {
    /// `None` for a table that has no TOAST relation.
    relation: Option<(Option<Oid>, Table)>,
    width: ValueIdWidth,
    most_notes: usize,
    window: Option<Window>,
    problems: Problems,
    pieces: Pieces,
}

impl ToastChunks {
    /// The chunks in `table`. `toast_relation` is its id, to which pointers must lead; without it any
    /// pointer is taken to. The notes will take at most about `memory_bytes`.
    #[must_use]
    pub fn new(table: Table, toast_relation: Option<Oid>, memory_bytes: usize) -> Self {
        let is_wide = table.columns().get(1).is_some_and(|column| column.len.attlen() == 8);
        let width = if is_wide { ValueIdWidth::Oid8 } else { ValueIdWidth::Oid };
        Self {
            relation: Some((toast_relation, table)),
            width,
            most_notes: (memory_bytes / size_of::<Note>()).max(LEAST_NOTES),
            ..Self::none()
        }
    }

    /// Of a table that has no TOAST relation.
    #[must_use]
    pub fn none() -> Self {
        Self {
            relation: None,
            width: ValueIdWidth::Oid,
            most_notes: LEAST_NOTES,
            window: None,
            problems: Problems::default(),
            pieces: Pieces::default(),
        }
    }

    /// The width of the value ids.
    #[must_use]
    pub const fn width(&self) -> ValueIdWidth {
        self.width
    }

    /// What could not be read in the last pass, up to a thousand.
    #[must_use]
    pub fn problems(&self) -> &[DatadirError] {
        self.problems.kept()
    }

    /// Which chunks of a value there are, and where, in the order of their numbers.
    pub fn places(&mut self, value_id: Oid8) -> Vec<(i32, ItemPointer)> {
        self.look(value_id);
        let notes = self.window.as_ref().map_or(&[][..], |window| window.of(value_id));
        let mut places = Vec::new();
        for note in notes {
            places.extend((0..note.count).map(|index| (note.seq_of(index), note.tid_of(index))));
        }
        places
    }

    /// Makes sure that the window holds the value's notes.
    fn look(&mut self, value_id: Oid8) {
        let Some((_, table)) = &self.relation else { return };
        let mut bounds = match &self.window {
            Some(window) if window.covers(value_id) => return,
            Some(window) if window.bounds.start > value_id => Bounds::down_from(value_id),
            Some(_) => Bounds::up_from(value_id),
            // Most readers want all values.
            None => Bounds::up_from(Oid8::INVALID),
        };
        loop {
            let mut problems = Problems::default();
            let window = Window::fill(table, bounds, self.width, self.most_notes, &mut problems);
            let is_found = window.covers(value_id);
            (self.window, self.problems) = (Some(window), problems);
            if is_found {
                return;
            }
            bounds = Bounds::up_from(value_id);
        }
    }
}

impl ChunkSource for ToastChunks {
    type Error = DatadirError;

    fn order(&self) -> ChunkOrder {
        ChunkOrder::Index
    }

    fn visit(
        &mut self,
        key: ValueKey,
        chunks: Range<u32>,
        visit: &mut dyn FnMut(&Chunk<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError<DatadirError>> {
        let Some((toast_relation, _)) = &self.relation else { return Ok(()) };
        if let Some(expected) = *toast_relation
            && expected != key.toast_rel_id
        {
            let found = key.toast_rel_id;
            return Err(ReadError::Source(DatadirError::ToastRelation { expected, found }));
        }
        self.look(key.value_id);
        let Some((_, table)) = &self.relation else { return Ok(()) };
        let notes = self.window.as_ref().map_or(&[][..], |window| window.of(key.value_id));
        let wanted = |seq: i32| u32::try_from(seq).is_ok_and(|seq| chunks.contains(&seq));
        let is_asked_for = |note: &Note| (0..note.count).any(|index| wanted(note.seq_of(index)));
        for (index, note) in notes.iter().enumerate().filter(|(_, note)| is_asked_for(note)) {
            let behind = notes[index + 1..].iter().take_while(|note| is_asked_for(note));
            let page = self.pieces.page(table, note.block, behind.map(|note| note.block));
            let page = page.map_err(ReadError::Source)?;
            for tid in
                (0..note.count).filter(|at| wanted(note.seq_of(*at))).map(|at| note.tid_of(at))
            {
                let bytes = match page.item(tid.item) {
                    Ok(Item::Normal(bytes)) => bytes,
                    // It was one when the note was made, so the file has changed since.
                    Ok(_) => continue,
                    Err(error) => {
                        return Err(ToastError::Page { block: tid.block, error }.into());
                    }
                };
                if let Some(chunk) = Chunk::parse(bytes, self.width, Some(tid))?
                    && visit(&chunk).is_break()
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// So many notes are kept in any case.
const LEAST_NOTES: usize = 1024;

/// Some chunks of one value that lie side by side on a page, their numbers rising by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    value_id: Oid8,
    seq: i32,
    block: BlockNumber,
    item: u16,
    count: u16,
}

impl Note {
    fn of(chunk: &Chunk<'_>, tid: ItemPointer) -> Self {
        Self {
            value_id: chunk.value_id,
            seq: chunk.seq,
            block: tid.block,
            item: tid.item.get(),
            count: 1,
        }
    }

    fn seq_of(&self, index: u16) -> i32 {
        self.seq.wrapping_add(i32::from(index))
    }

    fn tid_of(&self, index: u16) -> ItemPointer {
        ItemPointer::new(self.block, OffsetNumber::new(self.item + index))
    }

    /// Takes in the chunk of `next`, if that is the one behind.
    fn grow(&mut self, next: &Self) -> bool {
        let is_next = next.value_id == self.value_id
            && next.block == self.block
            && Some(next.item) == self.item.checked_add(self.count)
            && Some(next.seq) == self.seq.checked_add(self.count.into());
        self.count += u16::from(is_next);
        is_next
    }
}

/// The values of which notes are kept.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The lowest id.
    start: Oid8,
    /// The first id that is left out; `None` for none.
    end: Option<Oid8>,
    /// Whether the highest ids go first when room is short, rather than the lowest.
    is_upwards: bool,
}

impl Bounds {
    const fn up_from(start: Oid8) -> Self {
        Self { start, end: None, is_upwards: true }
    }

    fn down_from(last: Oid8) -> Self {
        let end = last.get().checked_add(1).map(Oid8::new);
        Self { start: Oid8::INVALID, end, is_upwards: false }
    }

    fn cover(&self, value_id: Oid8) -> bool {
        value_id >= self.start && self.end.is_none_or(|end| value_id < end)
    }
}

/// The notes about all values within bounds.
#[derive(Debug)]
struct Window {
    bounds: Bounds,
    /// By value and number.
    notes: Vec<Note>,
    /// How many notes there may be before something must go.
    room: usize,
}

impl Window {
    fn fill(
        table: &Table,
        bounds: Bounds,
        width: ValueIdWidth,
        room: usize,
        problems: &mut Problems,
    ) -> Self {
        let mut window = Self { bounds, notes: Vec::new(), room };
        let status = table.transactions().reader();
        let mut rows = table.rows().with_dead();
        while let Some(row) = rows.next() {
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    problems.add(error);
                    continue;
                }
            };
            match status.is_toast_visible(row.tuple.header()) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    problems.add(error);
                    continue;
                }
            }
            match Chunk::parse(row.tuple.bytes(), width, Some(row.tid)) {
                Ok(Some(chunk)) => window.note(Note::of(&chunk, row.tid)),
                // Of a direct value, which no number leads to.
                Ok(None) => {}
                Err(error) => {
                    let file = table.fork().place(row.tid.block).0;
                    problems.add(DatadirError::Chunk { file, error });
                }
            }
        }
        window.sort();
        window
    }

    fn note(&mut self, note: Note) {
        if !self.covers(note.value_id) || self.notes.last_mut().is_some_and(|last| last.grow(&note))
        {
            return;
        }
        if self.notes.len() >= self.room {
            self.halve();
            if !self.covers(note.value_id) {
                return;
            }
        }
        self.notes.push(note);
    }

    /// Leaves out the values farthest from where the window began, and half of the notes with them. The
    /// nearest value stays whatever it takes.
    fn halve(&mut self) {
        self.sort();
        let middle = self.notes.len() / 2;
        if self.bounds.is_upwards {
            let first = self.notes.first().map(|note| note.value_id);
            let mut rest = self.notes[middle..].iter().map(|note| note.value_id);
            if let Some(end) = rest.find(|id| Some(*id) > first) {
                self.bounds.end = Some(end);
                self.notes.truncate(self.notes.partition_point(|note| note.value_id < end));
            }
        } else if let Some(start) = self.notes.get(middle).map(|note| note.value_id) {
            // The highest value may begin before the middle; then all below it goes.
            self.bounds.start = start;
            let below = self.notes.partition_point(|note| note.value_id < start);
            self.notes.drain(..below);
        }
        // One value alone may fill it; sorting again for each of its notes would never end.
        if self.notes.len() > self.room / 4 * 3 {
            self.room = self.room.saturating_mul(2);
        }
    }

    fn sort(&mut self) {
        self.notes.sort_unstable_by_key(|note| (note.value_id, note.seq, note.block, note.item));
    }

    fn covers(&self, value_id: Oid8) -> bool {
        self.bounds.cover(value_id)
    }

    fn of(&self, value_id: Oid8) -> &[Note] {
        let start = self.notes.partition_point(|note| note.value_id < value_id);
        let len = self.notes[start..].partition_point(|note| note.value_id == value_id);
        &self.notes[start..start + len]
    }
}

/// Some blocks side by side that were read at once.
#[derive(Debug, Default)]
struct Pieces {
    buffer: Vec<u8>,
    held: Range<u32>,
}

/// How many blocks are read at once, at most.
const MOST_BLOCKS: u32 = 32;

impl Pieces {
    /// The page of a block; if that must be read, those of `behind` that follow it are read too.
    fn page(
        &mut self,
        table: &Table,
        block: BlockNumber,
        behind: impl Iterator<Item = BlockNumber>,
    ) -> Result<Page<'_>, DatadirError> {
        let (number, block_bytes) = (block.get(), table.fork().block_size().bytes());
        if !self.held.contains(&number) {
            let mut end = number + 1;
            for next in behind.map(BlockNumber::get) {
                if next == end && end - number < MOST_BLOCKS {
                    end += 1;
                } else if next.wrapping_add(1) != end {
                    break;
                }
            }
            self.held = 0..0;
            self.buffer.resize((end - number) as usize * block_bytes, 0);
            table.fork().read_blocks(block, &mut self.buffer)?;
            self.held = number..end;
        }
        let start = (number - self.held.start) as usize * block_bytes;
        table.page(block, &self.buffer[start..start + block_bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of values 1 ..= 300, three for each and twelve for value 150, as if written in an order that
    /// mixes them, every other one alone on its page.
    fn notes() -> Vec<Note> {
        let mut notes = Vec::new();
        for step in 0..300_u32 {
            let value = step * 77 % 300 + 1;
            let (block, value_id) = (BlockNumber::new(step), Oid8::new(value.into()));
            for seq in 0..if value == 150 { 12 } else { 3 } {
                let item = if value % 2 == 0 { 2 * seq + 1 } else { seq + 1 };
                notes.push(Note { value_id, seq: i32::from(seq), block, item, count: 1 });
            }
        }
        notes
    }

    fn window(bounds: Bounds, room: usize) -> Window {
        let mut window = Window { bounds, notes: Vec::new(), room };
        notes().into_iter().for_each(|note| window.note(note));
        window.sort();
        window
    }

    fn assert_whole(window: &Window, value: u64) {
        let id = Oid8::new(value);
        let chunks: Vec<_> = window
            .of(id)
            .iter()
            .flat_map(|note| (0..note.count).map(|at| note.seq_of(at)))
            .collect();
        let expected = if value == 150 { 0..12 } else { 0..3 };
        assert_eq!(chunks, expected.collect::<Vec<i32>>(), "{value}");
        assert_eq!(window.of(id).len() == 1, value % 2 == 1, "side by side, one note does");
    }

    #[test]
    fn a_window_has_every_note_of_the_values_that_it_covers() {
        for room in [1, 2, 10, 64, 300, 10_000] {
            let mut passes = 0;
            let mut next = 1;
            while next <= 300 {
                let window = window(Bounds::up_from(Oid8::new(next)), room);
                passes += 1;
                assert!(window.covers(Oid8::new(next)), "the value asked for is there");
                assert!(window.notes.len() <= room.max(13) * 2, "{} notes", window.notes.len());
                while next <= 300 && window.covers(Oid8::new(next)) {
                    assert_whole(&window, next);
                    next += 1;
                }
            }
            assert_eq!(passes == 1, room == 10_000, "{room}");

            let mut next = 300;
            while next >= 1 {
                let window = window(Bounds::down_from(Oid8::new(next)), room);
                assert!(window.covers(Oid8::new(next)), "downwards too");
                while next >= 1 && window.covers(Oid8::new(next)) {
                    assert_whole(&window, next);
                    next -= 1;
                }
            }
        }
    }

    #[test]
    fn one_value_that_fills_the_room_is_not_sorted_for_each_of_its_chunks() {
        let mut window =
            Window { bounds: Bounds::up_from(Oid8::INVALID), notes: Vec::new(), room: 4 };
        for seq in 0..100_000 {
            let (value_id, block) = (Oid8::new(7), BlockNumber::new(0));
            window.note(Note { value_id, seq: seq * 2, block, item: 1, count: 1 });
        }
        assert_eq!(window.of(Oid8::new(7)).len(), 100_000);
    }

    #[test]
    fn threads_can_share_what_they_read_from() {
        fn shared<T: Send + Sync>() {}
        shared::<crate::DataDirectory>();
        shared::<crate::Database>();
        shared::<Table>();
        fn moved<T: Send>() {}
        moved::<ToastChunks>();
    }
}
