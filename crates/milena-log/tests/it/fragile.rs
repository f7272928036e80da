//! A disk that refuses to change anything after a number of operations, as a process that is killed there would.

use std::{
    fmt::Debug,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use milena_log::disk::{DirEntry, Disk, DiskFile, MemoryDisk};

#[derive(Debug, Clone)]
pub struct FragileDisk {
    pub inner: MemoryDisk,
    left: Arc<AtomicUsize>,
}

impl FragileDisk {
    pub fn new(inner: MemoryDisk) -> Self {
        Self {
            inner,
            left: Arc::new(AtomicUsize::new(usize::MAX)),
        }
    }

    /// From now on only so many operations more succeed.
    pub fn break_after(&self, operations: usize) {
        self.left.store(operations, Ordering::Relaxed);
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let left = Arc::clone(&self.left);
        Arc::new(FragileFile { file, left })
    }
}

fn spend(left: &AtomicUsize) -> io::Result<()> {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
        .map(drop)
        .map_err(|_| io::Error::other("this disk is broken"))
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
    left: Arc<AtomicUsize>,
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
