//! Syncing: one thread that does it for all partitions, so that writers who wait together share one sync.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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
        let (queue, jobs) = mpsc::channel();
        let unsynced_bytes = Arc::new(AtomicUsize::new(0));
        let failed = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            jobs,
            unsynced_bytes: Arc::clone(&unsynced_bytes),
            failed: Arc::clone(&failed),
            dirty: vec![],
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
        if !partition.dirty.swap(true, Ordering::AcqRel) {
            let _ = self.queue.send(Job::Now(Arc::clone(partition)));
        }
    }

    /// Bytes were written that must be synced within the window.
    pub(crate) fn written(&self, partition: &Arc<Partition>, bytes: usize) {
        if !partition.dirty.swap(true, Ordering::AcqRel) {
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
                    self.dirty.push(partition);
                    self.window_end.get_or_insert_with(|| Instant::now() + WINDOW);
                }
                Ok(Job::Flush) | Err(RecvTimeoutError::Timeout) => self.flush(),
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
        }
    }

    fn flush(&mut self) {
        self.window_end = None;
        self.unsynced_bytes.store(0, Ordering::Relaxed);
        for partition in std::mem::take(&mut self.dirty) {
            self.sync(&partition);
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
        partition
            .busy
            .store(partition.dirty.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn sync(&self, partition: &Partition) {
        // Whoever writes from here on needs another sync.
        partition.dirty.store(false, Ordering::Release);
        if let Err(error) = partition.sync() {
            // After a failed sync nobody knows what the disk has; trying again could succeed and prove nothing.
            self.failed.store(true, Ordering::Relaxed);
            tracing::error!(topic = %partition.topic, partition = partition.index, %error, "cannot sync");
        }
    }
}
