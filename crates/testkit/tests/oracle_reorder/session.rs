//! A session of a server's, and the same in the model: what it does goes to both.
use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;
use pgtoast_base::Xid;
use pgtoast_reorder::InsertFlags;
use pgtoast_testkit::Rng;
use pgtoast_testkit::postgres::Client;

use crate::log::{Log, OwnedAction};
use crate::table::Table;
use crate::values::{Cell, int4};

pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) tables: Vec<Table>,
    /// The transaction's number, 0 before it has one.
    xid: u32,
    is_open: bool,
    savepoints: Vec<Savepoint>,
    /// Subtransactions that were released into each level; the first is the transaction's own.
    released: Vec<Vec<u32>>,
    /// As the tables were when the transaction began.
    before: Vec<Table>,
    next_id: i32,
}

/// What sessions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    Everything,
    /// Nothing is truncated or undone, and less committed.
    LongTransactions,
}

struct Savepoint {
    name: String,
    xid: u32,
    before: Vec<Table>,
}

impl Session {
    pub(crate) fn new(client: Client, tables: Vec<Table>) -> Self {
        Self {
            client,
            tables,
            xid: 0,
            is_open: false,
            savepoints: Vec::new(),
            released: vec![Vec::new()],
            before: Vec::new(),
            next_id: 1,
        }
    }

    /// Does something. Truncating is for sessions of `Mix::Everything`: beside the change itself, it puts into
    /// the log what other sessions have to forget about the table, which a server accounts for too.
    pub(crate) fn step(&mut self, rng: &mut Rng, log: &mut Log, mix: Mix) -> Result<()> {
        if !self.is_open {
            self.client.batch_execute("BEGIN")?;
            self.is_open = true;
            self.before = self.tables.clone();
        }
        let table = rng.below(self.tables.len());
        match rng.below(100) {
            0..30 => self.insert(rng, log, table),
            30..52 => self.update(rng, log, table),
            52..62 => self.delete(rng, log, table),
            62..64 if mix == Mix::Everything => self.truncate(rng, log, table),
            62..64 => self.insert(rng, log, table),
            64..67 => self.message(rng, log),
            67..71 => self.copy(rng, log, table),
            71..79 => self.savepoint(rng),
            79..84 => self.release(),
            97.. if mix == Mix::LongTransactions => self.commit(log),
            84.. if mix == Mix::LongTransactions => self.insert(rng, log, table),
            84..89 => self.rollback_to(log),
            89..93 => self.rollback(log),
            _ => self.commit(log),
        }
    }

    /// Whose the next change is; those who have no number yet get one.
    fn writer(&mut self, log: &mut Log) -> u32 {
        if self.xid == 0 {
            self.xid = log.new_xid();
        }
        let mut writer = self.xid;
        for savepoint in &mut self.savepoints {
            if savepoint.xid == 0 {
                savepoint.xid = log.new_xid();
                log.push(savepoint.xid, OwnedAction::Assign(self.xid));
            }
            writer = savepoint.xid;
        }
        writer
    }

    fn push(&mut self, log: &mut Log, actions: Vec<OwnedAction>) {
        let xid = self.writer(log);
        actions.into_iter().for_each(|action| log.push(xid, action));
    }

    fn cells(&mut self, rng: &mut Rng, table: usize, id: i32) -> Vec<Option<Cell>> {
        let table = &self.tables[table];
        let columns = table.columns.iter().enumerate();
        columns
            .map(|(at, column)| match at {
                _ if column.is_dropped => None,
                0 => Some(int4(id)),
                _ if table.key.contains(&at) => Some(int4(id + 7)),
                _ => (!rng.chance(15)).then(|| column.kind.random(rng)),
            })
            .collect()
    }

    fn sql_row(cells: &[Option<Cell>], visible: &[usize]) -> String {
        let values: Vec<_> =
            visible.iter().map(|at| cells[*at].as_ref().map_or("NULL", |cell| &cell.sql)).collect();
        format!("({})", values.join(", "))
    }

    fn insert(&mut self, rng: &mut Rng, log: &mut Log, table: usize) -> Result<()> {
        let count = if rng.chance(20) { rng.between(2, 30) } else { 1 };
        let mut rows = Vec::new();
        for _ in 0..count {
            let id = self.next_id;
            self.next_id += 1;
            rows.push((id, self.cells(rng, table, id)));
        }
        let visible: Vec<_> = self.tables[table].visible().collect();
        let list: Vec<_> = rows.iter().map(|(_, cells)| Self::sql_row(cells, &visible)).collect();
        let name = self.tables[table].sql_name();
        self.client.batch_execute(&format!("INSERT INTO {name} VALUES {}", list.join(", ")))?;
        for (id, cells) in rows {
            let (mut actions, new) = self.tables[table].insert(id, &cells)?;
            let (relation, flags) = (self.tables[table].oid, InsertFlags::empty());
            actions.push(OwnedAction::Insert { relation, new, flags });
            self.push(log, actions);
        }
        Ok(())
    }

