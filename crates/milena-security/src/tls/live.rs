//! A configuration that is replaced while it is in use.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::SystemTime,
};

use super::{TlsError, TlsOptions, files::Stamps, material::Material};

/// The present configuration and the state of the files it was made of.
///
/// Readers only copy a pointer. A reload builds everything before it replaces anything.
pub(super) struct Live<C> {
    options: TlsOptions,
    current: RwLock<Arc<C>>,
    seen: Mutex<Seen>,
}

/// Files as they were at the last look, whether usable or not.
struct Seen {
    stamps: Stamps,
    /// Whether a write could have gone unnoticed since.
    is_young: bool,
    digest: Vec<u8>,
    /// Problem of the last load, reported once.
    problem: Option<TlsError>,
}

impl<C> Live<C> {
    pub(super) fn new(
        options: TlsOptions,
        build: impl FnOnce(&TlsOptions, Material) -> Result<C, TlsError>,
    ) -> Result<Self, TlsError> {
        // Before the files are read, so that a change in between is seen at the next look.
        let stamps = Stamps::of(&options);
        let is_young = stamps.is_young(SystemTime::now());
        let material = Material::load(&options)?;
        let digest = material.digest.clone();
        let current = RwLock::new(Arc::new(build(&options, material)?));
        Ok(Self {
            options,
            current,
            seen: Mutex::new(Seen {
                stamps,
                is_young,
                digest,
                problem: None,
            }),
        })
    }

    pub(super) fn current(&self) -> Arc<C> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn reload(
        &self,
        build: impl FnOnce(&TlsOptions, Material) -> Result<C, TlsError>,
    ) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.stamps = Stamps::of(&self.options);
        seen.is_young = seen.stamps.is_young(SystemTime::now());
        let result = self.load(&mut seen, build);
        seen.problem = result.as_ref().err().cloned();
        result
    }

    pub(super) fn reload_if_changed(
        &self,
        build: impl FnOnce(&TlsOptions, Material) -> Result<C, TlsError>,
    ) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = Stamps::of(&self.options);
        if stamps == seen.stamps && !seen.is_young {
            return Ok(false);
        }
        seen.is_young = stamps.is_young(SystemTime::now());
        seen.stamps = stamps;
        let result = self.load(&mut seen, build);
        match &result {
            Err(problem) if seen.problem.as_ref() == Some(problem) => Ok(false),
            _ => {
                seen.problem = result.as_ref().err().cloned();
                result
            }
        }
    }

    fn load(
        &self,
        seen: &mut Seen,
        build: impl FnOnce(&TlsOptions, Material) -> Result<C, TlsError>,
    ) -> Result<bool, TlsError> {
        let material = Material::load(&self.options)?;
        if material.digest == seen.digest {
            return Ok(false);
        }
        let digest = material.digest.clone();
        let config = build(&self.options, material)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        seen.digest = digest;
        Ok(true)
    }
}

impl<C> fmt::Debug for Live<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
