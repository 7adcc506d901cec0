//! Changes as lines of text, as the plugin `test_decoding` writes them.
//!
//! ```text
//! BEGIN
//! table public.t: INSERT: id[integer]:1 name[text]:'it''s'
//! table public.t: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 name[text]:unchanged-toast-datum
//! table public.t: DELETE: id[integer]:2
//! table public.t, public.u: TRUNCATE: cascade
//! message: transactional: 1 prefix: p, sz: 4 content:text
//! COMMIT
//! ```
//! Source: the output of `test_decoding` on servers 14 to 18.
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use pgtoast_base::Oid;

use crate::quote::{append_identifier, append_quoted};
use crate::{
    BuiltinText, BuiltinType, Column, ColumnValue, Message, Output, ReorderError, RowAction,
    RowChange, TransactionInfo, Truncate, ValueText,
};

/// What the lines say; the names are those of the plugin's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Transactions are named by their numbers.
    pub include_xids: bool,
    /// Transactions without a change are left out.
    pub skip_empty_xacts: bool,
    /// Transactions that are not over are taken, of which the lines say that something changed, and not what.
    pub stream_changes: bool,
    /// A message counts as a change. In servers before 17 it stands before the `BEGIN` of its transaction, or
    /// alone.
    pub messages_are_changes: bool,
}

impl Default for TextOptions {
    /// As with `include-xids=0` and `skip-empty-xacts=1`, on a server of 17 or 18.
    fn default() -> Self {
        Self {
            include_xids: false,
            skip_empty_xacts: true,
            stream_changes: false,
            messages_are_changes: true,
        }
    }
}

/// Writes transactions as lines of text. `F` is called with each line; `T` knows the types.
#[derive(Clone, Debug)]
pub struct TextOutput<F, T = BuiltinText> {
    options: TextOptions,
    types: T,
    line: F,
    /// Whether the transaction that is written has had a line.
    has_begun: bool,
    /// Whether the part that is streamed has had one.
    has_stream_begun: bool,
    /// The same of all transactions that were streamed and are not over.
    streamed: BTreeMap<u32, bool>,
    text: String,
}

impl<F: FnMut(&str)> TextOutput<F> {
    /// With types that every server has.
    pub fn new(options: TextOptions, line: F) -> Self {
        Self::with_types(options, BuiltinText, line)
    }
}

impl<F: FnMut(&str), T: ValueText> TextOutput<F, T> {
    /// With other types.
    pub fn with_types(options: TextOptions, types: T, line: F) -> Self {
        Self {
            options,
            types,
            line,
            has_begun: false,
            has_stream_begun: false,
            streamed: BTreeMap::new(),
            text: String::new(),
        }
    }

    /// A line that ends with the transaction's number, if those are wanted.
    fn with_xid(&mut self, line: &str, info: &TransactionInfo) {
        if self.options.include_xids {
            (self.line)(&format!("{line} {}", info.xid));
        } else {
            (self.line)(line);
        }
    }

    fn stream_line(&mut self, line: &str, info: &TransactionInfo) {
        if self.options.include_xids {
            (self.line)(&format!("{line} TXN {}", info.change_xid));
        } else {
            (self.line)(line);
        }
    }

    fn begin_if_not_yet(&mut self, info: &TransactionInfo) {
        if !self.has_begun {
            self.has_begun = true;
            self.with_xid("BEGIN", info);
        }
    }

    /// Something streamed changed a thing.
    fn stream_changed(&mut self, info: &TransactionInfo) {
        if !self.has_stream_begun {
            self.has_stream_begun = true;
            self.stream_opened(info);
        }
        self.streamed.insert(info.xid.get(), true);
    }

    fn stream_opened(&mut self, info: &TransactionInfo) {
        let info = TransactionInfo { change_xid: info.xid, ..*info };
        self.stream_line("opening a streamed block for transaction", &info);
    }

    fn append_row(&mut self, change: &mut RowChange<'_>, is_old: bool) -> Result<(), ReorderError> {
        for (index, column) in change.columns().iter().enumerate() {
            if column.attribute.is_dropped {
                continue;
            }
            let value = if is_old { change.old_value(index)? } else { change.new_value(index)? };
            // What is null in an old row is not known, or does not tell rows apart.
            if is_old && value == ColumnValue::Null {
                continue;
            }
            self.text.push(' ');
            append_identifier(&column.name, &mut self.text);
            self.text.push('[');
            self.text.push_str(&column.type_name);
            self.text.push_str("]:");
            self.append_value(column, &value)?;
        }
        Ok(())
    }

