//! Validation of batches from clients, before they get offsets.

use std::{error::Error, fmt};

use bytes::Bytes;
use milena_wire::{
    compression::{Codec, Compression, Compressor, DecompressError},
    errors::ErrorCode,
    pool::BufferPool,
    records::{
        Batch, BatchBuilder, BatchError, BatchHeader, BatchOptions, BatchProblem, Batches, Header, NewRecord, Record,
        RecordBatch, RecordDecoder, RecordSet, TimestampType,
    },
};

use crate::config::LogConfig;

/// A batch that can be appended, with its final header except for offset and epoch.
#[derive(Debug)]
pub(crate) struct Validated {
    pub(crate) batch: RecordBatch,
    pub(crate) header: BatchHeader,
}

/// Why a batch cannot be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBatch {
    #[error("a partition takes exactly one batch of format 2 at a time")]
    NotOneBatch,
    #[error("the batch has {size} bytes, more than max.message.bytes={size_max}")]
    TooLarge { size: usize, size_max: u32 },
    #[error("the batch has {size} bytes, more than segment.bytes={size_max}")]
    LargerThanSegment { size: usize, size_max: u32 },
    #[error(
        "the batch decompresses to more than {size_max} bytes, which follows from max.message.bytes; send fewer records at \
         once or raise max.message.bytes"
    )]
    DecompressesTooLarge { size_max: usize },
    #[error(transparent)]
    Damaged(BatchError),
    #[error("{0}; Kafka's clients could not read it")]
    Unreadable(DecompressError),
    #[error("{0}")]
    Malformed(&'static str),
    #[error("a producer may not set the timestamp type to LogAppendTime; that is the topic's choice")]
    TimestampType,
    #[error("the latest timestamp of the batch is {timestamp}, and the topic takes none after {latest}")]
    Timestamp { timestamp: i64, latest: i64 },
    #[error(transparent)]
    Records(RejectedRecords),
}

/// The records for which a batch is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedRecords {
    pub count: usize,
    /// Whether some have a timestamp that the topic does not take.
    pub has_bad_timestamp: bool,
    /// The first of them, in the order of the batch.
    pub first: Vec<RejectedRecord>,
}

/// Rejected records that are listed. A small batch may decompress to millions, which are not worth a response.
const REJECTED_MAX: usize = 1_000;

impl fmt::Display for RejectedRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the batch is refused because of {} of its records", self.count)?;
        if self.count > self.first.len() {
            write!(f, ", of which {} are listed", self.first.len())?;
        }
        match self.first.first() {
            Some(first) => write!(f, "; the first is record {}: {}", first.index, first.problem),
            None => Ok(()),
        }
    }
}

impl Error for RejectedRecords {}

/// A record that the topic does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectedRecord {
    /// Index in the batch.
    pub index: i32,
    pub problem: RecordProblem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordProblem {
    #[error("it has no key, which a compacted topic needs")]
    NoKey,
    #[error("its timestamp {timestamp} is not between {earliest} and {latest}")]
    Timestamp { timestamp: i64, earliest: i64, latest: i64 },
}

impl InvalidBatch {
    /// Kafka's error code for it.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::NotOneBatch | Self::Malformed(_) => ErrorCode::InvalidRecord,
            Self::TooLarge { .. } | Self::DecompressesTooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::Damaged(_) => ErrorCode::CorruptMessage,
            // Kafka responds to some of them with UNKNOWN_SERVER_ERROR, because its decoder throws and
            // the exception is not caught. Both make a producer give up at once; with CORRUPT_MESSAGE it
            // would retry forever.
            Self::Unreadable(_) => ErrorCode::InvalidRecord,
            Self::TimestampType | Self::Timestamp { .. } => ErrorCode::InvalidTimestamp,
            Self::Records(rejected) => match rejected.has_bad_timestamp {
                true => ErrorCode::InvalidTimestamp,
                false => ErrorCode::InvalidRecord,
            },
        }
    }
}

