//! The values of records, created in advance, so that this is not measured.

use std::fs;

use anyhow::{Result, ensure};
use bytes::Bytes;

use super::Job;

/// Size of the file of values: more than a batch, so that no value repeats within one.
pub const VALUES_BYTES: usize = 4_000_000;

pub struct Values {
    text: Bytes,
    size: usize,
    count: u64,
}

impl Values {
    pub fn read(job: &Job) -> Result<Self> {
        let text = Bytes::from(fs::read(&job.values)?);
        let size = job.value_size.max(1);
        let count = (text.len() / size) as u64;
        ensure!(count > 0, "{} has no value of {size} bytes", job.values.display());
        Ok(Self { text, size, count })
    }

    #[inline]
    pub fn get(&self, number: u64) -> &[u8] {
        let start = self.start(number);
        &self.text[start..start + self.size]
    }

    /// The same as an owned value, without a copy.
    #[inline]
    pub fn owned(&self, number: u64) -> Bytes {
        let start = self.start(number);
        self.text.slice(start..start + self.size)
    }

    #[inline]
    fn start(&self, number: u64) -> usize {
        (number % self.count) as usize * self.size
    }
}
