//! A range of a segment's file, to be sent with `sendfile`.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use milena_wire::records::Batches;

use crate::disk::DiskFile;

/// A range of whole batches in a file, possibly with a truncated batch at its end.
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
