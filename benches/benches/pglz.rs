//! `pglz/<operation>/<input>`: a megabyte of distinct values a pass.
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pgtoast_benches::corpora::Corpus;
use pgtoast_pglz::{Compressor, Strategy, decompress, maximum_output_size};

const LEN: usize = 16 << 10;
const TOTAL: usize = 1 << 20;

fn compress(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pglz/compress");
    group.sample_size(20);
    let mut compressor = Compressor::new();
    let mut target = vec![0; maximum_output_size(LEN)];
    for corpus in Corpus::ALL {
        let values = corpus.values(LEN, TOTAL);
        group.throughput(Throughput::Bytes((values.len() * LEN) as u64));
        group.bench_function(corpus.name(), |bencher| {
            bencher.iter(|| {
                for value in &values {
                    let stream = compressor.compress(value, &Strategy::DEFAULT, &mut target);
                    black_box(stream.is_ok());
                }
            });
        });
    }
    group.finish();
}

fn decompress_whole(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pglz/decompress");
    let mut compressor = Compressor::new();
    let mut target = vec![0; LEN];
    for corpus in Corpus::ALL {
        let values = corpus.values(LEN, TOTAL);
        let streams =
            values.iter().map(|value| compressor.compress_to_vec(value, &Strategy::ALWAYS));
        let streams: Vec<_> = streams.flatten().collect();
        group.throughput(Throughput::Bytes((streams.len() * LEN) as u64));
        group.bench_function(corpus.name(), |bencher| {
            bencher.iter(|| {
                for stream in &streams {
                    black_box(decompress(stream, &mut target).is_ok());
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, compress, decompress_whole);
criterion_main!(benches);
