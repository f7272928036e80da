//! A file system in memory: for topics that promise nothing, and for tests that cut the power.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{DirEntry, Disk, DiskFile};

/// Files in memory. Clones share the same files.
///
/// With [`MemoryDisk::crashable`] it also keeps the synced state, so that a test can simulate a power cut.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
    remembers: bool,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<MemoryFile>>,
    dirs: BTreeSet<PathBuf>,
    /// Content of a folder after a power cut: the names at its last sync.
    durable_names: BTreeMap<PathBuf, Arc<MemoryFile>>,
    locked: BTreeSet<PathBuf>,
    faults: Faults,
}

/// Faults that are injected from now on.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// Bytes that can still be written before the disk is full.
    room: Option<u64>,
    syncs_fail: bool,
}

impl MemoryDisk {
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that can lose its power.
    pub fn crashable() -> Self {
        Self {
            remembers: true,
            ..Self::default()
        }
    }

    /// The files after a power cut. Synced bytes survive; for each later write, and for the length of the last
    /// one, `survives` gets the number of possible outcomes and chooses one.
    #[must_use]
    pub fn after_power_cut(&self, mut survives: impl FnMut(usize) -> usize) -> Self {
        let state = self.state();
        let mut after = State {
            dirs: state.dirs.clone(),
            ..State::default()
        };
        for (path, file) in &state.durable_names {
            let content = file.content().after_power_cut(&mut survives);
            let file = Arc::new(MemoryFile::new(Arc::downgrade(&self.state), self.remembers));
            *file.content() = content;
            after.files.insert(path.clone(), file);
        }
        after.durable_names = after.files.clone();
        let disk = Self {
            state: Arc::new(Mutex::new(after)),
            remembers: self.remembers,
        };
        for file in disk.state().files.values() {
            *file.disk.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&disk.state);
        }
        disk
    }

    /// Limits the free space from now on; `None` removes the limit.
    pub fn set_room(&self, room: Option<u64>) {
        self.state().faults.room = room;
    }

    /// From now on syncing fails, or no longer does.
    pub fn set_syncs_fail(&self, fail: bool) {
        self.state().faults.syncs_fail = fail;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.state().files.get(path).cloned();
        Ok(file.ok_or(io::ErrorKind::NotFound)?)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = Arc::new(MemoryFile::new(Arc::downgrade(&self.state), self.remembers));
        state.files.insert(path.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.state();
        Ok(state.files.contains_key(path) || state.dirs.contains(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state();
        if !state.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let files = state.files.iter().filter(|(path, _)| path.parent() == Some(dir));
        let files = files.filter_map(|(path, file)| {
            Some(DirEntry {
                name: name(path)?,
                is_dir: false,
                len: file.content().bytes.len() as u64,
            })
        });
        let dirs = state.dirs.iter().filter(|path| path.parent() == Some(dir));
        let dirs = dirs.filter_map(|path| {
            Some(DirEntry {
                name: name(path)?,
                is_dir: true,
                len: 0,
            })
        });
        Ok(files.chain(dirs).collect())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        // Real disks do not make folders durable at once, but no test depends on it.
        self.state().dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        if let Some(file) = state.files.remove(from) {
            state.files.insert(to.to_owned(), file);
            return Ok(());
        }
        if !state.dirs.contains(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let moved = |path: &PathBuf| path.strip_prefix(from).ok().map(|rest| to.join(rest));
        state.files = std::mem::take(&mut state.files)
            .into_iter()
            .map(|(path, file)| (moved(&path).unwrap_or(path), file))
            .collect();
        state.durable_names = std::mem::take(&mut state.durable_names)
            .into_iter()
            .map(|(path, file)| (moved(&path).unwrap_or(path), file))
            .collect();
        state.dirs = std::mem::take(&mut state.dirs)
            .into_iter()
            .map(|path| moved(&path).unwrap_or(path))
            .collect();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.state().files.remove(path);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.files.retain(|path, _| !path.starts_with(dir));
        state.durable_names.retain(|path, _| !path.starts_with(dir));
        state.dirs.retain(|path| !path.starts_with(dir));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        if state.faults.syncs_fail {
            return Err(io::Error::other("this disk fails to sync"));
        }
        let inside = |path: &Path| path.parent() == Some(dir);
        state.durable_names.retain(|path, _| !inside(path));
        let now: Vec<_> = state
            .files
            .iter()
            .filter(|(path, _)| inside(path))
            .map(|(p, f)| (p.clone(), Arc::clone(f)))
            .collect();
        state.durable_names.extend(now);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send + Sync>> {
        if !self.state().locked.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct MemoryFile {
    content: Mutex<Content>,
    disk: Mutex<std::sync::Weak<Mutex<State>>>,
    remembers: bool,
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// The bytes at the last sync, and every change since; only on a disk that can lose its power.
    synced: Vec<u8>,
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    Truncate { len: usize },
}

impl Content {
    fn apply(bytes: &mut Vec<u8>, change: &Change) {
        match change {
            Change::Truncate { len } => bytes.resize(*len, 0),
            Change::Write { position, bytes: new } => {
                let end = position + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                if let Some(place) = bytes.get_mut(*position..end) {
                    place.copy_from_slice(new);
                }
            }
        }
    }

    fn after_power_cut(&self, survives: &mut impl FnMut(usize) -> usize) -> Self {
        let mut bytes = self.synced.clone();
        let kept = survives(self.changes.len() + 1);
        for change in self.changes.iter().take(kept) {
            Self::apply(&mut bytes, change);
        }
        // The change after the kept ones may have happened in part.
        if let Some(Change::Write { position, bytes: new }) = self.changes.get(kept) {
            let torn = Change::Write {
                position: *position,
                bytes: new.iter().copied().take(survives(new.len() + 1)).collect(),
            };
            Self::apply(&mut bytes, &torn);
        }
        Self {
            synced: bytes.clone(),
            bytes,
            changes: vec![],
        }
    }
}

impl MemoryFile {
    fn new(disk: std::sync::Weak<Mutex<State>>, remembers: bool) -> Self {
        Self {
            content: Mutex::default(),
            disk: Mutex::new(disk),
            remembers,
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes free space for `bytes`; returns how many of them fit, and the other faults.
    fn take_room(&self, bytes: usize) -> (usize, Faults) {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let Some(disk) = disk else {
            return (bytes, Faults::default());
        };
        let mut state = disk.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = state
            .faults
            .room
            .map_or(bytes, |room| bytes.min(usize::try_from(room).unwrap_or(bytes)));
        if let Some(room) = &mut state.faults.room {
            *room -= fits as u64;
        }
        (fits, state.faults)
    }

    fn change(&self, change: Change) {
        let mut content = self.content();
        Content::apply(&mut content.bytes, &change);
        if self.remembers {
            content.changes.push(change);
        }
    }
}

impl DiskFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.content().bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let content = self.content();
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let available = content.bytes.get(start..).unwrap_or_default();
        let count = available.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), available.get(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn write_at(&self, first: &[u8], second: &[u8], position: u64) -> io::Result<()> {
        let position = usize::try_from(position).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut bytes = [first, second].concat();
        let (fits, _) = self.take_room(bytes.len());
        let is_full = fits < bytes.len();
        // Like a real disk: the part that fits is written, then the call fails.
        bytes.truncate(fits);
        self.change(Change::Write { position, bytes });
        if is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.change(Change::Truncate { len });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if self.take_room(0).1.syncs_fail {
            return Err(io::Error::other("this disk fails to sync"));
        }
        if self.remembers {
            let mut content = self.content();
            content.synced = content.bytes.clone();
            content.changes.clear();
        }
        Ok(())
    }
}
