//! The syncer: one thread that syncs all partitions, so that writers who wait together share one sync.

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

/// In `os` mode a power cut loses at most the records of this time, or this many bytes.
const WINDOW: Duration = Duration::from_secs(1);
const WINDOW_BYTES: usize = 16 << 20;
/// The longest pause before a sync: during a slow sync all writers have had time to append.
const PAUSE_MAX: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Syncer {
    queue: mpsc::Sender<Job>,
    unsynced_bytes: Arc<AtomicUsize>,
    failed: Arc<AtomicBool>,
}

/// The sync that writers of a partition have requested and that has not begun.
#[derive(Debug, Default)]
pub(crate) struct SyncRequest(AtomicU8);

impl SyncRequest {
    const NONE: u8 = 0;
    const SOON: u8 = 1;
    const NOW: u8 = 2;

    /// Requests at least this urgency; returns the one that was requested before.
    fn raise(&self, urgency: u8) -> u8 {
        self.0.fetch_max(urgency, Ordering::AcqRel)
    }
}

enum Job {
    /// Writers wait for it.
    Now(Arc<Partition>),
    /// The sync may wait for the end of the window.
    Soon(Arc<Partition>),
    /// The window has reached its limit of bytes.
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

    /// Requests a sync that a writer waits for. One that was requested already and has not begun serves all.
    pub(crate) fn request(&self, partition: &Arc<Partition>) {
        if partition.sync_request.raise(SyncRequest::NOW) < SyncRequest::NOW {
            let _ = self.queue.send(Job::Now(Arc::clone(partition)));
        }
    }

    /// Counts bytes that must be synced within the window.
    pub(crate) fn written(&self, partition: &Arc<Partition>, bytes: usize) {
        if partition.sync_request.raise(SyncRequest::SOON) < SyncRequest::SOON {
            let _ = self.queue.send(Job::Soon(Arc::clone(partition)));
        }
        let before = self.unsynced_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < WINDOW_BYTES && before + bytes >= WINDOW_BYTES {
            let _ = self.queue.send(Job::Flush);
        }
    }

    /// Whether a sync has failed: records may be lost, so no more writes may be acknowledged.
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
    /// The partitions in the window.
    dirty: Vec<Arc<Partition>>,
    /// The longest time that the window is open.
    window: Duration,
    window_end: Option<Instant>,
    /// A part of the duration of the last sync, in which the writers that it released can append again.
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

    /// Adds a partition to the window, which ends with the earliest `flush.ms` of its partitions.
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
            // A writer that waits may have had it synced already.
            if partition.sync_request.raise(SyncRequest::NONE) != SyncRequest::NONE {
                self.sync(&partition);
            }
        }
    }

    /// Syncs for writers that wait. If there are many, it pauses first: else half of them, those that the last sync released,
    /// would always append just after the next sync has begun.
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
        // Records that are appended from here on need another sync.
        partition.sync_request.0.store(SyncRequest::NONE, Ordering::Release);
        if let Err(error) = partition.sync() {
            // After a failed sync the state of the disk is unknown; a retry could succeed without having written anything.
            self.failed.store(true, Ordering::Relaxed);
            tracing::error!(
                event = "sync_failed",
                topic = %partition.topic,
                partition = partition.index,
                %error,
                "cannot sync a log; writes are refused until the broker restarts"
            );
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

    /// Whether offset 0 is synced within a minute.
    async fn is_synced(partition: &Partition) -> bool {
        let synced = partition.wait_synced(0);
        tokio::time::timeout(Duration::from_secs(60), synced).await.is_ok()
    }

    #[tokio::test]
    async fn a_requested_sync_does_not_wait_for_the_window() {
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
