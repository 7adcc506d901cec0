//! A pointer may claim a gigabyte. Alone in its process: other tests' threads would take addresses too.
#![cfg(target_os = "linux")]
mod common;

use common::{Listed, VALUE_ID, noise, pointer_to};
use pgtoast_base::Oid8;
use pgtoast_codec::CompressionMethod;
use pgtoast_toast::{ByteSlice, Chunk, ChunkOrder, ChunkPlan, ChunkSize, Collector, Detoaster};
use pgtoast_varlena::Varlena;

const ID: Oid8 = Oid8::new(VALUE_ID as u64);

/// The most memory the process ever had addresses for, in bytes.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find(|line| line.starts_with("VmPeak:")).expect("a peak");
    let kilobytes = line.split_whitespace().nth(1).expect("a number");
    kilobytes.parse::<usize>().expect("a number") * 1024
}

#[test]
fn a_claimed_gigabyte_takes_no_more_memory_than_the_chunks_that_come() {
    let len = (1 << 30) - 5;
    let pointer = pointer_to(len, len, CompressionMethod::Pglz);
    let plan = ChunkPlan::new(&pointer, ChunkSize::default()).unwrap();
    let before = peak_bytes();
    let data = noise(1996);
    let last = i32::try_from(plan.chunk_count() - 2).unwrap();
    for order in [ChunkOrder::Index, ChunkOrder::Any] {
        for seqs in [vec![0x6032_e974], vec![last], vec![last, 1, last - 1, 0], vec![0, 1, last]] {
            let mut collector = Collector::new(plan, order);
            let mut chunks =
                seqs.iter().map(|&seq| Chunk { value_id: ID, seq, data: &data, tid: None });
            let verdict = chunks.try_for_each(|chunk| collector.accept(&chunk));
            assert!(verdict.is_err() || collector.finish().is_err());
        }
        let chunk = Chunk { value_id: ID, seq: last, data: &data, tid: None };
        let mut source = Detoaster::new(Listed::new(vec![chunk], order), ChunkSize::default());
        let datum = Varlena::External(pointer);
        assert!(source.detoast(&datum).is_err());
        assert!(source.slice_bytes(&datum, ByteSlice { offset: 5, len: None }).is_err());
    }
    let grown = peak_bytes() - before;
    assert!(grown < 64 << 20, "{grown} bytes for a few chunks");
}
