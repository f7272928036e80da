//! Batches of a segment file, read one at a time, so that a large file needs little memory.

use std::{
    fs::File,
    io::{BufReader, Read, Write},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use milena_wire::{
    pool::BufferPool,
    records::{
        BATCH_OVERHEAD, Batch, BatchError, BatchHeader, Batches, Record, RecordDecoder, RecordSet, TimestampType,
    },
};

/// More than any batch of a broker with sane limits; a batch that claims more is reported as damaged.
const DECOMPRESSED_MAX: usize = 1 << 30;

pub(super) fn list(out: &mut impl Write, path: &Path, with_records: bool) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let size = file.metadata()?.len();
    let mut file = BufReader::new(file);
    let mut decoder = RecordDecoder::new(BufferPool::new(DECOMPRESSED_MAX), DECOMPRESSED_MAX);
    let mut set = RecordSet::default();
    let (mut position, mut damaged) = (0, 0);
    while let Some(bytes) = next_batch(&mut file, size - position)? {
        let length = bytes.len() as u64;
        let offsets = offsets(&bytes);
        match decode(bytes, &mut decoder, &mut set) {
            Ok(batch) => {
                describe(out, position, &batch, &set)?;
                for record in set.iter().filter(|_| with_records) {
                    describe_record(out, &record)?;
                }
            }
            Err(error) => {
                damaged += 1;
                writeln!(out, "DAMAGED {offsets}position: {position} size: {length}: {error:#}")?;
            }
        }
        position += length;
    }
    if position < size {
        writeln!(out, "position: {position} size: {} PARTIAL", size - position)?;
    }
    ensure!(
        damaged == 0,
        "{} in {}",
        crate::output::counted_in(damaged, "damaged batch", "damaged batches"),
        path.display()
    );
    Ok(())
}

/// The offsets of a batch according to its header, which may be damaged.
fn offsets(bytes: &[u8]) -> String {
    match bytes.first_chunk().map(BatchHeader::parse) {
        Some(header) => format!(
            "baseOffset: {} lastOffset: {} ",
            header.base_offset,
            header.last_offset()
        ),
        None => String::new(),
    }
}

/// The bytes of the next batch according to its length; `None` if the file has fewer.
fn next_batch(file: &mut impl Read, left: u64) -> Result<Option<Bytes>> {
    let mut start = [0; BATCH_OVERHEAD];
    if left < start.len() as u64 {
        return Ok(None);
    }
    file.read_exact(&mut start)?;
    let [.., a, b, c, d] = start;
    let Ok(length) = u64::try_from(i32::from_be_bytes([a, b, c, d])) else {
        return Ok(None);
    };
    if start.len() as u64 + length > left {
        return Ok(None);
    }
    let mut bytes = start.to_vec();
    file.take(length).read_to_end(&mut bytes)?;
    Ok(Some(Bytes::from(bytes)))
}

fn decode(bytes: Bytes, decoder: &mut RecordDecoder, set: &mut RecordSet) -> Result<Batch, anyhow::Error> {
    let batch = Batches::new(bytes).next().context("too short for a batch")??;
    let checked: Result<(), BatchError> = batch.verify().and_then(|()| batch.decode_into(decoder, set));
    checked?;
    Ok(batch)
}

fn describe(out: &mut impl Write, position: u64, batch: &Batch, set: &RecordSet) -> Result<()> {
    let size = batch.size();
    match batch {
        Batch::V2(batch) => {
            let header = batch.header();
            let attributes = header.attributes;
            let codec = attributes.codec().map_or("unknown", |codec| codec.name());
            write!(
                out,
                "baseOffset: {} lastOffset: {} count: {} position: {position} size: {size} magic: 2 {}: {} codec: {codec} \
                 leaderEpoch: {}",
                header.base_offset,
                header.last_offset(),
                header.record_count,
                time_name(attributes.timestamp_type()),
                header.max_timestamp,
                header.partition_leader_epoch,
            )?;
            if header.producer_id >= 0 {
                let (id, epoch, sequence) = (header.producer_id, header.producer_epoch, header.base_sequence);
                write!(out, " producerId: {id} producerEpoch: {epoch} baseSequence: {sequence}")?;
            }
            if attributes.is_transactional() {
                write!(out, " transactional")?;
            }
            if attributes.is_control() {
                write!(out, " control")?;
            }
            writeln!(out)?;
        }
        Batch::Legacy(message) => writeln!(
            out,
            "offset: {} count: {} position: {position} size: {size} magic: {}",
            message.offset(),
            set.len(),
            message.magic()
        )?,
    }
    Ok(())
}

fn describe_record(out: &mut impl Write, record: &Record<'_>) -> Result<()> {
    let name = time_name(record.timestamp_type());
    write!(out, "| offset: {} {name}: {}", record.offset(), record.timestamp())?;
    write!(out, " key: {} value: {}", text(record.key()), text(record.value()))?;
    for header in record.headers() {
        write!(out, " header: {}={}", text(Some(header.key)), text(header.value))?;
    }
    writeln!(out)?;
    Ok(())
}

fn time_name(timestamp_type: TimestampType) -> &'static str {
    match timestamp_type {
        TimestampType::None => "NoTimestamp",
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

/// Bytes as text, with escapes where they are not ASCII.
fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), |bytes| bytes.escape_ascii().to_string())
}
