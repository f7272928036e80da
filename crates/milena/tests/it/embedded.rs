// A broker in this process, for examples that run. The getting-started text includes this file too, so it has no inner
// doc comment.

use std::collections::BTreeMap;

use milena_broker::Broker;
use milena_wire::{
    frame,
    message::Request,
    messages::{CreateTopicsRequest, ProduceRequest, create_topics_request, produce_request},
    records::{BatchBuilder, BatchOptions, NewRecord},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const ANSWER_BYTES_MAX: usize = 1 << 20;

pub struct Embedded {
    broker: Broker,
    _directory: TempDir,
}

impl Embedded {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings = BTreeMap::from([
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("log.dirs", directory.path().to_str().unwrap()),
        ]);
        Self {
            broker: Broker::start(settings).await.unwrap(),
            _directory: directory,
        }
    }

    pub fn address(&self) -> String {
        self.broker.address().to_string()
    }

    pub async fn create_topic(&self, name: &str, partitions: i32) {
        let topic = create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            ..Default::default()
        };
        let response = self.call(&request, 7).await;
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    /// Produces all values as one batch, with this timestamp in milliseconds since 1970.
    pub async fn produce(&self, topic: &str, partition: i32, timestamp: i64, values: &[&str]) {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        for value in values {
            let record = NewRecord {
                timestamp,
                key: None,
                value: Some(value.as_bytes()),
                headers: &[],
            };
            batch.append(&record).unwrap();
        }
        let partition = produce_request::PartitionProduceData {
            index: partition,
            records: Some(batch.finish()),
            ..Default::default()
        };
        let topic = produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![partition],
            ..Default::default()
        };
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        let response = self.call(&request, 12).await;
        assert_eq!(
            response.responses[0].partition_responses[0].error_code, 0,
            "{response:?}"
        );
    }

    async fn call<R: Request>(&self, request: &R, version: i16) -> R::Response {
        let mut stream = TcpStream::connect(self.broker.address()).await.unwrap();
        let request = frame::encode_request(request, version, 1, None).unwrap();
        stream.write_all(&request.into_bytes()).await.unwrap();
        let mut prefix = [0; frame::LENGTH_SIZE];
        stream.read_exact(&mut prefix).await.unwrap();
        let mut answer = vec![0; frame::frame_length(prefix, ANSWER_BYTES_MAX).unwrap()];
        stream.read_exact(&mut answer).await.unwrap();
        frame::decode_response::<R::Response>(&answer.into(), version)
            .unwrap()
            .1
    }
}
