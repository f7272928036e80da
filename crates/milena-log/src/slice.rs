//! A stretch of a segment's file, to be sent without passing through memory.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use milena_wire::records::Batches;

use crate::disk::DiskFile;

/// A stretch of whole batches in a file, or one that ends with a batch cut short.
#[derive(Debug, Clone)]
pub struct FileSlice {
    pub file: Arc<dyn DiskFile>,
    pub path: PathBuf,
    pub position: u64,
    pub len: usize,
    /// Bytes of the first batch.
    pub first_batch: usize,
}

impl FileSlice {
    /// The reason why the first batch cannot be read; `None` if it can.
    pub fn problem(&self) -> Option<String> {
        let mut bytes = vec![0; self.first_batch];
        let read = match self.file.read_at(&mut bytes, self.position) {
            Ok(read) => read,
            Err(error) => return Some(error.to_string()),
        };
        bytes.truncate(read);
        let batch = match Batches::new(Bytes::from(bytes)).next()? {
            Ok(batch) => batch,
            Err(error) => return Some(error.to_string()),
        };
        batch.verify().err().map(|error| error.to_string())
    }

    /// The bytes themselves.
    pub fn read(&self) -> std::io::Result<Bytes> {
        let mut bytes = vec![0; self.len];
        let read = self.file.read_at(&mut bytes, self.position)?;
        bytes.truncate(read);
        Ok(Bytes::from(bytes))
    }
}
