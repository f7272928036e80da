//! A pool of compressors, which are large.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use milena_wire::compression::{Codec, Compression, Compressor};

pub(super) struct Compressors {
    pub(super) compression: Compression,
    idle: Mutex<Vec<Compressor>>,
}

impl Compressors {
    pub(super) fn new(compression: Compression) -> Self {
        Self {
            compression,
            idle: Mutex::default(),
        }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.compression.codec() != Codec::None
    }

    /// `None` without compression.
    pub(super) fn take(&self) -> Option<Compressor> {
        if !self.is_enabled() {
            return None;
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Some(idle.unwrap_or_else(|| Compressor::new(self.compression)))
    }

    pub(super) fn put_back(&self, compressor: Compressor) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(compressor);
    }
}

impl fmt::Debug for Compressors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compressors({:?})", self.compression)
    }
}
