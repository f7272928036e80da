//! What a client may append: the checks that come before an offset is given out.

use bytes::Bytes;
use milena_wire::{
    compression::{Codec, Compression, Compressor, DecompressError},
    errors::ErrorCode,
    pool::BufferPool,
    records::{
        Batch, BatchBuilder, BatchError, BatchHeader, BatchOptions, BatchProblem, Batches, Header, NewRecord,
        RecordBatch, RecordDecoder, RecordSet, TimestampType,
    },
};

use crate::config::LogConfig;

/// A batch that is fit for the log, with the header it shall have there but for its offset and epoch.
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
    #[error("{0}")]
    Malformed(&'static str),
    #[error("timestamp {timestamp} is not within the limits of the topic at {now_ms}")]
    Timestamp { timestamp: i64, now_ms: i64 },
    #[error("record {record} has no key, which a compacted topic needs")]
    NoKey { record: usize },
}

impl InvalidBatch {
    /// What Kafka answers.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::NotOneBatch | Self::Malformed(_) | Self::NoKey { .. } => ErrorCode::InvalidRecord,
            Self::TooLarge { .. } | Self::DecompressesTooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::Damaged(_) => ErrorCode::CorruptMessage,
            Self::Timestamp { .. } => ErrorCode::InvalidTimestamp,
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
        _ => check_latest(header.max_timestamp, config, now_ms)?,
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

/// The same records in the codec that the topic wants.
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
        return Err(InvalidBatch::Timestamp {
            timestamp: header.max_timestamp,
            now_ms: -1,
        });
    }
    if header.producer_id >= 0 && header.base_sequence < 0 {
        return malformed("a batch of an idempotent producer needs a sequence");
    }
    if header.attributes.codec().is_err() {
        return malformed("the codec of the batch is unknown");
    }
    Ok(())
}

/// The header tells the latest timestamp, so what lies too far ahead is found without looking at records.
fn check_latest(timestamp: i64, config: &LogConfig, now_ms: i64) -> Result<(), InvalidBatch> {
    if timestamp.saturating_sub(now_ms) > config.timestamp_after_max_ms {
        return Err(InvalidBatch::Timestamp { timestamp, now_ms });
    }
    Ok(())
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
            _ => InvalidBatch::Damaged(error),
        })?;
    Ok(set)
}

/// What a batch may decompress to: 64 times what may be sent, but not less than 64 MiB, since text may shrink a lot, and
/// not more than 1 GiB.
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
    for (record, read) in set.iter().enumerate() {
        if config.compact && read.key().is_none() {
            return Err(InvalidBatch::NoKey { record });
        }
        let timestamp = read.timestamp();
        let too_old = timestamp >= 0 && now_ms.saturating_sub(timestamp) > config.timestamp_before_max_ms;
        if config.timestamp_type == TimestampType::CreateTime && too_old {
            return Err(InvalidBatch::Timestamp { timestamp, now_ms });
        }
    }
    Ok(())
}

fn records_of(batch: &RecordBatch) -> &[u8] {
    batch
        .bytes()
        .get(milena_wire::records::HEADER_SIZE..)
        .unwrap_or_default()
}
