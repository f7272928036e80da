//! The values of records: made before, so that making them is not what is measured.

use std::fs;

use anyhow::{Result, ensure};
use bytes::Bytes;

use super::Job;

/// How much the file of values has: more than a batch, so that nothing comes twice in one.
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

    /// The same for those who want to own it. It is not copied.
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
