//! Files of a configuration: bounded reads, and cheap detection of changes.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ring::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::{Source, TlsError, TlsOptions};

/// A store of all public CAs has a quarter of a megabyte.
const BYTES_MAX: u64 = 16 << 20;
/// Files in a directory of CAs.
const ENTRIES_MAX: usize = 10_000;
/// Two writes within this time may have the same time stamp.
const STAMP_GRANULARITY: Duration = Duration::from_secs(2);

/// Content of a source, wiped after use because it may be a private key.
pub(super) type Content = Zeroizing<Vec<u8>>;

/// Reads the files of one load, and remembers a digest of everything it read.
pub(super) struct Files {
    digest: Context,
}

impl Files {
    pub(super) fn new() -> Self {
        Self {
            digest: Context::new(&SHA256),
        }
    }

    pub(super) fn read(&mut self, role: &'static str, source: &Source) -> Result<Content, TlsError> {
        let content = match source {
            Source::Text(text) => Zeroizing::new(text.expose().as_bytes().to_vec()),
            Source::File(path) => read_bounded(path).map_err(|problem| TlsError::Material {
                role,
                origin: path.display().to_string(),
                problem,
            })?,
        };
        self.digest.update(&content.len().to_be_bytes());
        self.digest.update(&content);
        Ok(content)
    }

    /// The digest of everything that was read.
    pub(super) fn finish(self) -> Vec<u8> {
        self.digest.finish().as_ref().to_vec()
    }
}

/// The files in a directory, in the order of their names.
pub(super) fn list(role: &'static str, directory: &Path) -> Result<Vec<PathBuf>, TlsError> {
    let error = |problem: String| TlsError::Material {
        role,
        origin: directory.display().to_string(),
        problem,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(|problem| error(problem.to_string()))? {
        let path = entry.map_err(|problem| error(problem.to_string()))?.path();
        if path.is_file() {
            paths.push(path);
        }
        if paths.len() > ENTRIES_MAX {
            return Err(error(format!("has more than {ENTRIES_MAX} files")));
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_bounded(path: &Path) -> Result<Content, String> {
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut content = Zeroizing::new(Vec::new());
    let read = file.take(BYTES_MAX + 1).read_to_end(&mut content);
    let read = read.map_err(|error| format!("cannot be read: {error}"))?;
    if read as u64 > BYTES_MAX {
        return Err(format!("has more than {} MiB", BYTES_MAX >> 20));
    }
    Ok(content)
}

/// State of a configuration's files, without their content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    files: Vec<(PathBuf, Option<Stamp>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Changes when a file is replaced by another, whatever its times say.
    #[cfg(unix)]
    inode: (u64, u64, i64, i64),
}

impl Stamps {
    /// Looks at all files that the options name, and at those in directories.
    pub(super) fn of(options: &TlsOptions) -> Self {
        let sources = [
            &options.keystore,
            &options.key,
            &options.certificate_chain,
            &options.truststore,
            &options.truststore_certificates,
            &options.crl,
        ];
        let mut files = Vec::new();
        for source in sources.into_iter().flatten() {
            let Source::File(path) = source else { continue };
            files.push((path.clone(), Stamp::of(path)));
            if path.is_dir() {
                let inside = list("trust store", path).unwrap_or_default();
                files.extend(inside.into_iter().map(|path| {
                    let stamp = Stamp::of(&path);
                    (path, stamp)
                }));
            }
        }
        Self { files }
    }

    /// Whether a file is so young that a later write may leave its stamp as it is.
    pub(super) fn is_young(&self, now: SystemTime) -> bool {
        let modified = |stamp: &Option<Stamp>| stamp.as_ref().and_then(|stamp| stamp.modified);
        self.files
            .iter()
            .filter_map(|(_, stamp)| modified(stamp))
            .any(|modified| {
                // A time in the future is young as well.
                now.duration_since(modified).is_ok_and(|age| age < STAMP_GRANULARITY) || modified > now
            })
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt;
                (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
            },
        })
    }
}