    fn append_value(
        &mut self,
        column: &Column,
        value: &ColumnValue<'_>,
    ) -> Result<(), ReorderError> {
        let bytes = match value {
            ColumnValue::Null => {
                self.text.push_str("null");
                return Ok(());
            }
            ColumnValue::Unchanged(_) => {
                self.text.push_str("unchanged-toast-datum");
                return Ok(());
            }
            ColumnValue::Value(bytes) => bytes,
        };
        match literal_of(column.type_id) {
            Literal::Bits => {
                let mut inner = String::new();
                self.types.append(column, bytes, &mut inner)?;
                self.text.push('B');
                append_quoted(&inner, '\'', &mut self.text);
            }
            Literal::Bool => {
                let is_true = bytes.first().is_some_and(|byte| *byte != 0);
                self.text.push_str(if is_true { "true" } else { "false" });
            }
            Literal::Plain => self.types.append(column, bytes, &mut self.text)?,
            Literal::Quoted => {
                let mut inner = String::new();
                self.types.append(column, bytes, &mut inner)?;
                append_quoted(&inner, '\'', &mut self.text);
            }
        }
        Ok(())
    }

    fn append_rows(&mut self, change: &mut RowChange<'_>) -> Result<(), ReorderError> {
        let (has_old, has_new) = (change.old().is_some(), change.new_row().is_some());
        match change.action() {
            RowAction::Delete if has_old => return self.append_row(change, true),
            RowAction::Insert | RowAction::Update if has_new => {
                if has_old {
                    self.text.push_str(" old-key:");
                    self.append_row(change, true)?;
                    self.text.push_str(" new-tuple:");
                }
                return self.append_row(change, false);
            }
            RowAction::Delete | RowAction::Insert => {}
            RowAction::Update => {
                if has_old {
                    self.text.push_str(" old-key:");
                    self.append_row(change, true)?;
                    self.text.push_str(" new-tuple:");
                }
            }
        }
        self.text.push_str(" (no-tuple-data)");
        Ok(())
    }
}

impl<F: FnMut(&str), T: ValueText> Output for TextOutput<F, T> {
    type Error = ReorderError;

    fn begin(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        self.has_begun = false;
        if !self.options.skip_empty_xacts {
            self.begin_if_not_yet(info);
        }
        Ok(())
    }

    fn change(
        &mut self,
        info: &TransactionInfo,
        change: &mut RowChange<'_>,
    ) -> Result<(), ReorderError> {
        self.begin_if_not_yet(info);
        self.text.clear();
        self.text.push_str("table ");
        append_identifier(change.relation().schema(), &mut self.text);
        self.text.push('.');
        append_identifier(change.relation().name(), &mut self.text);
        self.text.push_str(match change.action() {
            RowAction::Delete => ": DELETE:",
            RowAction::Insert => ": INSERT:",
            RowAction::Update => ": UPDATE:",
        });
        self.append_rows(change)?;
        (self.line)(&self.text);
        Ok(())
    }

    fn truncate(
        &mut self,
        info: &TransactionInfo,
        truncate: &Truncate<'_>,
    ) -> Result<(), ReorderError> {
        self.begin_if_not_yet(info);
        self.text.clear();
        self.text.push_str("table ");
        for (number, relation) in truncate.relations.iter().enumerate() {
            self.text.push_str(if number > 0 { ", " } else { "" });
            append_identifier(relation.schema(), &mut self.text);
            self.text.push('.');
            append_identifier(relation.name(), &mut self.text);
        }
        self.text.push_str(": TRUNCATE:");
        self.text.push_str(match (truncate.restart_identity, truncate.cascade) {
            (true, true) => " restart_seqs cascade",
            (true, false) => " restart_seqs",
            (false, true) => " cascade",
            (false, false) => " (no-flags)",
        });
        (self.line)(&self.text);
        Ok(())
    }

