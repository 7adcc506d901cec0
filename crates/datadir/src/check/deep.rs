//! Compressed values, decompressed.
use pgtoast_base::{ItemPointer, Oid8};
use pgtoast_codec::COMPRESSION_INFO_LEN;
use pgtoast_page::Page;
use pgtoast_toast::{ChunkSize, ValueIdWidth, ValueScan, page_chunks};
use pgtoast_varlena::ToastPointer;

use super::report::Report;
use super::target::Target;
use super::{ColumnName, Coverage, Finding, FindingKind, Readable};

/// Pointers to compressed values whose chunks are all there. When there are many of them, one pass over
/// the TOAST relation decompresses all.
pub(super) struct DeepQueue<'a, 'r> {
    toast: &'a Target,
    table: &'a Target,
    report: &'a Report<'r>,
    chunk_size: ChunkSize,
    waiting: Vec<Waiting>,
    most: usize,
}

struct Waiting {
    value_id: Oid8,
    pointer: ToastPointer,
    tid: ItemPointer,
    column: Option<ColumnName>,
}

impl<'a, 'r> DeepQueue<'a, 'r> {
    pub(super) const fn new(
        toast: &'a Target,
        table: &'a Target,
        report: &'a Report<'r>,
        chunk_size: ChunkSize,
        most: usize,
    ) -> Self {
        Self { toast, table, report, chunk_size, waiting: Vec::new(), most }
    }

    pub(super) fn push(
        &mut self,
        pointer: ToastPointer,
        tid: ItemPointer,
        column: Option<ColumnName>,
        coverage: &mut Coverage,
    ) {
        let Some(value_id) = pointer.value_id() else { return };
        self.waiting.push(Waiting { value_id, pointer, tid, column });
        if self.waiting.len() >= self.most {
            self.flush(coverage);
        }
    }

    /// Decompresses all that wait.
    pub(super) fn flush(&mut self, coverage: &mut Coverage) {
        let mut waiting = core::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        waiting.sort_by_key(|one| one.value_id);
        let pointers = waiting.iter().map(|one| one.pointer);
        let Ok(mut scan) = ValueScan::new(pointers, self.chunk_size) else { return };
        let mut raw = Vec::new();
        let mut blocks = self.toast.fork.all_blocks();
        while let Some(next) = blocks.next() {
            let Ok((block, bytes)) = next else { continue };
            coverage.bytes += bytes.len() as u64;
            let Ok(page) = Page::parse(bytes, self.toast.fork.block_size()) else { continue };
            if page.is_new() {
                continue;
            }
            for chunk in page_chunks(&page, block, ValueIdWidth::Oid).flatten() {
                // What is wrong with chunks was told when they were counted.
                let _ = scan.accept(&chunk, |pointer, stored| {
                    coverage.decompressed += 1;
                    if let Err(kind) = decompress(pointer, stored, &mut raw) {
                        self.tell(&waiting, pointer, kind);
                    }
                });
            }
        }
        waiting.clear();
        self.waiting = waiting;
    }

    /// Tells it of each row that leads to the value.
    #[cold]
    fn tell(&self, waiting: &[Waiting], pointer: &ToastPointer, kind: FindingKind) {
        let value_id = pointer.value_id();
        let start = waiting.partition_point(|one| Some(one.value_id) < value_id);
        let these = waiting[start..].iter().take_while(|one| Some(one.value_id) == value_id);
        for one in these {
            let readable = Readable::OtherColumns;
            let finding = self.table.of_item(one.tid, kind, readable);
            self.report.tell(Finding { column: one.column.clone(), value_id, ..finding });
        }
    }
}

fn decompress(pointer: &ToastPointer, stored: &[u8], raw: &mut Vec<u8>) -> Result<(), FindingKind> {
    let Ok(Some(method)) = pointer.compression() else { return Ok(()) };
    let Ok(raw_len) = pointer.raw_payload_len() else { return Ok(()) };
    let stream = stored.get(COMPRESSION_INFO_LEN..).unwrap_or_default();
    // The buffer grows only for streams that can fill it.
    if raw_len <= pgtoast_codec::maximum_raw_len(method, stream.len()) {
        raw.resize(raw_len, 0);
        let result = pgtoast_codec::decompress(method, stream, raw);
        return result.map_err(|error| FindingKind::Decompress { error });
    }
    match pgtoast_codec::decompress_to_vec(method, stream, raw_len) {
        Ok(_) => Ok(()),
        Err(error) => Err(FindingKind::Decompress { error }),
    }
}
