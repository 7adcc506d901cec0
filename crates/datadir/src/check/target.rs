//! A fork that is being checked, and how its findings are located.
use std::sync::Arc;

use pgtoast_base::{BlockNumber, ItemPointer, OffsetNumber};

use super::{ColumnName, Finding, FindingKind, Readable, Subject};
use crate::{RelationFork, Source};

/// A fork that is being checked.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) subject: Arc<Subject>,
    pub(super) source: Arc<dyn Source>,
    pub(super) fork: RelationFork,
    pub(super) has_checksums: bool,
    /// Whether its pages have line pointers to tuples and no special space.
    pub(super) is_heap: bool,
    /// Whether a page that looks broken is read again: somebody may have been writing it.
    pub(super) is_online: bool,
}

impl Target {
    /// Of the fork as a whole.
    pub(super) fn of_file(&self, kind: FindingKind, readable: Readable) -> Finding {
        Finding {
            subject: Arc::clone(&self.subject),
            file: self.fork.file(),
            block: None,
            item: None,
            column: None,
            value_id: None,
            kind,
            readable,
        }
    }

    pub(super) fn of_block(
        &self,
        block: BlockNumber,
        kind: FindingKind,
        readable: Readable,
    ) -> Finding {
        let file = self.fork.place(block).0;
        Finding { file, block: Some(block), ..self.of_file(kind, readable) }
    }

    pub(super) fn of_item(
        &self,
        tid: ItemPointer,
        kind: FindingKind,
        readable: Readable,
    ) -> Finding {
        Finding { item: Some(tid.item), ..self.of_block(tid.block, kind, readable) }
    }

    pub(super) fn of_item_number(
        &self,
        block: BlockNumber,
        item: u16,
        kind: FindingKind,
        readable: Readable,
    ) -> Finding {
        self.of_item(ItemPointer::new(block, OffsetNumber::new(item)), kind, readable)
    }

    pub(super) fn of_column(
        &self,
        tid: ItemPointer,
        column: ColumnName,
        kind: FindingKind,
        readable: Readable,
    ) -> Finding {
        Finding { column: Some(column), ..self.of_item(tid, kind, readable) }
    }
}
