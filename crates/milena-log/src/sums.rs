//! The checksums of a segment's indexes, which Kafka's formats lack.
//!
//! ```text
//! .sums  0                    version
//!        index 1a2b3c4d       CRC-32C of each file; of one that does not exist, that of no bytes
//!        timeindex 1a2b3c4d
//!        txnindex 1a2b3c4d
//!        log 0000abcd         size of the segment
//!        sums 1a2b3c4d        CRC-32C of the lines above
//! ```
//!
//! A segment without this file, or whose indexes differ from it, is read again: a damaged index would lead to wrong
//! positions that look right.

use std::path::Path;

use crate::disk::{self, Disk};

/// The ending of the file's name.
pub(crate) const ENDING: &str = "sums";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) index: u32,
    pub(crate) timeindex: u32,
    pub(crate) txnindex: u32,
    pub(crate) log_size: u32,
}

impl Sums {
    pub(crate) fn of(index: &[u8], timeindex: &[u8], txnindex: &[u8], log_size: u32) -> Self {
        Self {
            index: crc32c::crc32c(index),
            timeindex: crc32c::crc32c(timeindex),
            txnindex: crc32c::crc32c(txnindex),
            log_size,
        }
    }

    pub(crate) fn encode(self) -> String {
        let Self {
            index,
            timeindex,
            txnindex,
            log_size,
        } = self;
        let lines =
            format!("0\nindex {index:08x}\ntimeindex {timeindex:08x}\ntxnindex {txnindex:08x}\nlog {log_size:08x}\n");
        let own = crc32c::crc32c(lines.as_bytes());
        format!("{lines}sums {own:08x}\n")
    }

    /// Reads the file; `None` if it does not exist or is damaged.
    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Option<Self> {
        let content = disk::read_file(disk, path).ok()?;
        let text = std::str::from_utf8(&content).ok()?;
        let mut sums = text.lines().skip(1).map(|line| {
            let (_, sum) = line.split_once(' ')?;
            u32::from_str_radix(sum, 16).ok()
        });
        let read = Self {
            index: sums.next()??,
            timeindex: sums.next()??,
            txnindex: sums.next()??,
            log_size: sums.next()??,
        };
        (read.encode() == text).then_some(read)
    }
}