    /// Rows of one command: the chunks of all come before the first row.
    fn copy(&mut self, rng: &mut Rng, log: &mut Log, table: usize) -> Result<()> {
        let name = self.tables[table].sql_name();
        let count = rng.between(1, 40);
        let (mut text, mut toast, mut rows) = (String::new(), Vec::new(), Vec::new());
        let visible: Vec<_> = self.tables[table].visible().collect();
        for _ in 0..count {
            let id = self.next_id;
            self.next_id += 1;
            let mut cells = self.cells(rng, table, id);
            // Expressions are no input to this command.
            for cell in cells.iter_mut().skip(1) {
                if cell.as_ref().is_some_and(|cell| cell.sql.contains(" '2000-01-01'")) {
                    *cell = None;
                }
            }
            let fields: Vec<_> = visible
                .iter()
                .map(|at| cells[*at].as_ref().map_or_else(|| "\\N".to_owned(), copy_text))
                .collect();
            let line = format!("{}\n", fields.join("\t"));
            // Rows that come to more are stored as two batches.
            if !rows.is_empty() && text.len() + line.len() > LONGEST_BATCH {
                break;
            }
            text += &line;
            let (actions, tuple) = self.tables[table].insert(id, &cells)?;
            toast.extend(actions);
            rows.push(tuple);
        }
        let mut writer = self.client.copy_in(&format!("COPY {name} FROM stdin"))?;
        writer.write_all(text.as_bytes())?;
        writer.finish()?;
        let relation = self.tables[table].oid;
        let last = rows.len() - 1;
        toast.extend(rows.into_iter().enumerate().map(|(at, new)| {
            let keeps = at < last;
            let flags = if keeps { InsertFlags::KEEPS_TOAST } else { InsertFlags::empty() };
            OwnedAction::Insert { relation, new, flags }
        }));
        self.push(log, toast);
        Ok(())
    }

    fn update(&mut self, rng: &mut Rng, log: &mut Log, table: usize) -> Result<()> {
        let ids: Vec<_> = self.tables[table].rows.keys().copied().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = ids[rng.below(ids.len())];
        let mut new_id = id;
        let mut set = BTreeMap::new();
        if rng.chance(20) {
            new_id = self.next_id;
            self.next_id += 1;
            set.insert(0, Some(int4(new_id)));
            for at in self.tables[table].key.clone() {
                if at > 0 {
                    set.insert(at, Some(int4(new_id + 7)));
                }
            }
        }
        let visible: Vec<_> = self.tables[table].visible().collect();
        for at in visible {
            let is_free = at > 0 && !self.tables[table].key.contains(&at);
            if is_free && rng.chance(20) {
                let kind = self.tables[table].columns[at].kind;
                set.insert(at, (!rng.chance(15)).then(|| kind.random(rng)));
            }
        }
        if set.is_empty() {
            set.insert(0, Some(int4(new_id)));
        }
        let Table { columns, .. } = &self.tables[table];
        let list: Vec<_> = set
            .iter()
            .map(|(at, cell)| {
                let value = cell.as_ref().map_or("NULL", |cell| &cell.sql);
                format!("\"{}\" = {value}", columns[*at].name)
            })
            .collect();
        let (name, first) = (self.tables[table].sql_name(), &columns[0].name);
        let list = list.join(", ");
        self.client.batch_execute(&format!("UPDATE {name} SET {list} WHERE \"{first}\" = {id}"))?;
        let actions = self.tables[table].update(id, new_id, &set)?;
        self.push(log, actions);
        Ok(())
    }

    fn delete(&mut self, rng: &mut Rng, log: &mut Log, table: usize) -> Result<()> {
        let ids: Vec<_> = self.tables[table].rows.keys().copied().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let id = ids[rng.below(ids.len())];
        let (name, first) = (self.tables[table].sql_name(), &self.tables[table].columns[0].name);
        self.client.batch_execute(&format!("DELETE FROM {name} WHERE \"{first}\" = {id}"))?;
        let actions = self.tables[table].delete(id)?;
        self.push(log, actions);
        Ok(())
    }