/// Checks the records of one partition in a request. Nothing is decompressed unless the topic's settings demand it.
pub(crate) fn validate(records: &Bytes, config: &LogConfig, now_ms: i64) -> Result<Validated, InvalidBatch> {
    let mut batches = Batches::new(records.clone());
    let batch = match batches.next() {
        Some(Ok(Batch::V2(batch))) if batches.leftover() == 0 => batch,
        Some(Err(error)) => return Err(InvalidBatch::Damaged(error)),
        _ => return Err(InvalidBatch::NotOneBatch),
    };
    check_size(batch.bytes().len(), config)?;
    batch.verify().map_err(InvalidBatch::Damaged)?;
    check_header(batch.header())?;
    check_compression(&batch)?;
    let batch = match config.compression {
        Some(wanted) if batch.header().attributes.codec() != Ok(wanted.codec()) => {
            let recompressed = recompress(&batch, wanted, config)?;
            check_size(recompressed.bytes().len(), config)?;
            recompressed
        }
        _ => batch,
    };
    let mut header = *batch.header();
    match config.timestamp_type {
        TimestampType::LogAppendTime => {
            header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
            header.max_timestamp = now_ms;
            header.crc = header.compute_crc(records_of(&batch));
        }
        _ => check_latest(&batch, config, now_ms)?,
    }
    let checks_records = config.compact
        || (config.timestamp_type == TimestampType::CreateTime && config.timestamp_before_max_ms != i64::MAX);
    if checks_records {
        check_records(&batch, config, now_ms)?;
    }
    Ok(Validated { batch, header })
}

fn check_size(size: usize, config: &LogConfig) -> Result<(), InvalidBatch> {
    if size > config.max_message_bytes as usize {
        let size_max = config.max_message_bytes;
        return Err(InvalidBatch::TooLarge { size, size_max });
    }
    if size > config.segment_bytes as usize {
        let size_max = config.segment_bytes;
        return Err(InvalidBatch::LargerThanSegment { size, size_max });
    }
    Ok(())
}

/// The same records, compressed with the topic's codec.
fn recompress(batch: &RecordBatch, wanted: Compression, config: &LogConfig) -> Result<RecordBatch, InvalidBatch> {
    let records = read_records(batch, config)?;
    let header = batch.header();
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: header.base_offset,
        partition_leader_epoch: header.partition_leader_epoch,
        attributes: header.attributes.with_codec(Codec::None),
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        base_sequence: header.base_sequence,
        delete_horizon_ms: None,
    });
    let cannot = |_| InvalidBatch::Malformed("the records cannot be compressed as the topic wants them");
    for record in records.iter() {
        let headers: Vec<Header<'_>> = record.headers().collect();
        let record = NewRecord {
            timestamp: record.timestamp(),
            key: record.key(),
            value: record.value(),
            headers: &headers,
        };
        let appended = builder.append(&record);
        appended.map_err(|_| InvalidBatch::Malformed("the records are too large for one batch"))?;
    }
    let (bytes, _) = builder
        .finish_compressed(&mut Compressor::new(wanted))
        .map_err(cannot)?;
    match Batches::new(bytes).next() {
        Some(Ok(Batch::V2(batch))) => Ok(batch),
        _ => Err(InvalidBatch::NotOneBatch),
    }
}

/// Checks the start of the compressed records, so that no consumer gets a batch that Kafka's decoders refuse.
fn check_compression(batch: &RecordBatch) -> Result<(), InvalidBatch> {
    match batch.header().attributes.codec() {
        Ok(codec) => codec.check_start(records_of(batch)).map_err(InvalidBatch::Unreadable),
        Err(_) => Ok(()),
    }
}

fn check_header(header: &BatchHeader) -> Result<(), InvalidBatch> {
    let malformed = |reason| Err(InvalidBatch::Malformed(reason));
    if header.record_count <= 0 || header.last_offset_delta != header.record_count - 1 {
        return malformed("the batch does not have as many records as offsets");
    }
    if header.base_offset != 0 {
        return malformed("the base offset of a new batch must be 0");
    }
    if header.attributes.is_control() {
        return malformed("clients may not write control records");
    }
    if header.attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(InvalidBatch::TimestampType);
    }
    if header.producer_id >= 0 && header.base_sequence < 0 {
        return malformed("a batch of an idempotent producer needs a sequence");
    }
    if header.attributes.codec().is_err() {
        return malformed("the codec of the batch is unknown");
    }
    Ok(())
}

