//! What a reorder buffer hands out, kept as values that can be compared.
use std::collections::BTreeMap;

use pgtoast_reorder::{
    ColumnValue, Message, Output, ReorderError, RowAction, RowChange, TransactionInfo, Truncate,
};

/// What a column holds, in the model and as it came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Unchanged(u64),
    Bytes(Vec<u8>),
}

/// What came out, or is to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Row { action: RowAction, old: Option<Vec<Cell>>, new: Option<Vec<Cell>> },
    Truncate { relations: Vec<u32>, cascade: bool, restart_identity: bool },
    Message { prefix: String, content: Vec<u8> },
}

/// A committed transaction, or a message that is of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Transaction(u32, Vec<Event>),
    Message(Vec<u8>),
}

/// Who takes what the buffer hands out, at the commit or, if it streams, before.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) streams: bool,
    pub(super) sent: Vec<Sent>,
    current: Vec<Event>,
    /// By transaction: what was streamed of it, and of which subtransaction each is.
    pub(super) streamed: BTreeMap<u32, Vec<(u32, Event)>>,
}

impl Receiver {
    pub(super) fn new(streams: bool) -> Self {
        Self { streams, ..Self::default() }
    }

    /// What is left of a transaction without events is chunks without a row.
    fn commit_events(&mut self, info: &TransactionInfo, events: Vec<Event>) {
        if !events.is_empty() {
            self.sent.push(Sent::Transaction(info.xid.get(), events));
        }
    }

    fn stream(&mut self, info: &TransactionInfo, event: Event) {
        let streamed = self.streamed.get_mut(&info.xid.get()).expect("it was opened");
        streamed.push((info.change_xid.get(), event));
    }
}

impl Output for Receiver {
    type Error = ReorderError;

    fn begin(&mut self, _info: &TransactionInfo) -> Result<(), ReorderError> {
        assert!(self.current.is_empty());
        Ok(())
    }

    fn change(
        &mut self,
        _info: &TransactionInfo,
        change: &mut RowChange<'_>,
    ) -> Result<(), ReorderError> {
        self.current.push(event_of(change)?);
        Ok(())
    }

    fn truncate(
        &mut self,
        _info: &TransactionInfo,
        truncate: &Truncate<'_>,
    ) -> Result<(), ReorderError> {
        self.current.push(truncate_event(truncate));
        Ok(())
    }

    fn message(
        &mut self,
        info: Option<&TransactionInfo>,
        message: &Message<'_>,
    ) -> Result<(), ReorderError> {
        match info {
            Some(_) => self.current.push(message_event(message)),
            None => self.sent.push(Sent::Message(message.content.to_vec())),
        }
        Ok(())
    }

    fn commit(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        let events = core::mem::take(&mut self.current);
        self.commit_events(info, events);
        Ok(())
    }

    fn streams(&self) -> bool {
        self.streams
    }

    fn stream_start(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        self.streamed.entry(info.xid.get()).or_default();
        Ok(())
    }

    fn stream_change(
        &mut self,
        info: &TransactionInfo,
        change: &mut RowChange<'_>,
    ) -> Result<(), ReorderError> {
        let event = event_of(change)?;
        self.stream(info, event);
        Ok(())
    }

    fn stream_truncate(
        &mut self,
        info: &TransactionInfo,
        truncate: &Truncate<'_>,
    ) -> Result<(), ReorderError> {
        self.stream(info, truncate_event(truncate));
        Ok(())
    }

    fn stream_message(
        &mut self,
        info: &TransactionInfo,
        message: &Message<'_>,
    ) -> Result<(), ReorderError> {
        self.stream(info, message_event(message));
        Ok(())
    }

    fn stream_abort(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        if info.xid == info.change_xid {
            self.streamed.remove(&info.xid.get()).expect("it was streamed");
        } else {
            let streamed = self.streamed.get_mut(&info.xid.get()).expect("it was streamed");
            streamed.retain(|(of, _)| *of != info.change_xid.get());
        }
        Ok(())
    }

    fn stream_commit(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        let events = self.streamed.remove(&info.xid.get()).expect("it was streamed");
        self.commit_events(info, events.into_iter().map(|(_, event)| event).collect());
        Ok(())
    }
}

fn event_of(change: &mut RowChange<'_>) -> Result<Event, ReorderError> {
    let cell = |value: ColumnValue<'_>| match value {
        ColumnValue::Null => Cell::Null,
        ColumnValue::Unchanged(pointer) => {
            Cell::Unchanged(pointer.value_id().expect("it is not direct").get())
        }
        ColumnValue::Value(bytes) => Cell::Bytes(bytes.into_owned()),
    };
    let columns = change.columns().len();
    let old = change
        .old()
        .map(|_| (0..columns).map(|at| change.old_value(at).map(cell)).collect())
        .transpose()?;
    let new = match change.new_row() {
        Some(_) => {
            let cells = (0..columns).map(|at| change.new_value(at).map(cell));
            Some(cells.collect::<Result<_, _>>()?)
        }
        None => None,
    };
    Ok(Event::Row { action: change.action(), old, new })
}

fn truncate_event(truncate: &Truncate<'_>) -> Event {
    let relations = truncate.relations.iter().map(|relation| relation.id().get()).collect();
    let Truncate { cascade, restart_identity, .. } = *truncate;
    Event::Truncate { relations, cascade, restart_identity }
}

fn message_event(message: &Message<'_>) -> Event {
    let Message { prefix, content } = *message;
    Event::Message { prefix: prefix.to_owned(), content: content.to_vec() }
}
