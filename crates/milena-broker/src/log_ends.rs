//! The log ends: a ledger with the end of every log, current until the moment the process ends.
//!
//! ```text
//! milena.log-ends   128 bytes for each partition:
//!    0 version u32 = 1      4 topic id           20 partition i32       24 log start i64     32 synced offset i64
//!   40 high watermark i64  48 end offset i64     56 active base i64     64 active size u32   68 checksum of the last batch u32
//!   72 whether that is known u32                 76 CRC-32C of all before u32                zeros
//! ```
//!
//! An entry is overwritten in place with every append and not synced: it survives a crash of the process, and after a power
//! cut it is a lower bound, because it is synced with the checkpoints. Entries do not cross the sectors of a disk. A start
//! that finds a damaged entry uses Kafka's checkpoints instead.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::{Buf, BufMut};
use milena_invariant::invariant;
use milena_log::{
    Ledger, LogMark,
    disk::{self, Disk, DiskFile},
};
use milena_wire::Uuid;

pub(crate) const FILE: &str = "milena.log-ends";
const SLOT_SIZE: u64 = 128;
const VERSION: u32 = 1;
const COVERED: usize = 76;

/// A partition by topic id and index.
pub(crate) type PartitionKey = (Uuid, i32);

/// The entries in the file of an earlier process.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) of: BTreeMap<PartitionKey, LogMark>,
    /// The number of entries that could not be read.
    pub(crate) damaged: usize,
}

impl Marks {
    /// Reads the file; without a file there are no entries.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> io::Result<Self> {
        let path = dir.join(FILE);
        let mut marks = Self::default();
        if !disk.exists(&path)? {
            return Ok(marks);
        }
        let content = disk::read_file(disk, &path)?;
        for slot in content.chunks(SLOT_SIZE as usize) {
            match decode(slot) {
                Some((key, mark)) => drop(marks.of.insert(key, mark)),
                None => marks.damaged += 1,
            }
        }
        Ok(marks)
    }
}

/// The file, open for entries. It has a name of its own until [`LogEnds::publish`].
#[derive(Debug)]
pub(crate) struct LogEnds {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    slots: AtomicU64,
    /// Whether a failure was logged.
    failed: AtomicBool,
}

impl LogEnds {
    pub(crate) fn create(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<Arc<Self>> {
        let path = dir.join(FILE);
        let file = disk.create(&disk::with_suffix(&path, ".tmp"))?;
        Ok(Arc::new(Self {
            disk,
            path,
            file,
            slots: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        }))
    }

    /// Replaces the file of the earlier process.
    pub(crate) fn publish(&self) -> io::Result<()> {
        self.file.sync()?;
        self.disk.rename(&disk::with_suffix(&self.path, ".tmp"), &self.path)?;
        match self.path.parent() {
            Some(dir) => self.disk.sync_dir(dir),
            None => Ok(()),
        }
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// The ledger of one partition. It has no entry before the first append.
    pub(crate) fn ledger(self: &Arc<Self>, key: PartitionKey) -> Arc<PartitionLedger> {
        Arc::new(PartitionLedger {
            ends: Arc::clone(self),
            key,
            slot: OnceLock::new(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct PartitionLedger {
    ends: Arc<LogEnds>,
    key: PartitionKey,
    slot: OnceLock<u64>,
}

impl Ledger for PartitionLedger {
    fn note(&self, mark: &LogMark) {
        if mark.end_offset == 0 && mark.log_start_offset == 0 {
            return;
        }
        let slot = *self
            .slot
            .get_or_init(|| self.ends.slots.fetch_add(1, Ordering::Relaxed));
        let written = self.ends.file.write_at(&encode(self.key, mark), &[], slot * SLOT_SIZE);
        if let Err(error) = written
            && !self.ends.failed.swap(true, Ordering::Relaxed)
        {
            tracing::error!(
                event = "log_ends_not_written",
                file = %self.ends.path.display(),
                %error,
                "cannot write the log ends; a loss of records before the next checkpoint may go unnoticed"
            );
        }
    }
}

fn encode((topic, partition): PartitionKey, mark: &LogMark) -> Vec<u8> {
    let mut slot = Vec::with_capacity(SLOT_SIZE as usize);
    slot.put_u32(VERSION);
    slot.extend_from_slice(topic.as_bytes());
    slot.put_i32(partition);
    slot.put_i64(mark.log_start_offset);
    slot.put_i64(mark.synced_offset);
    slot.put_i64(mark.high_watermark);
    slot.put_i64(mark.end_offset);
    slot.put_i64(mark.active_base);
    slot.put_u32(mark.active_size);
    slot.put_u32(mark.last_crc.unwrap_or(0));
    slot.put_u32(u32::from(mark.last_crc.is_some()));
    slot.put_u32(crc32c::crc32c(&slot));
    invariant!(
        slot.len() == COVERED + size_of::<u32>(),
        "an_entry_has_the_size_that_is_read_back"
    );
    slot.resize(SLOT_SIZE as usize, 0);
    slot
}

fn decode(slot: &[u8]) -> Option<(PartitionKey, LogMark)> {
    let (covered, mut crc) = slot.split_at_checked(COVERED)?;
    if crc.try_get_u32().ok()? != crc32c::crc32c(covered) {
        return None;
    }
    let mut rest = covered;
    (rest.get_u32() == VERSION).then_some(())?;
    let (id, after) = rest.split_first_chunk::<16>()?;
    rest = after;
    let key = (Uuid::from_bytes(*id), rest.get_i32());
    let mark = LogMark {
        log_start_offset: rest.get_i64(),
        synced_offset: rest.get_i64(),
        high_watermark: rest.get_i64(),
        end_offset: rest.get_i64(),
        active_base: rest.get_i64(),
        active_size: rest.get_u32(),
        last_crc: Some(rest.get_u32()).filter(|_| rest.get_u32() == 1),
    };
    Some((key, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_and_a_flipped_bit_is_noticed() {
        let key = (Uuid::from_bytes([7; 16]), 3);
        for last_crc in [None, Some(9)] {
            let mark = LogMark {
                log_start_offset: 1,
                synced_offset: 2,
                high_watermark: 3,
                end_offset: 4,
                active_base: 5,
                active_size: 6,
                last_crc,
            };
            let slot = encode(key, &mark);
            assert_eq!(decode(&slot), Some((key, mark)));
            for place in 0..COVERED + 4 {
                let mut damaged = slot.clone();
                damaged[place] ^= 1;
                assert_eq!(decode(&damaged), None, "byte {place}");
            }
        }
    }
}