/// Checks the largest timestamp, which the header has, so that records are decoded only to name the offending ones.
fn check_latest(batch: &RecordBatch, config: &LogConfig, now_ms: i64) -> Result<(), InvalidBatch> {
    let timestamp = batch.header().max_timestamp;
    if timestamp.saturating_sub(now_ms) <= config.timestamp_after_max_ms {
        return Ok(());
    }
    check_records(batch, config, now_ms)?;
    // The header's timestamp is that of no record.
    let latest = now_ms.saturating_add(config.timestamp_after_max_ms);
    Err(InvalidBatch::Timestamp { timestamp, latest })
}

fn read_records(batch: &RecordBatch, config: &LogConfig) -> Result<RecordSet, InvalidBatch> {
    let size_max = decompressed_max(config);
    let mut decoder = RecordDecoder::new(BufferPool::new(0), size_max);
    let mut set = RecordSet::default();
    batch
        .decode_into(&mut decoder, &mut set)
        .map_err(|error| match error.problem {
            BatchProblem::BadRecord { reason, .. } => InvalidBatch::Malformed(reason),
            BatchProblem::Decompress(DecompressError::TooLarge { .. }) => {
                InvalidBatch::DecompressesTooLarge { size_max }
            }
            BatchProblem::Decompress(
                error @ (DecompressError::Truncated { .. }
                | DecompressError::Corrupt { .. }
                | DecompressError::Unsupported { .. }),
            ) => InvalidBatch::Unreadable(error),
            _ => InvalidBatch::Damaged(error),
        })?;
    Ok(set)
}

/// Limit of a decompressed batch: 64 times `max.message.bytes`, but at least 64 MiB, since text compresses well,
/// and at most 1 GiB.
fn decompressed_max(config: &LogConfig) -> usize {
    const FACTOR: usize = 64;
    const LEAST: usize = 64 << 20;
    const MOST: usize = 1 << 30;
    (config.max_message_bytes as usize)
        .saturating_mul(FACTOR)
        .clamp(LEAST, MOST)
}

fn check_records(batch: &RecordBatch, config: &LogConfig, now_ms: i64) -> Result<(), InvalidBatch> {
    let set = read_records(batch, config)?;
    let problems = (0..).zip(set.iter()).filter_map(|(index, record)| {
        let problem = problem_of(&record, config, now_ms)?;
        Some(RejectedRecord { index, problem })
    });
    let mut rejected = RejectedRecords::default();
    for record in problems {
        rejected.count += 1;
        rejected.has_bad_timestamp |= record.problem != RecordProblem::NoKey;
        if rejected.first.len() < REJECTED_MAX {
            rejected.first.push(record);
        }
    }
    match rejected.count {
        0 => Ok(()),
        _ => Err(InvalidBatch::Records(rejected)),
    }
}

fn problem_of(record: &Record<'_>, config: &LogConfig, now_ms: i64) -> Option<RecordProblem> {
    if config.compact && record.key().is_none() {
        return Some(RecordProblem::NoKey);
    }
    let timestamp = record.timestamp();
    let earliest = now_ms.saturating_sub(config.timestamp_before_max_ms);
    let latest = now_ms.saturating_add(config.timestamp_after_max_ms);
    let is_checked = config.timestamp_type == TimestampType::CreateTime && timestamp >= 0;
    (is_checked && !(earliest..=latest).contains(&timestamp)).then_some(RecordProblem::Timestamp {
        timestamp,
        earliest,
        latest,
    })
}

fn records_of(batch: &RecordBatch) -> &[u8] {
    batch
        .bytes()
        .get(milena_wire::records::HEADER_SIZE..)
        .unwrap_or_default()
}
