//! Visits every record of a fetch response in its buffer, without copying.

use anyhow::{Context, Result, ensure};
use milena_wire::compression::{Codec, Decompressor};

use super::tally::Tally;

/// The header of a batch, up to its records.
const HEADER: usize = 61;
/// Position of the first byte of a batch that its checksum covers.
const CHECKED: usize = 21;

#[derive(Default)]
pub struct Walker {
    decompressor: Decompressor,
    decompressed: Vec<u8>,
}

impl Walker {
    /// Visits a response about one topic, and advances the offsets of its partitions.
    pub fn walk(&mut self, answer: &[u8], offsets: &mut [i64], tally: &mut Tally) -> Result<()> {
        // The correlation id and the throttle time.
        let mut answer = Cursor(&answer[8..]);
        let error = answer.i16()?;
        ensure!(error == 0, "the broker answers with error {error}");
        let _session = answer.i32()?;
        for _ in 0..answer.i32()? {
            let name = answer.i16()? as usize;
            answer.take(name)?;
            for _ in 0..answer.i32()? {
                let partition = answer.i32()? as usize;
                let error = answer.i16()?;
                ensure!(error == 0, "the broker answers with error {error} for {partition}");
                // High watermark, last stable offset, start of the log; aborted transactions; preferred replica.
                answer.take(24)?;
                let aborted = answer.i32()?.max(0) as usize;
                answer.take(aborted * 16 + 4)?;
                let size = answer.i32()?.max(0) as usize;
                if let Some(next) = self.walk_batches(answer.take(size)?, tally)? {
                    *offsets
                        .get_mut(partition)
                        .context("a partition that nobody asked for")? = next;
                }
            }
        }
        Ok(())
    }

    /// Returns the offset after the last whole batch.
    fn walk_batches(&mut self, mut bytes: &[u8], tally: &mut Tally) -> Result<Option<i64>> {
        let mut next = None;
        while bytes.len() >= HEADER {
            let mut header = Cursor(bytes);
            let (base, size) = (header.i64()?, header.i32()? as usize + 12);
            let Some((batch, rest)) = bytes.split_at_checked(size) else {
                break;
            };
            header.take(5)?;
            let crc = header.i32()? as u32;
            ensure!(crc32c::crc32c(&batch[CHECKED..]) == crc, "a wrong checksum at {base}");
            let codec = Codec::from_id(header.i16()? as u8 & 7).context("an unknown codec")?;
            next = Some(base + i64::from(header.i32()?) + 1);
            let records = self.plain(codec, &batch[HEADER..])?;
            walk_records(records, tally)?;
            bytes = rest;
        }
        Ok(next)
    }

    fn plain<'a>(&'a mut self, codec: Codec, records: &'a [u8]) -> Result<&'a [u8]> {
        if codec == Codec::None {
            return Ok(records);
        }
        self.decompressed.clear();
        self.decompressor
            .decompress(codec, records, &mut self.decompressed, 64 << 20)?;
        Ok(&self.decompressed)
    }
}

fn walk_records(bytes: &[u8], tally: &mut Tally) -> Result<()> {
    let mut bytes = Cursor(bytes);
    while !bytes.0.is_empty() {
        let size = bytes.varint()? as usize;
        let mut record = Cursor(bytes.take(size)?);
        record.take(1)?;
        let (_timestamp, _offset) = (record.varint()?, record.varint()?);
        let key = record.nullable()?;
        let value = record.nullable()?;
        tally.see(key, value);
    }
    Ok(())
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    #[inline]
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).context("the answer ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().context("the answer ends too early")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    #[inline]
    fn varint(&mut self) -> Result<i64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[inline]
    fn nullable(&mut self) -> Result<Option<&'a [u8]>> {
        match self.varint()? {
            size if size < 0 => Ok(None),
            size => self.take(size as usize).map(Some),
        }
    }
}
