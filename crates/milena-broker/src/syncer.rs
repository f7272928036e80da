//! Syncing: one thread that does it for all partitions, so that writers who wait together share one sync.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::partition::Partition;

/// In `os` mode a power cut takes at most what was written in this time, or this much.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_BYTES: usize = 16 << 20;
/// Where a sync takes long, writers have had the time to come.
const PAUSE_MAX: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Syncer {
    queue: mpsc::Sender<Job>,
    unsynced_bytes: Arc<AtomicUsize>,
    failed: Arc<AtomicBool>,
}

/// What the syncer was asked for by those who write to a partition, and has not begun yet.
#[derive(Debug, Default)]
pub(crate) struct SyncRequest(AtomicU8);

impl SyncRequest {
    const NONE: u8 = 0;
    const SOON: u8 = 1;
    const NOW: u8 = 2;

    /// Asks for at least this much; gives what was asked for before.
    fn raise(&self, wanted: u8) -> u8 {
        self.0.fetch_max(wanted, Ordering::AcqRel)
    }
}

enum Job {
    /// Writers wait for it.
    Now(Arc<Partition>),
    /// At the end of the window is soon enough.
    Soon(Arc<Partition>),
    /// The window is full of bytes.
    Flush,
    Stop,
}

impl Syncer {
    /// Starts the thread; it ends after [`Syncer::stop`].
    pub(crate) fn start() -> std::io::Result<(Self, JoinHandle<()>)> {
        Self::with_window(WINDOW)
    }

    fn with_window(window: Duration) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (queue, jobs) = mpsc::channel();
        let unsynced_bytes = Arc::new(AtomicUsize::new(0));
        let failed = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            jobs,
            unsynced_bytes: Arc::clone(&unsynced_bytes),
            failed: Arc::clone(&failed),
            dirty: vec![],
            window,
            window_end: None,
            pause: Duration::ZERO,
        };
        let thread = std::thread::Builder::new()
            .name("milena-sync".to_owned())
            .spawn(|| worker.run())?;
        let syncer = Self {
            queue,
            unsynced_bytes,
            failed,
        };
        Ok((syncer, thread))
    }

    /// Somebody waits for a sync of this partition. If one is asked for already and has not begun, that one will do.
    pub(crate) fn request(&self, partition: &Arc<Partition>) {
        if partition.sync_request.raise(SyncRequest::NOW) < SyncRequest::NOW {
            let _ = self.queue.send(Job::Now(Arc::clone(partition)));
        }
    }

    /// Bytes were written that must be synced within the window.
    pub(crate) fn written(&self, partition: &Arc<Partition>, bytes: usize) {
        if partition.sync_request.raise(SyncRequest::SOON) < SyncRequest::SOON {
            let _ = self.queue.send(Job::Soon(Arc::clone(partition)));
        }
        let before = self.unsynced_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < WINDOW_BYTES && before + bytes >= WINDOW_BYTES {
            let _ = self.queue.send(Job::Flush);
        }
    }

    /// Whether a sync has failed: what was written since may be lost, so nothing more may be promised.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        let _ = self.queue.send(Job::Stop);
    }
}

struct Worker {
    jobs: mpsc::Receiver<Job>,
    unsynced_bytes: Arc<AtomicUsize>,
    failed: Arc<AtomicBool>,
    /// What the window holds.
    dirty: Vec<Arc<Partition>>,
    /// How long it is open at most.
    window: Duration,
    window_end: Option<Instant>,
    /// A part of the time that the last sync took, which those whom it let go need to write again.
    pause: Duration,
}

