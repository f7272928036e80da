//! A client that does as little as possible: frames that were encoded before, one blocking socket.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use milena_wire::{
    frame,
    message::Request,
    messages::*,
    records::{BatchBuilder, BatchOptions, NewRecord},
};

const IN_FLIGHT: usize = 5;
/// About what a busy producer sends at once.
const BATCH_BYTES: usize = 900_000;

pub struct Load {
    pub bytes: usize,
    pub seconds: f64,
}

pub struct Latencies {
    pub per_second: f64,
    pub p50_us: f64,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; 64 << 20],
        })
    }

    fn send(&mut self, frame: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frame)?)
    }

    /// Reads an answer and gives its length; the bytes are in the buffer.
    fn receive(&mut self) -> Result<usize> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let length = frame::frame_length(prefix, self.buffer.len())?;
        self.stream.read_exact(&mut self.buffer[..length])?;
        Ok(length)
    }

    fn call<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response> {
        self.send(&encode(request, version)?)?;
        let length = self.receive()?;
        let answer = Bytes::copy_from_slice(&self.buffer[..length]);
        Ok(frame::decode_response::<R::Response>(&answer, version)?.1)
    }
}

fn encode<R: Request>(request: &R, version: i16) -> Result<Bytes> {
    Ok(frame::encode_request(request, version, 1, None)?.into_bytes())
}

/// Tries until a broker answers.
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

fn create_topic(connection: &mut Connection, name: &str) -> Result<()> {
    let request = CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 30_000,
        ..Default::default()
    };
    connection.call(&request, 7)?;
    // Kafka may need a moment until the leader takes records.
    let probe = produce_frame(name, batch(10, 1))?;
    for _ in 0..1_000 {
        connection.send(&probe)?;
        let length = connection.receive()?;
        let answer = Bytes::copy_from_slice(&connection.buffer[..length]);
        let (_, response) = frame::decode_response::<ProduceResponse>(&answer, 11)?;
        if response.responses[0].partition_responses[0].error_code == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    anyhow::bail!("no leader for {name}")
}

fn batch(value_size: usize, count: usize) -> Bytes {
    let value: Vec<u8> = (0..value_size).map(|i| (i * 31 % 251) as u8).collect();
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for _ in 0..count {
        let record = NewRecord {
            timestamp: 1_790_000_000_000,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        builder.append(&record).expect("it fits");
    }
    builder.finish()
}

fn produce_frame(topic: &str, records: Bytes) -> Result<Bytes> {
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![produce_request::PartitionProduceData {
                index: 0,
                records: Some(records),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    encode(&request, 11)
}

pub fn produce(address: &str, topic: &str, value_size: usize, bytes: usize) -> Result<Load> {
    let mut connection = Connection::open(address)?;
    create_topic(&mut connection, topic)?;
    let frame = produce_frame(topic, batch(value_size, BATCH_BYTES / (value_size + 10)))?;
    let requests = bytes.div_ceil(frame.len());
    let began = Instant::now();
    for i in 0..requests + IN_FLIGHT {
        if i < requests {
            connection.send(&frame)?;
        }
        if i >= IN_FLIGHT {
            connection.receive()?;
        }
    }
    Ok(Load {
        bytes: requests * frame.len(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

pub fn consume(address: &str, topic: &str, bytes: usize) -> Result<Load> {
    let mut connection = Connection::open(address)?;
    let mut read = 0;
    let mut offset = 0;
    let began = Instant::now();
    while read < bytes {
        let request = FetchRequest {
            max_wait_ms: 500,
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
        connection.send(&encode(&request, 11)?)?;
        let length = connection.receive()?;
        read += length;
        offset = next_offset(&connection.buffer[..length]).with_context(|| format!("nothing at offset {offset}"))?;
    }
    Ok(Load {
        bytes: read,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// The offset after the last whole batch, by walking the batch headers where they lie: decoding would copy the answer.
fn next_offset(answer: &[u8]) -> Option<i64> {
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

/// One small request at a time.
pub fn one_in_flight(address: &str, topic: &str, count: usize) -> Result<Latencies> {
    let mut connection = Connection::open(address)?;
    create_topic(&mut connection, topic)?;
    let frame = produce_frame(topic, batch(100, 1))?;
    let mut times = Vec::with_capacity(count);
    let began = Instant::now();
    for _ in 0..count {
        let sent = Instant::now();
        connection.send(&frame)?;
        connection.receive()?;
        times.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    let seconds = began.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    ensure!(!times.is_empty(), "no request was sent");
    Ok(Latencies {
        per_second: count as f64 / seconds,
        p50_us: times[times.len() / 2],
    })
}
