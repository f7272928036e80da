//! The messages that every record passes through, and the one that describes a cluster, with 1 and with 100 partitions,
//! beside a copy of the same bytes.
//!
//! `cargo bench -p milena-wire --bench messages`

use bytes::Bytes;
use divan::{AllocProfiler, Bencher, counter::BytesCount};
use milena_wire::{
    Uuid, frame,
    message::{Message, Request, Response},
    messages::{self, FetchRequest, FetchResponse, MetadataResponse, ProduceRequest, ProduceResponse},
};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const PARTITIONS: [usize; 2] = [1, 100];
const TOPIC: Uuid = Uuid::from_bytes([7; 16]);
/// Record data of a partition, passed along by reference.
const RECORDS: Bytes = Bytes::from_static(&[7; 1024]);

fn partitions<T>(count: usize, partition: impl Fn(i32) -> T) -> Vec<T> {
    (0..count as i32).map(partition).collect()
}

fn fetch_request(count: usize) -> FetchRequest {
    FetchRequest {
        topics: vec![messages::fetch_request::FetchTopic {
            topic_id: TOPIC,
            partitions: partitions(count, |partition| messages::fetch_request::FetchPartition {
                partition,
                fetch_offset: 1_000_000,
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn fetch_response(count: usize) -> FetchResponse {
    FetchResponse {
        responses: vec![messages::fetch_response::FetchableTopicResponse {
            topic_id: TOPIC,
            partitions: partitions(count, |partition_index| messages::fetch_response::PartitionData {
                partition_index,
                records: Some(RECORDS),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn produce_request(count: usize) -> ProduceRequest {
    ProduceRequest {
        topic_data: vec![messages::produce_request::TopicProduceData {
            topic_id: TOPIC,
            partition_data: partitions(count, |index| messages::produce_request::PartitionProduceData {
                index,
                records: Some(RECORDS),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn produce_response(count: usize) -> ProduceResponse {
    ProduceResponse {
        responses: vec![messages::produce_response::TopicProduceResponse {
            topic_id: TOPIC,
            partition_responses: partitions(count, |index| messages::produce_response::PartitionProduceResponse {
                index,
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn metadata_response(count: usize) -> MetadataResponse {
    MetadataResponse {
        topics: vec![messages::metadata_response::MetadataResponseTopic {
            name: Some("orders".into()),
            topic_id: TOPIC,
            partitions: partitions(count, |partition_index| {
                messages::metadata_response::MetadataResponsePartition {
                    partition_index,
                    replica_nodes: vec![1, 2, 3],
                    isr_nodes: vec![1, 2, 3],
                    ..Default::default()
                }
            }),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn decode<M: Message>(bencher: Bencher<'_, '_>, message: &M) {
    let bytes = message.encode(M::VERSIONS.max).expect("it encodes");
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench(|| M::decode(divan::black_box(&bytes), M::VERSIONS.max));
}

fn encode_request<R: Request + Sync>(bencher: Bencher<'_, '_>, request: &R) {
    let size = request.size(R::VERSIONS.max).expect("it encodes");
    bencher
        .counter(BytesCount::new(size))
        .bench(|| frame::encode_request(divan::black_box(request), R::VERSIONS.max, 1, None));
}

fn encode_response<R: Response + Sync>(bencher: Bencher<'_, '_>, response: &R) {
    let size = response.size(R::VERSIONS.max).expect("it encodes");
    bencher
        .counter(BytesCount::new(size))
        .bench(|| frame::encode_response(divan::black_box(response), R::VERSIONS.max, 1));
}

fn copy<M: Message>(bencher: Bencher<'_, '_>, message: &M) {
    let bytes = message.encode(M::VERSIONS.max).expect("it encodes");
    let mut target = vec![0; bytes.len()];
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| divan::black_box(&mut target[..]).copy_from_slice(divan::black_box(&bytes)));
}

macro_rules! message {
    ($name:ident, $encode:ident) => {
        mod $name {
            use super::*;

            #[divan::bench(args = PARTITIONS)]
            fn copy(bencher: Bencher<'_, '_>, partitions: usize) {
                super::copy(bencher, &super::$name(partitions));
            }

            #[divan::bench(args = PARTITIONS)]
            fn decode(bencher: Bencher<'_, '_>, partitions: usize) {
                super::decode(bencher, &super::$name(partitions));
            }

            #[divan::bench(args = PARTITIONS)]
            fn encode(bencher: Bencher<'_, '_>, partitions: usize) {
                super::$encode(bencher, &super::$name(partitions));
            }
        }
    };
}

message!(fetch_request, encode_request);
message!(fetch_response, encode_response);
message!(produce_request, encode_request);
message!(produce_response, encode_response);
message!(metadata_response, encode_response);