impl Worker {
    fn run(mut self) {
        loop {
            let job = match self.window_end {
                None => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(end) => self.jobs.recv_timeout(end.saturating_duration_since(Instant::now())),
            };
            match job {
                Ok(Job::Now(partition)) => self.sync_now(&partition),
                Ok(Job::Soon(partition)) => {
                    self.put_into_window(partition);
                }
                Ok(Job::Flush) | Err(RecvTimeoutError::Timeout) => self.flush(),
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }

    /// The window ends when the first of its partitions wants to be synced.
    fn put_into_window(&mut self, partition: Arc<Partition>) {
        let flush_ms = u64::try_from(partition.log.config().flush_ms).unwrap_or(0);
        let end = Instant::now() + self.window.min(Duration::from_millis(flush_ms));
        self.window_end = Some(self.window_end.map_or(end, |before| before.min(end)));
        self.dirty.push(partition);
    }

    fn flush(&mut self) {
        self.window_end = None;
        self.unsynced_bytes.store(0, Ordering::Relaxed);
        for partition in std::mem::take(&mut self.dirty) {
            // Somebody may have been in a hurry and had it synced already.
            if partition.sync_request.raise(SyncRequest::NONE) != SyncRequest::NONE {
                self.sync(&partition);
            }
        }
    }

    /// Syncs for those who wait. If they are many, half of them would otherwise always come just after it has begun:
    /// those whom the last sync has let go.
    fn sync_now(&mut self, partition: &Partition) {
        if partition.busy.load(Ordering::Relaxed) {
            std::thread::sleep(self.pause);
        }
        let began = Instant::now();
        self.sync(partition);
        self.pause = (began.elapsed() / 4).min(PAUSE_MAX);
        let requested_meanwhile = partition.sync_request.raise(SyncRequest::NONE) != SyncRequest::NONE;
        partition.busy.store(requested_meanwhile, Ordering::Relaxed);
    }

    fn sync(&self, partition: &Partition) {
        // Whoever writes from here on needs another sync.
        partition.sync_request.0.store(SyncRequest::NONE, Ordering::Release);
        if let Err(error) = partition.sync() {
            // After a failed sync nobody knows what the disk has; trying again could succeed and prove nothing.
            self.failed.store(true, Ordering::Relaxed);
            tracing::error!(topic = %partition.topic, partition = partition.index, %error, "cannot sync");
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use milena_log::{Log, LogConfig, Opening, disk::MemoryDisk};
    use milena_wire::records::{BatchBuilder, BatchOptions, NewRecord};

    use super::*;

    /// Longer than any test.
    const ENDLESS: Duration = Duration::from_secs(100_000);

    fn partition(config: LogConfig) -> Arc<Partition> {
        let opening = Opening::default();
        let log = Log::open(Arc::new(MemoryDisk::new()), "/letters-0".as_ref(), config, opening).unwrap();
        Arc::new(Partition::new("letters".into(), 0, log))
    }

    fn batch() -> Bytes {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let record = NewRecord {
            timestamp: 1,
            key: None,
            value: Some(b"value"),
            headers: &[],
        };
        builder.append(&record).unwrap();
        builder.finish()
    }

    /// Whether offset 0 is synced, before the test would have to be given up.
    async fn is_synced(partition: &Partition) -> bool {
        let synced = partition.wait_synced(0);
        tokio::time::timeout(Duration::from_secs(60), synced).await.is_ok()
    }

    #[tokio::test]
    async fn who_is_in_a_hurry_does_not_wait_for_the_window() {
        let (syncer, _thread) = Syncer::with_window(ENDLESS).unwrap();
        let partition = partition(LogConfig::default());
        partition.append(&batch(), 0, 1, &syncer).unwrap();
        assert!(partition.log.is_dirty());
        syncer.request(&partition);
        assert!(is_synced(&partition).await);
        syncer.stop();
    }

    #[tokio::test]
    async fn flush_ms_ends_the_window_earlier() {
        let (syncer, _thread) = Syncer::with_window(ENDLESS).unwrap();
        let slow = partition(LogConfig::default());
        slow.append(&batch(), 0, 1, &syncer).unwrap();
        let quick = partition(LogConfig {
            flush_ms: 1,
            ..LogConfig::default()
        });
        quick.append(&batch(), 0, 1, &syncer).unwrap();
        assert!(is_synced(&quick).await);
        syncer.stop();
    }

    #[tokio::test]
    async fn flush_messages_makes_every_so_many_records_wait_for_a_sync() {
        let (syncer, _thread) = Syncer::with_window(ENDLESS).unwrap();
        let partition = partition(LogConfig {
            flush_messages: 2,
            ..LogConfig::default()
        });
        let waits = |acks| {
            let appended = partition.append(&batch(), 0, 1, &syncer).unwrap();
            partition.syncs_before_response(acks, appended.last_offset, &syncer)
        };
        assert!(!waits(-1));
        assert!(waits(1), "two records, whatever the acks");
        assert!(is_synced(&partition).await);
        assert!(!partition.log.is_dirty());
        syncer.stop();
    }
}
