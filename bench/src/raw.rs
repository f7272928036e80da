//! A client that does as little as possible: frames that were encoded before, one blocking socket.

use std::{
    io::{self, BufReader, IoSlice, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use milena_security::tls::rustls::{ClientConfig, ClientConnection, StreamOwned};
use milena_wire::{
    frame,
    message::Request,
    messages::*,
    records::{BatchBuilder, BatchOptions, NewRecord},
};

/// The last version of Produce whose response has fields of fixed size, so that it is read without decoding.
const PRODUCE: i16 = 8;
/// The timestamp that stands for the end of a partition.
const LATEST: i64 = -1;
/// The error of a replication factor that is larger than the number of brokers.
const NO_BROKER: i16 = 38;

pub struct Connection {
    stream: Stream,
    pub buffer: Vec<u8>,
}

/// A socket, with or without TLS.
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, Buffered>>),
}

/// A socket that is read in large pieces: a TLS session alone would read 4 KiB at once.
struct Buffered(BufReader<TcpStream>);

impl Read for Buffered {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.get_mut().write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

/// Bytes of TLS that one read takes from the socket.
const TLS_READ_BYTES: usize = 256 << 10;

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Connection {
    pub fn open(address: &str) -> Result<Self> {
        Self::open_for(address, 64 << 20)
    }

    /// A connection for responses of at most this size.
    pub fn open_for(address: &str, answer_max: usize) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: Stream::Plain(stream),
            buffer: vec![0; answer_max],
        })
    }

    /// A connection with TLS; the handshake is done when this returns.
    pub fn open_tls(address: &str, config: &Arc<ClientConfig>, answer_max: usize) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut socket = Buffered(BufReader::with_capacity(TLS_READ_BYTES, socket));
        let mut tls = ClientConnection::new(Arc::clone(config), "localhost".try_into()?)?;
        // The plaintext of a whole request is encrypted at once.
        tls.set_buffer_limit(None);
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Self {
            stream: Stream::Tls(Box::new(StreamOwned::new(tls, socket))),
            buffer: vec![0; answer_max],
        })
    }

    /// The same connection for another thread.
    pub fn another(&self) -> Result<Self> {
        let Stream::Plain(stream) = &self.stream else {
            bail!("a connection with TLS has one thread");
        };
        Ok(Self {
            stream: Stream::Plain(stream.try_clone()?),
            buffer: vec![0; self.buffer.len()],
        })
    }

    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        self.stream.write_all(frame)?;
        Ok(self.stream.flush()?)
    }

    /// Reads a response and returns its length; the bytes are in the buffer.
    pub fn receive(&mut self) -> Result<usize> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let length = frame::frame_length(prefix, self.buffer.len())?;
        self.stream.read_exact(&mut self.buffer[..length])?;
        Ok(length)
    }

    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        self.send(&encode(request, version)?)?;
        self.answer::<R>(version)
    }

    pub fn answer<R: Request>(&mut self, version: i16) -> Result<R::Response> {
        let length = self.receive()?;
        let answer = Bytes::copy_from_slice(&self.buffer[..length]);
        Ok(frame::decode_response::<R::Response>(&answer, version)?.1)
    }

    /// Creates a topic and waits until it takes records, which needs a moment with Kafka. It then has one record in
    /// each partition.
    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        self.create_topics(&[name.to_owned()], partitions, configs)?;
        for partition in 0..partitions {
            let probe = produce_frame(name, partition, batch(b"probe", 10, 1))?;
            self.produce_until_taken(&probe)?;
        }
        Ok(())
    }

    pub fn create_topics(&mut self, names: &[String], partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        let configs = configs
            .iter()
            .map(|(name, value)| create_topics_request::CreatableTopicConfig {
                name: (*name).into(),
                value: Some((*value).into()),
                ..Default::default()
            });
        let configs: Vec<_> = configs.collect();
        let topics = names.iter().map(|name| create_topics_request::CreatableTopic {
            name: name.as_str().into(),
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.clone(),
            ..Default::default()
        });
        let request = CreateTopicsRequest {
            topics: topics.collect(),
            timeout_ms: 60_000,
            ..Default::default()
        };
        loop {
            let answered = self.call(&request, 7)?.topics;
            match answered.into_iter().find(|topic| topic.error_code != 0) {
                None => return Ok(()),
                // Kafka responds before its controller has registered it as a broker.
                Some(topic) if topic.error_code == NO_BROKER => std::thread::sleep(Duration::from_millis(1)),
                Some(topic) => bail!("cannot create {}: error {}", topic.name, topic.error_code),
            }
        }
    }

    pub fn delete_topic(&mut self, name: &str) -> Result<()> {
        let request = DeleteTopicsRequest {
            topic_names: vec![name.into()],
            timeout_ms: 60_000,
            ..Default::default()
        };
        for topic in self.call(&request, 5)?.responses {
            ensure!(
                topic.error_code == 0,
                "cannot delete {name}: error {}",
                topic.error_code
            );
        }
        Ok(())
    }

    /// The offsets after the last records of all partitions, added up.
    pub fn end_offsets(&mut self, topic: &str, partitions: i32) -> Result<i64> {
        let partition = |partition_index| list_offsets_request::ListOffsetsPartition {
            partition_index,
            timestamp: LATEST,
            ..Default::default()
        };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![list_offsets_request::ListOffsetsTopic {
                name: topic.into(),
                partitions: (0..partitions).map(partition).collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut sum = 0;
        for partition in self
            .call(&request, 5)?
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
        {
            ensure!(partition.error_code == 0, "no offsets: error {}", partition.error_code);
            sum += partition.offset;
        }
        Ok(sum)
    }

    fn produce_until_taken(&mut self, frame: &[u8]) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            self.send(frame)?;
            let response = self.answer::<ProduceRequest>(PRODUCE)?;
            let error = response.responses[0].partition_responses[0].error_code;
            if error == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "records are not taken: error {error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads a produce response and checks that it is no error.
    pub fn receive_ack(&mut self) -> Result<()> {
        let length = self.receive()?;
        // Correlation id; one topic with its name; one partition with its index; then the error.
        let name = usize::from(u16::from_be_bytes([self.buffer[8], self.buffer[9]]));
        let at = 4 + 4 + 2 + name + 4 + 4;
        ensure!(at + 2 <= length, "a short answer");
        let error = i16::from_be_bytes([self.buffer[at], self.buffer[at + 1]]);
        ensure!(error == 0, "records were refused: error {error}");
        Ok(())
    }
}

pub fn encode<R: Request>(request: &R, version: i16) -> Result<Bytes> {
    Ok(frame::encode_request(request, version, 1, None)?.into_bytes())
}

/// Retries until a broker responds.
pub fn wait_for_answer(address: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let request = ApiVersionsRequest::default();
    loop {
        let answered = Connection::open(address).and_then(|mut connection| connection.call(&request, 0));
        match answered {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A batch of equal records.
pub fn batch(key: &[u8], value_size: usize, count: usize) -> Bytes {
    let value: Vec<u8> = (0..value_size).map(|i| (i * 31 % 251) as u8).collect();
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for _ in 0..count {
        append(&mut builder, key, &value);
    }
    builder.finish()
}

/// Adds a record of now. An empty key is none.
pub fn append(builder: &mut BatchBuilder, key: &[u8], value: &[u8]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let record = NewRecord {
        timestamp: now.as_millis() as i64,
        key: (!key.is_empty()).then_some(key),
        value: Some(value),
        headers: &[],
    };
    builder.append(&record).expect("it fits");
}

pub fn produce_frame(topic: &str, partition: i32, records: Bytes) -> Result<Bytes> {
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![produce_request::PartitionProduceData {
                index: partition,
                records: Some(records),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    encode(&request, PRODUCE)
}

pub fn fetch_frame(topic: &str, offset: i64, max_wait_ms: i32) -> Result<Bytes> {
    let request = FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 50 << 20,
        topics: vec![fetch_request::FetchTopic {
            topic: topic.into(),
            partitions: vec![fetch_request::FetchPartition {
                fetch_offset: offset,
                partition_max_bytes: 4 << 20,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    encode(&request, 11)
}

/// The offset after the last whole batch, from the batch headers in the buffer: decoding would copy the response.
pub fn next_offset(answer: &[u8]) -> Option<i64> {
    // Header, throttle time, error, session; one topic with its name; one partition: all of known size but the name.
    let mut at = 4 + 4 + 2 + 4 + 4;
    at += 2 + usize::from(u16::from_be_bytes(answer.get(at..at + 2)?.try_into().ok()?)) + 4;
    at += 4 + 2 + 8 + 8 + 8;
    let aborted = i32::from_be_bytes(answer.get(at..at + 4)?.try_into().ok()?).max(0) as usize;
    at += 4 + aborted * 16 + 4 + 4;
    let mut next = None;
    while let Some(header) = answer.get(at..at + 27) {
        let base = i64::from_be_bytes(header[..8].try_into().ok()?);
        let length = i32::from_be_bytes(header[8..12].try_into().ok()?) as usize + 12;
        if at + length > answer.len() {
            break;
        }
        next = Some(base + i64::from(i32::from_be_bytes(header[23..27].try_into().ok()?)) + 1);
        at += length;
    }
    next
}
