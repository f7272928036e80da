//! A broker in this process, and a client of it that works on frames only.

use std::{
    fmt::Debug,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use milena_wire::{
    Uuid,
    api::ApiKey,
    compression::{Codec, Compression, Compressor},
    frame::{self, Frame},
    message::{Message, Request},
    messages::*,
    pool::BufferPool,
    records::{BatchBuilder, BatchOptions, Batches, NewRecord, RecordDecoder, RecordSet},
};

pub struct Client {
    stream: Box<dyn Stream>,
    /// The socket of the stream, unless it has TLS.
    socket: Option<TcpStream>,
    correlation_id: i32,
    pub client_id: &'static str,
}

/// A socket, or TLS on it.
pub trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

impl Client {
    /// A client on a stream that is connected already.
    #[allow(dead_code, reason = "for tests with TLS")]
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            socket: None,
            correlation_id: 0,
            client_id: "tests",
        }
    }

    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self {
            socket: Some(stream.try_clone().unwrap()),
            stream: Box::new(stream),
            correlation_id: 0,
            client_id: "tests",
        }
    }

    /// Connects and logs in with SASL/PLAIN.
    #[allow(dead_code, reason = "for tests with secured listeners")]
    pub fn log_in(address: &str, user: &str, password: &str) -> Self {
        let mut client = Self::connect(address);
        let request = SaslHandshakeRequest {
            mechanism: "PLAIN".into(),
        };
        let response = client.call(&request, 1);
        assert_eq!(response.error_code, 0, "{response:?}");
        let request = SaslAuthenticateRequest {
            auth_bytes: format!("\0{user}\0{password}").into(),
            ..Default::default()
        };
        let response = client.call(&request, 2);
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        client
    }

    pub fn call<R: Request<Response: Debug>>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version);
        self.receive::<R>(version)
    }

    /// Like `call`; `None` if the broker is gone.
    #[allow(dead_code, reason = "for the tests of the binary, which kill it")]
    pub fn try_call<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        self.correlation_id += 1;
        let frame = frame::encode_request(request, version, self.correlation_id, None).unwrap();
        self.stream.write_all(&frame.into_bytes()).ok()?;
        let response = self.receive_frame()?;
        Some(frame::decode_response::<R::Response>(&response, version).unwrap().1)
    }

    pub fn send<R: Request>(&mut self, request: &R, version: i16) {
        self.correlation_id += 1;
        let frame = frame::encode_request(request, version, self.correlation_id, Some(&self.client_id.into())).unwrap();
        self.send_frame(frame);
    }

    fn send_frame(&mut self, frame: Frame) {
        self.send_bytes(&frame.into_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next response, which must have no bytes left over.
    pub fn receive<R: Request<Response: Debug>>(&mut self, version: i16) -> R::Response {
        let frame = self
            .receive_frame()
            .unwrap_or_else(|| panic!("{} version {version}: closed", R::NAME));
        let (_, response) = frame::decode_response::<R::Response>(&frame, version)
            .unwrap_or_else(|error| panic!("{} version {version}: {error}", R::NAME));
        let header = if R::KEY.response_header_version(version) == 0 {
            4
        } else {
            5
        };
        assert_eq!(
            frame.len(),
            header + response.size(version).unwrap(),
            "{} version {version}",
            R::NAME
        );
        check_error_messages::<R>(version, &response);
        response
    }

    /// The next response as bytes; `None` if the broker has closed the connection.
    pub fn receive_frame(&mut self) -> Option<Bytes> {
        let mut prefix = [0; frame::LENGTH_SIZE];
        if let Err(error) = self.stream.read_exact(&mut prefix) {
            assert_ne!(
                error.kind(),
                ErrorKind::WouldBlock,
                "the broker neither responds nor closes"
            );
            return None;
        }
        let mut response = vec![0; frame::frame_length(prefix, 100 << 20).unwrap()];
        self.stream.read_exact(&mut response).ok()?;
        Some(response.into())
    }

    /// Checks that nothing was sent by the broker yet.
    #[allow(dead_code, reason = "for the tests of quotas")]
    pub fn expect_silence(&mut self) {
        let socket = self.socket.as_ref().unwrap();
        socket.set_nonblocking(true).unwrap();
        let error = socket.peek(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        socket.set_nonblocking(false).unwrap();
    }

    /// Creates a topic and returns its id.
    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let configs = configs
            .iter()
            .map(|(name, value)| create_topics_request::CreatableTopicConfig {
                name: (*name).into(),
                value: Some((*value).into()),
                ..Default::default()
            });
        let topic = create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.collect(),
            ..Default::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            ..Default::default()
        };
        let response = self.call(&request, 7);
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
        response.topics[0].topic_id
    }

    pub fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        records: Bytes,
    ) -> produce_response::PartitionProduceResponse {
        let mut response = self.call(&produce_request(topic, partition, records), 12);
        response.responses.remove(0).partition_responses.remove(0)
    }

    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> fetch_response::PartitionData {
        let mut response = self.call(&fetch_request(topic, partition, offset), 12);
        response.responses.remove(0).partitions.remove(0)
    }
}

