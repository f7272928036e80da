//! A disk that refuses all changes after a number of operations, as if the process were killed there, or that runs
//! a function there.

use std::{
    fmt::Debug,
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use milena_log::disk::{DirEntry, Disk, DiskFile, MemoryDisk};

#[derive(Debug, Clone)]
pub struct FragileDisk {
    pub inner: MemoryDisk,
    left: Arc<Left>,
}

/// The operations that are left until something happens.
struct Left {
    operations: AtomicUsize,
    /// The function to run then; `None` if the disk breaks.
    interruption: Mutex<Option<Interruption>>,
}

type Interruption = Box<dyn FnOnce() + Send>;

impl Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} operations", self.operations)
    }
}

impl FragileDisk {
    pub fn new(inner: MemoryDisk) -> Self {
        Self {
            inner,
            left: Arc::new(Left {
                operations: AtomicUsize::new(usize::MAX),
                interruption: Mutex::default(),
            }),
        }
    }

    /// From now on only so many operations more succeed.
    pub fn break_after(&self, operations: usize) {
        self.left.operations.store(operations, Ordering::Relaxed);
    }

    /// Runs `act` once, before the operation after this number of operations.
    pub fn interrupt_after(&self, operations: usize, act: impl FnOnce() + Send + 'static) {
        *self.left.interruption.lock().unwrap() = Some(Box::new(act));
        self.break_after(operations);
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let left = Arc::clone(&self.left);
        Arc::new(FragileFile { file, left })
    }
}

fn spend(left: &Left) -> io::Result<()> {
    let count_down = |left: usize| left.checked_sub(1);
    let operations = &left.operations;
    if operations
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_down)
        .is_ok()
    {
        return Ok(());
    }
    let interruption = left.interruption.lock().unwrap().take();
    let act = interruption.ok_or_else(|| io::Error::other("this disk is broken"))?;
    operations.store(usize::MAX, Ordering::Relaxed);
    act();
    Ok(())
}

impl Disk for FragileDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        spend(&self.left)?;
        Ok(self.file(self.inner.create(path)?))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        spend(&self.left)?;
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send + Sync>> {
        self.inner.lock(path)
    }
}

#[derive(Debug)]
struct FragileFile {
    file: Arc<dyn DiskFile>,
    left: Arc<Left>,
}

impl DiskFile for FragileFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn write_at(&self, first: &[u8], second: &[u8], position: u64) -> io::Result<()> {
        spend(&self.left)?;
        self.file.write_at(first, second, position)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        spend(&self.left)?;
        self.file.truncate(len)
    }

    fn sync(&self) -> io::Result<()> {
        spend(&self.left)?;
        self.file.sync()
    }
}
