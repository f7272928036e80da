//! The one seam through which this crate touches files: a real file system, or one in memory that tests can crash.

mod memory;
mod own;
mod real;

pub use memory::MemoryDisk;
pub(crate) use own::{OwnDisk, Retired};
pub use real::RealDisk;

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file system.
///
/// Written bytes survive the death of this process as soon as a call returns. They survive a power cut only after
/// [`DiskFile::sync`]; the creation, renaming or removal of a file does so only after [`Disk::sync_dir`] of its
/// folder.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file that exists.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates an empty file; one that exists is emptied.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The entries of a folder, in no particular order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Creates a folder and those above it, where they are missing.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file or folder, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder with all that is in it.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the lock of a file, creating it; fails with `WouldBlock` if another has it. Dropping the guard frees it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send + Sync>>;
}

/// An open file. Positions are given with each call, so one handle serves readers and a writer at once.
pub trait DiskFile: Debug + Send + Sync {
    fn size(&self) -> io::Result<u64>;

    /// Reads into `buffer` and returns the number of bytes; fewer than requested only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all of both parts, one after the other.
    fn write_at(&self, first: &[u8], second: &[u8], position: u64) -> io::Result<()>;

    fn truncate(&self, len: u64) -> io::Result<()>;

    fn sync(&self) -> io::Result<()>;

    /// The file for `sendfile`, where there is one.
    fn as_file(&self) -> Option<&std::fs::File> {
        None
    }
}

/// A file or folder in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
    pub len: u64,
}

/// The whole content of a file.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let len = usize::try_from(file.size()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut content = vec![0; len];
    let read = file.read_at(&mut content, 0)?;
    content.truncate(read);
    Ok(content)
}

/// Replaces the content of a file atomically, even through a power cut.
pub fn replace_file(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let new = with_suffix(path, ".tmp");
    let file = disk.create(&new)?;
    file.write_at(content, &[], 0)?;
    file.sync()?;
    disk.rename(&new, path)?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}

/// The path with `suffix` at the end of its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