    fn truncate(&mut self, rng: &mut Rng, log: &mut Log, table: usize) -> Result<()> {
        let both = self.tables.len() > 1 && rng.chance(50);
        let tables: Vec<_> =
            if both { vec![table, (table + 1) % self.tables.len()] } else { vec![table] };
        let (cascade, restart_identity) = (rng.chance(50), rng.chance(50));
        let names: Vec<_> = tables.iter().map(|at| self.tables[*at].sql_name()).collect();
        let restart = if restart_identity { "RESTART IDENTITY" } else { "" };
        let cascades = if cascade { "CASCADE" } else { "" };
        self.client
            .batch_execute(&format!("TRUNCATE {} {restart} {cascades}", names.join(", ")))?;
        let relations = tables.iter().map(|at| self.tables[*at].oid).collect();
        tables.iter().for_each(|at| self.tables[*at].truncate());
        self.push(log, vec![OwnedAction::Truncate { relations, cascade, restart_identity }]);
        Ok(())
    }

    fn message(&mut self, rng: &mut Rng, log: &mut Log) -> Result<()> {
        let is_transactional = rng.chance(60);
        let len = rng.below(200);
        let content: String =
            (0..len).map(|_| rng.pick(&['a', 'b', 'z', ' ', '\\', '%'])).collect();
        let sql =
            format!("SELECT pg_logical_emit_message({is_transactional}, 'pre fix', '{content}')");
        self.client.batch_execute(&sql)?;
        let (prefix, content) = ("pre fix".to_owned(), content.into_bytes());
        let message = OwnedAction::Message { is_transactional, prefix, content };
        if is_transactional {
            self.push(log, vec![message]);
        } else {
            log.push(self.xid, message);
        }
        Ok(())
    }

    fn savepoint(&mut self, rng: &mut Rng) -> Result<()> {
        if self.savepoints.len() == 4 {
            return Ok(());
        }
        let name = format!("s{}", rng.below(1000));
        self.client.batch_execute(&format!("SAVEPOINT {name}"))?;
        self.savepoints.push(Savepoint { name, xid: 0, before: self.tables.clone() });
        self.released.push(Vec::new());
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        let Some(Savepoint { name, xid, .. }) = self.savepoints.pop() else { return Ok(()) };
        self.client.batch_execute(&format!("RELEASE {name}"))?;
        self.release_xids(xid);
        Ok(())
    }

    fn release_xids(&mut self, xid: u32) {
        let inner = self.released.pop().unwrap_or_default();
        if let Some(outer) = self.released.last_mut() {
            outer.extend((xid != 0).then_some(xid).into_iter().chain(inner));
        }
    }

    fn rollback_to(&mut self, log: &mut Log) -> Result<()> {
        let Some(savepoint) = self.savepoints.last_mut() else { return Ok(()) };
        self.client.batch_execute(&format!("ROLLBACK TO {}", savepoint.name))?;
        let xid = core::mem::take(&mut savepoint.xid);
        self.tables = savepoint.before.clone();
        let inner = self.released.last_mut().map(core::mem::take).unwrap_or_default();
        if xid != 0 {
            log.push(xid, OwnedAction::Abort(inner.into_iter().map(Xid::new).collect()));
        }
        Ok(())
    }

    fn rollback(&mut self, log: &mut Log) -> Result<()> {
        self.client.batch_execute("ROLLBACK")?;
        let subtransactions = self.end();
        if self.xid != 0 {
            log.push(self.xid, OwnedAction::Abort(subtransactions));
        }
        self.tables = core::mem::take(&mut self.before);
        self.xid = 0;
        Ok(())
    }

    pub(crate) fn commit(&mut self, log: &mut Log) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        self.client.batch_execute("COMMIT")?;
        let subtransactions = self.end();
        if self.xid != 0 {
            log.push(self.xid, OwnedAction::Commit(subtransactions));
        }
        self.xid = 0;
        Ok(())
    }

    /// The transaction is over; its subtransactions that were not undone.
    fn end(&mut self) -> Vec<Xid> {
        while let Some(Savepoint { xid, .. }) = self.savepoints.pop() {
            self.release_xids(xid);
        }
        self.is_open = false;
        let all = core::mem::replace(&mut self.released, vec![Vec::new()]);
        all.into_iter().flatten().map(Xid::new).collect()
    }
}

/// A server stores rows of `COPY` once it has read more bytes than 65 535 of them.
const LONGEST_BATCH: usize = 65_000;

/// A value as the input of `COPY`.
fn copy_text(cell: &Cell) -> String {
    let text = cell.sql.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    let text = text.map_or_else(|| cell.sql.clone(), |text| text.replace("''", "'"));
    let text = text.replace('\\', "\\\\").replace('\t', "\\t");
    text.replace('\n', "\\n").replace('\r', "\\r")
}