    fn message(
        &mut self,
        info: Option<&TransactionInfo>,
        message: &Message<'_>,
    ) -> Result<(), ReorderError> {
        if let Some(info) = info
            && self.options.messages_are_changes
        {
            self.begin_if_not_yet(info);
        }
        let line = message_line("message", info.is_some(), message, true)?;
        (self.line)(&line);
        Ok(())
    }

    fn commit(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        if self.has_begun {
            self.with_xid("COMMIT", info);
        }
        Ok(())
    }

    fn streams(&self) -> bool {
        self.options.stream_changes
    }

    fn stream_start(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        self.streamed.entry(info.xid.get()).or_default();
        self.has_stream_begun = !self.options.skip_empty_xacts;
        if self.has_stream_begun {
            self.stream_opened(info);
        }
        Ok(())
    }

    fn stream_change(
        &mut self,
        info: &TransactionInfo,
        _change: &mut RowChange<'_>,
    ) -> Result<(), ReorderError> {
        self.stream_changed(info);
        if self.options.include_xids {
            (self.line)(&format!("streaming change for TXN {}", info.change_xid));
        } else {
            (self.line)("streaming change for transaction");
        }
        Ok(())
    }

    fn stream_truncate(
        &mut self,
        info: &TransactionInfo,
        _truncate: &Truncate<'_>,
    ) -> Result<(), ReorderError> {
        self.stream_changed(info);
        if self.options.include_xids {
            (self.line)(&format!("streaming truncate for TXN {}", info.change_xid));
        } else {
            (self.line)("streaming truncate for transaction");
        }
        Ok(())
    }

    fn stream_message(
        &mut self,
        info: &TransactionInfo,
        message: &Message<'_>,
    ) -> Result<(), ReorderError> {
        if self.options.messages_are_changes {
            self.stream_changed(info);
        }
        let line = message_line("streaming message", true, message, false)?;
        (self.line)(&line);
        Ok(())
    }

    fn stream_stop(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        if self.has_stream_begun {
            let info = TransactionInfo { change_xid: info.xid, ..*info };
            self.stream_line("closing a streamed block for transaction", &info);
        }
        Ok(())
    }

    fn stream_abort(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        let xid = info.xid.get();
        let has_changed = self.streamed.get(&xid).copied().unwrap_or_default();
        if info.xid == info.change_xid {
            self.streamed.remove(&xid);
        }
        if has_changed || !self.options.skip_empty_xacts {
            self.stream_line("aborting streamed (sub)transaction", info);
        }
        Ok(())
    }

    fn stream_commit(&mut self, info: &TransactionInfo) -> Result<(), ReorderError> {
        let has_changed = self.streamed.remove(&info.xid.get()).unwrap_or_default();
        if has_changed || !self.options.skip_empty_xacts {
            self.stream_line("committing streamed transaction", info);
        }
        Ok(())
    }
}

/// How a literal is written.
enum Literal {
    Bits,
    Bool,
    Plain,
    Quoted,
}

/// By the column's type: a domain's values are quoted, whatever it is over.
fn literal_of(type_id: Oid) -> Literal {
    const PLAIN: [Oid; 7] = [
        BuiltinType::INT2.id,
        BuiltinType::INT4.id,
        BuiltinType::INT8.id,
        BuiltinType::OID.id,
        BuiltinType::FLOAT4.id,
        BuiltinType::FLOAT8.id,
        BuiltinType::NUMERIC.id,
    ];
    if PLAIN.contains(&type_id) {
        Literal::Plain
    } else if type_id == BuiltinType::BOOL.id {
        Literal::Bool
    } else if [BuiltinType::BIT.id, BuiltinType::VARBIT.id].contains(&type_id) {
        Literal::Bits
    } else {
        Literal::Quoted
    }
}

fn message_line(
    what: &str,
    is_transactional: bool,
    message: &Message<'_>,
    with_content: bool,
) -> Result<String, ReorderError> {
    let Message { prefix, content } = message;
    let (is_transactional, len) = (u8::from(is_transactional), content.len());
    let mut line = format!("{what}: transactional: {is_transactional} prefix: {prefix}, sz: {len}");
    if with_content {
        let text = core::str::from_utf8(content);
        let bad = |at| ReorderError::Type { type_id: BuiltinType::TEXT.id, at };
        line.push_str(" content:");
        line.push_str(text.map_err(|error| bad(error.valid_up_to()))?);
    }
    Ok(line)
}