/// A response without an error has a null message: clients take any other for a failure.
fn check_error_messages<R: Request<Response: Debug>>(version: i16, response: &R::Response) {
    // Older versions lack fields, which get the default of the definition. Some messages are empty in Kafka too, and
    // a fetch response has none but is long to print.
    let newest = R::KEY.broker_versions().is_some_and(|versions| version == versions.max);
    let empty_in_kafka = [ApiKey::DescribeAcls, ApiKey::FindCoordinator, ApiKey::SaslAuthenticate];
    if newest && R::KEY != ApiKey::Fetch && !empty_in_kafka.contains(&R::KEY) {
        let text = format!("{response:?}");
        assert!(
            !text.contains("error_message: Some(\"\")"),
            "{} version {version}: {text}",
            R::NAME
        );
    }
}

pub fn produce_request(topic: &str, index: i32, records: Bytes) -> ProduceRequest {
    ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![produce_request::PartitionProduceData {
                index,
                records: Some(records),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Everything from `offset` on, without waiting.
pub fn fetch_request(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        topics: vec![fetch_request::FetchTopic {
            topic: topic.into(),
            partitions: vec![fetch_request::FetchPartition {
                partition,
                fetch_offset: offset,
                partition_max_bytes: 10 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub fn batch(values: &[&str]) -> Bytes {
    batch_with(values, Codec::None, BatchOptions::default())
}

pub fn batch_with(values: &[&str], codec: Codec, options: BatchOptions) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for value in values {
        let record = NewRecord {
            timestamp: 1_700_000_000_000,
            key: Some(b"key"),
            value: Some(value.as_bytes()),
            headers: &[],
        };
        builder.append(&record).unwrap();
    }
    builder
        .finish_compressed(&mut Compressor::new(Compression::from(codec)))
        .unwrap()
        .0
}

/// Offsets and values of all whole batches.
pub fn values(records: &Bytes) -> Vec<(i64, String)> {
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 24);
    let mut set = RecordSet::default();
    let mut values = vec![];
    for batch in Batches::new(records.clone()) {
        let batch = batch.unwrap();
        batch.verify().unwrap();
        batch.decode_into(&mut decoder, &mut set).unwrap();
        values.extend(set.iter().map(|record| {
            let value = String::from_utf8_lossy(record.value().unwrap_or_default()).into_owned();
            (record.offset(), value)
        }));
    }
    values
}

/// The entity of a quota: types, and names or `None` for the default.
#[allow(dead_code, reason = "for tests of quotas")]
pub type QuotaEntity<'a> = &'a [(&'a str, Option<&'a str>)];

/// A change of the quotas of one entity; `None` removes one.
#[allow(dead_code, reason = "for tests of quotas")]
pub fn alter_quotas_request(
    entity: QuotaEntity<'_>,
    ops: &[(&str, Option<f64>)],
    validate_only: bool,
) -> AlterClientQuotasRequest {
    let entity = entity
        .iter()
        .map(|(entity_type, name)| alter_client_quotas_request::EntityData {
            entity_type: (*entity_type).into(),
            entity_name: name.map(Into::into),
            ..Default::default()
        });
    let ops = ops.iter().map(|(key, value)| alter_client_quotas_request::OpData {
        key: (*key).into(),
        value: value.unwrap_or(0.0),
        remove: value.is_none(),
        ..Default::default()
    });
    AlterClientQuotasRequest {
        entries: vec![alter_client_quotas_request::EntryData {
            entity: entity.collect(),
            ops: ops.collect(),
            ..Default::default()
        }],
        validate_only,
        ..Default::default()
    }
}
