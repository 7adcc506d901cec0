//! `page/<operation>/<input>`: one page at a time.
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::Page;
use pgtoast_testkit::Rng;

fn checksum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page/checksum");
    for size in [BlockSize::KIB_1, BlockSize::KIB_8, BlockSize::KIB_32] {
        let bytes = Rng::new(1).bytes(size.bytes());
        let page = Page::new(&bytes, size).expect("as long as a block");
        group.throughput(Throughput::Bytes(size.bytes() as u64));
        group.bench_function(size.to_string(), |bencher| {
            bencher.iter(|| black_box(&page).checksum(BlockNumber::new(7)));
        });
    }
    group.finish();
}

fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page/parse");
    let zero = vec![0; BlockSize::KIB_8.bytes()];
    group.bench_function("zero", |bencher| {
        bencher.iter(|| Page::parse(black_box(&zero), BlockSize::KIB_8).is_ok());
    });
    group.finish();
}

criterion_group!(benches, checksum, parse);
criterion_main!(benches);
