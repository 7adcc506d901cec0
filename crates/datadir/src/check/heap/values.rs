//! The attributes of rows, and the values that they lead to.
use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_page::{Attribute, Datum, HeapTuple, Infomask, TupleDescriptor, TupleError, Value};
use pgtoast_varlena::{CompressionMethod, MAX_DATUM_LEN, ToastPointer, Varlena};

use super::super::columns_plan::{ColumnsPlan, Found};
use super::super::statuses::Fate;
use super::super::{Coverage, Finding, FindingKind, Readable};
use super::headers::RowFate;
use super::{HeapCheck, Rows};

impl HeapCheck<'_, '_> {
    /// The attributes of a row.
    #[inline]
    pub(super) fn row(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        plan: &ColumnsPlan<'_>,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        if !plan.walk(tuple, &mut self.found) {
            return self.broken_row(tid, tuple, plan, row, coverage);
        }
        for index in 0..self.found.len() {
            let Found { number, offset, len } = self.found[index];
            if let Some(bytes) = tuple.bytes().get(offset..offset + len) {
                self.datum(tid, tuple, number, &Datum { bytes, offset }, row, coverage);
            }
        }
    }

    /// A row with a broken attribute: says which, and judges what comes before it.
    #[cold]
    fn broken_row(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        plan: &ColumnsPlan<'_>,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        // A table has no more columns than a descriptor takes.
        let Ok(descriptor) = TupleDescriptor::new(&plan.attributes) else { return };
        let attributes = match tuple.deform(descriptor) {
            Ok(attributes) => attributes,
            // Somebody who adds a column in a transaction that goes on makes rows that are ahead of
            // the catalogs.
            Err(TupleError::AttributeCount { .. }) if row.inserted == Fate::InProgress => return,
            Err(error) => {
                self.broken += 1;
                return self.first_pass_only(|check| {
                    let kind = FindingKind::Tuple(error);
                    check.target.of_item(tid, kind, Readable::OtherItems)
                });
            }
        };
        self.broken += 1;
        let mut fault = None;
        for attribute in attributes {
            match attribute {
                Ok(Attribute { number, value: Value::Stored(datum), .. }) => {
                    if plan.varlenas.contains(&(number - 1)) {
                        self.datum(tid, tuple, number, &datum, row, coverage);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        let Some(error) = fault else { return };
        self.first_pass_only(|check| {
            let kind = FindingKind::Tuple(error);
            let number = attribute_of(error);
            let name = number.and_then(|number| check.columns?.name(number));
            match (number, name) {
                (Some(number), Some(name)) => {
                    let readable = Readable::ColumnsBefore(number);
                    check.target.of_column(tid, name, kind, readable)
                }
                _ => check.target.of_item(tid, kind, Readable::OtherItems),
            }
        });
    }

    /// A value that is compressed or out of line.
    fn datum(
        &mut self,
        tid: ItemPointer,
        tuple: &HeapTuple<'_>,
        number: u16,
        datum: &Datum<'_>,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        let kind = match datum.varlena() {
            Ok(Varlena::External(pointer)) => {
                let is_flagged = tuple.header().infomask().contains(Infomask::HAS_EXTERNAL);
                return self.external(tid, number, &pointer, is_flagged, row, coverage);
            }
            Ok(Varlena::Compressed(compressed)) => {
                let (raw_len, bits) = (compressed.info.len(), compressed.info.word() >> 30);
                #[expect(clippy::cast_possible_truncation, reason = "two bits, and thirty")]
                let (bits, raw_len_32) = (bits as u8, raw_len as u32);
                let stream_len = compressed.stream.len();
                let is_possible = CompressionMethod::from_bits(bits).is_some_and(|method| {
                    raw_len <= pgtoast_codec::maximum_raw_len(method, stream_len)
                });
                if is_possible {
                    let method = CompressionMethod::from_bits(bits);
                    let deep = match &self.rows {
                        Rows::Values(values) => values.deep.as_ref(),
                        _ => None,
                    };
                    let error = match (deep, method) {
                        (Some(_), Some(method)) if self.is_first_pass => {
                            coverage.decompressed += 1;
                            pgtoast_codec::decompress_to_vec(method, compressed.stream, raw_len)
                                .err()
                        }
                        _ => None,
                    };
                    let Some(error) = error else { return };
                    FindingKind::Decompress { error }
                } else {
                    FindingKind::InlineCompression { raw_len: raw_len_32, bits }
                }
            }
            Ok(_) => return,
            Err(error) => FindingKind::Varlena(error),
        };
        self.first_pass_only(|check| {
            check.of_value(tid, number, None, kind, Readable::OtherColumns)
        });
    }

    fn of_value(
        &self,
        tid: ItemPointer,
        number: u16,
        value_id: Option<Oid8>,
        kind: FindingKind,
        readable: Readable,
    ) -> Finding {
        let column = self.columns.and_then(|plan| plan.name(number));
        Finding { column, value_id, ..self.target.of_item(tid, kind, readable) }
    }

    /// A pointer to a value.
    fn external(
        &mut self,
        tid: ItemPointer,
        number: u16,
        pointer: &ToastPointer,
        is_flagged: bool,
        row: RowFate,
        coverage: &mut Coverage,
    ) {
        let value_id = pointer.value_id();
        let is_first_pass = self.is_first_pass;
        let is_living = row.ended != Fate::Committed;
        let fault = pointer_fault(pointer).or(match &self.rows {
            Rows::Plain { toast: None } => Some(FindingKind::ToastRelationMissing),
            _ if !is_flagged => Some(FindingKind::ExternalUnflagged),
            _ => None,
        });
        if is_first_pass && let Some(kind) = fault {
            let readable = match kind {
                FindingKind::ExternalUnflagged => Readable::All,
                _ => Readable::OtherColumns,
            };
            self.tell(self.of_value(tid, number, value_id, kind, readable));
        }
        let ToastPointer::Oid(_) = pointer else { return };
        let Rows::Values(values) = &mut self.rows else { return };
        if is_first_pass && pointer.toast_rel_id() != values.toast && is_living {
            let (found, expected) = (pointer.toast_rel_id(), values.toast);
            let kind = FindingKind::PointerRelation { found, expected };
            let column = self.columns.and_then(|plan| plan.name(number));
            let finding = self.target.of_item(tid, kind, Readable::All);
            self.report.tell(Finding { column, value_id, ..finding });
        }
        let id = value_id.map_or(0, Oid8::get);
        if id < values.start || id >= values.end {
            return;
        }
        let Ok(id) = u32::try_from(id) else { return };
        let runs = values.table.find(id, &mut values.hint);
        // A dead version may outlive its chunks, which are vacuumed apart.
        if !is_living {
            coverage.dead_values += 1;
            return;
        }
        coverage.values += 1;
        if fault.is_some_and(|kind| !matches!(kind, FindingKind::ExternalUnflagged)) {
            return;
        }
        // Rows of a transaction that is not over may be ahead of their chunks where the log has not
        // been replayed.
        if row.inserted == Fate::InProgress && !self.statuses.bounds.is_known() {
            return;
        }
        match values.table.judge(pointer, runs) {
            // Who deletes the row deletes its chunks, and both go on.
            Some(verdict)
                if verdict.kind == FindingKind::ChunkDeleted && row.ended != Fate::Undone => {}
            Some(verdict) => {
                self.tell(self.of_value(tid, number, value_id, verdict.kind, verdict.readable));
            }
            None => {
                if let Some(deep) = &mut values.deep
                    && pointer.is_compressed()
                {
                    let column = self.columns.and_then(|plan| plan.name(number));
                    deep.push(*pointer, tid, column, coverage);
                }
            }
        }
    }
}

/// What is wrong with a pointer by itself.
fn pointer_fault(pointer: &ToastPointer) -> Option<FindingKind> {
    let ToastPointer::Oid(_) = pointer else { return Some(FindingKind::PointerKind) };
    let raw_len = pointer.raw_len();
    let stored_len = u32::try_from(pointer.stored_len()).unwrap_or(u32::MAX);
    if usize::try_from(raw_len).is_ok_and(|raw_len| raw_len > MAX_DATUM_LEN) {
        return Some(FindingKind::RawLength { raw_len });
    }
    // What is stored is the raw value without its header, or less.
    let is_possible = stored_len != 0 && i64::from(stored_len) <= i64::from(raw_len) - 4;
    if !is_possible {
        return Some(FindingKind::PointerLengths { raw_len, stored_len });
    }
    let bits = (pointer.ext_info().word() >> 30) as u8;
    let is_known = !pointer.is_compressed() || CompressionMethod::from_bits(bits).is_some();
    (!is_known).then_some(FindingKind::CompressionMethod { bits })
}

pub(super) const fn attribute_of(error: TupleError) -> Option<u16> {
    match error {
        TupleError::AttributeEnd { attribute, .. }
        | TupleError::AttributeStart { attribute, .. }
        | TupleError::AttributeUnreachable { attribute, .. }
        | TupleError::Unterminated { attribute, .. }
        | TupleError::Varlena { attribute, .. } => Some(attribute),
        _ => None,
    }
}
