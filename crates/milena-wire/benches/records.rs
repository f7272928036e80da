//! Record batches of 1 MiB: reading (CRC and index) and building, beside a copy of the same bytes.
//!
//! `cargo bench -p milena-wire --bench records`

use bytes::Bytes;
use divan::{AllocProfiler, Bencher, counter::BytesCount, counter::ItemsCount};
use milena_wire::{
    compression::{Codec, Compression, Compressor},
    pool::BufferPool,
    records::{Batch, BatchBuilder, BatchOptions, Batches, Header, NewRecord, RecordDecoder, RecordSet},
};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const BATCH_SIZE: usize = 1 << 20;

#[derive(Clone, Copy)]
enum Shape {
    Value100,
    Value1000,
    Value100Headers2,
}

const SHAPES: [Shape; 3] = [Shape::Value100, Shape::Value1000, Shape::Value100Headers2];

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Value100 => "100 B",
            Self::Value1000 => "1000 B",
            Self::Value100Headers2 => "100 B, 2 headers",
        })
    }
}

impl Shape {
    fn value_size(self) -> usize {
        match self {
            Self::Value1000 => 1000,
            Self::Value100 | Self::Value100Headers2 => 100,
        }
    }

    fn headers(self) -> Vec<Header<'static>> {
        match self {
            Self::Value100Headers2 => vec![Header::new("trace-id", b"0123456789"), Header::new("kind", b"order")],
            Self::Value100 | Self::Value1000 => vec![],
        }
    }
}

/// Values that compress about as well as JSON does.
fn values(shape: Shape) -> Vec<Vec<u8>> {
    let mut seed = 1u64;
    let words = [
        "customer",
        "\"order\":",
        "2026-11-15",
        "amount",
        "EUR",
        "{\"id\":",
        "pending",
        "shipped",
    ];
    (0..64)
        .map(|_| {
            let mut value = Vec::new();
            while value.len() < shape.value_size() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                value.extend_from_slice(words[(seed >> 60) as usize % words.len()].as_bytes());
                value.extend_from_slice((seed >> 44).to_string().as_bytes());
            }
            value.truncate(shape.value_size());
            value
        })
        .collect()
}

/// Appends records until the batch has its size.
fn fill(builder: &mut BatchBuilder, values: &[Vec<u8>], headers: &[Header<'_>]) {
    let mut key = [b'k', 0, 0, 0, 0, 0, 0, 0];
    for (count, value) in (0u32..).zip(values.iter().cycle()) {
        if builder.size() + value.len() + 64 > BATCH_SIZE {
            return;
        }
        key[4..].copy_from_slice(&count.to_be_bytes());
        let record = NewRecord {
            timestamp: 1_700_000_000_000 + i64::from(count / 100),
            key: Some(&key),
            value: Some(value),
            headers,
        };
        builder.append(&record).expect("a record fits");
    }
}

fn built(shape: Shape) -> (Bytes, usize) {
    let mut builder = BatchBuilder::with_buffer(BatchOptions::default(), Vec::with_capacity(BATCH_SIZE));
    fill(&mut builder, &values(shape), &shape.headers());
    let count = builder.record_count() as usize;
    (builder.finish(), count)
}

fn only_batch(bytes: Bytes) -> Batch {
    Batches::new(bytes).next().expect("one batch").expect("a good one")
}

#[divan::bench(args = SHAPES)]
fn copy(bencher: Bencher<'_, '_>, shape: Shape) {
    let (bytes, count) = built(shape);
    let mut target = vec![0; bytes.len()];
    bencher
        .counter(ItemsCount::new(count))
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| divan::black_box(&mut target[..]).copy_from_slice(divan::black_box(&bytes)));
}

#[divan::bench(args = SHAPES)]
fn crc(bencher: Bencher<'_, '_>, shape: Shape) {
    let (bytes, count) = built(shape);
    let batch = only_batch(bytes.clone());
    bencher
        .counter(ItemsCount::new(count))
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| divan::black_box(&batch).verify());
}

#[divan::bench(args = SHAPES)]
fn crc_and_index(bencher: Bencher<'_, '_>, shape: Shape) {
    let (bytes, count) = built(shape);
    let batch = only_batch(bytes.clone());
    let mut decoder = RecordDecoder::new(BufferPool::new(0), BATCH_SIZE);
    let mut set = RecordSet::default();
    bencher
        .counter(ItemsCount::new(count))
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| {
            divan::black_box(&batch).verify().expect("a good checksum");
            batch
                .decode_into(&mut decoder, divan::black_box(&mut set))
                .expect("good records");
        });
}

#[divan::bench(args = SHAPES)]
fn build(bencher: Bencher<'_, '_>, shape: Shape) {
    let (bytes, count) = built(shape);
    let values = values(shape);
    let headers = shape.headers();
    let mut buffer = Vec::with_capacity(BATCH_SIZE);
    bencher
        .counter(ItemsCount::new(count))
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| {
            // A producer reuses its buffers, so page faults of fresh memory are not part of this.
            let mut builder = BatchBuilder::with_buffer(BatchOptions::default(), std::mem::take(&mut buffer));
            fill(&mut builder, &values, &headers);
            buffer = Vec::from(divan::black_box(builder.finish()));
        });
}

#[divan::bench(args = Codec::ALL)]
fn decode_compressed(bencher: Bencher<'_, '_>, codec: Codec) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    fill(&mut builder, &values(Shape::Value100), &[]);
    let (count, size) = (builder.record_count() as usize, builder.size());
    let mut compressor = Compressor::new(Compression::from(codec));
    let (bytes, _) = builder.finish_compressed(&mut compressor).expect("it compresses");
    let batch = only_batch(bytes);
    let mut decoder = RecordDecoder::new(BufferPool::new(4 * BATCH_SIZE), 2 * BATCH_SIZE);
    let mut set = RecordSet::default();
    bencher
        .counter(ItemsCount::new(count))
        .counter(BytesCount::new(size))
        .bench_local(|| {
            divan::black_box(&batch).verify().expect("a good checksum");
            batch
                .decode_into(&mut decoder, divan::black_box(&mut set))
                .expect("good records");
        });
}
