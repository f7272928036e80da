//! Kafka's three providers of secrets.

use std::{
    env,
    fs::File,
    io::Read,
    path::{Component, Path, PathBuf},
};

use milena_config::ConfigMap;
use regex::Regex;
use zeroize::Zeroizing;

/// Secrets are short; a larger file is a mistake.
const BYTES_MAX: u64 = 1 << 20;

/// Where the value of a reference comes from.
#[derive(Clone, Debug)]
pub(super) enum Provider {
    /// A key in a file of Java properties.
    File(Paths),
    /// A whole file in a directory, with its last line break.
    Directory(Paths),
    /// A variable of the environment, if its whole name matches.
    Environment(Option<Regex>),
}

/// Directories and files that may be read. Empty means all.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths(Vec<PathBuf>);

const CLASSES: &str = "FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider of \
                       org.apache.kafka.common.config.provider";

impl Provider {
    pub(super) fn file() -> Self {
        Self::File(Paths::default())
    }

    pub(super) fn directory() -> Self {
        Self::Directory(Paths::default())
    }

    pub(super) fn environment() -> Self {
        Self::Environment(None)
    }

    pub(super) fn of_class(class: &str) -> Result<Self, String> {
        match class.strip_prefix("org.apache.kafka.common.config.provider.") {
            Some("FileConfigProvider") => Ok(Self::file()),
            Some("DirectoryConfigProvider") => Ok(Self::directory()),
            Some("EnvVarConfigProvider") => Ok(Self::environment()),
            _ => Err(format!("the class {class} is not supported; supported are {CLASSES}")),
        }
    }

    /// Sets a parameter of its class.
    pub(super) fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        match (self, parameter) {
            (Self::File(paths) | Self::Directory(paths), "allowed.paths") => {
                let all = value.split(',').map(str::trim).filter(|path| !path.is_empty());
                for path in all {
                    let path = Path::new(path);
                    if !path.is_absolute() {
                        return Err(format!("{} is not an absolute path", path.display()));
                    }
                    if !path.exists() {
                        return Err(format!("{} does not exist", path.display()));
                    }
                    paths.0.push(normalize(path));
                }
                Ok(())
            }
            (Self::Environment(pattern), "allowlist.pattern") => {
                let compiled = Regex::new(&format!("\\A(?:{value})\\z"));
                *pattern = Some(compiled.map_err(|_| format!("`{value}` is not a supported regular expression"))?);
                Ok(())
            }
            (Self::File(_) | Self::Directory(_), other) => {
                Err(format!("there is no parameter `{other}`, only allowed.paths"))
            }
            (Self::Environment(_), other) => Err(format!("there is no parameter `{other}`, only allowlist.pattern")),
        }
    }

    /// The secret itself, or the reason why there is none.
    pub(super) fn get(&self, path: Option<&str>, key: &str) -> Result<Zeroizing<String>, String> {
        match self {
            Self::File(paths) => {
                let path = path.filter(|path| !path.is_empty()).ok_or("write ${file:path:key}")?;
                paths.check(Path::new(path))?;
                let text = read(Path::new(path))?;
                // Its errors could show a line of the file.
                let map = ConfigMap::parse_properties(&text, path)
                    .map_err(|_| format!("{path} is not a file of Java properties"))?;
                let value = map.get(key).ok_or_else(|| format!("{path} has no key `{key}`"))?;
                Ok(Zeroizing::new(value.to_owned()))
            }
            Self::Directory(paths) => {
                let path = path.filter(|path| !path.is_empty()).ok_or("write ${dir:path:file}")?;
                // Only names of files, no way out of the directory.
                if !matches!(
                    Path::new(key).components().collect::<Vec<_>>()[..],
                    [Component::Normal(_)]
                ) {
                    return Err(format!("`{key}` is not the name of a file"));
                }
                paths.check(Path::new(path))?;
                read(&Path::new(path).join(key))
            }
            Self::Environment(pattern) => {
                if path.is_some_and(|path| !path.is_empty()) {
                    return Err("write ${env:NAME}, without a path".to_owned());
                }
                if pattern.as_ref().is_some_and(|pattern| !pattern.is_match(key)) {
                    return Err(format!("allowlist.pattern does not allow `{key}`"));
                }
                env::var(key).map(Zeroizing::new).map_err(|error| match error {
                    env::VarError::NotPresent => format!("the environment variable `{key}` is not set"),
                    env::VarError::NotUnicode(_) => format!("the environment variable `{key}` is not UTF-8"),
                })
            }
        }
    }
}

impl Paths {
    fn check(&self, path: &Path) -> Result<(), String> {
        let normal = normalize(path);
        if self.0.is_empty() || path.is_absolute() && self.0.iter().any(|allowed| normal.starts_with(allowed)) {
            Ok(())
        } else {
            Err(format!("allowed.paths does not allow {}", path.display()))
        }
    }
}

/// Removes `.` and `..` without looking at the file system.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

fn read(path: &Path) -> Result<Zeroizing<String>, String> {
    let error = |problem: String| format!("{} cannot be read: {problem}", path.display());
    let file = File::open(path).map_err(|problem| error(problem.to_string()))?;
    let mut text = Zeroizing::new(String::new());
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    let read = read.map_err(|problem| error(problem.to_string()))?;
    if read as u64 > BYTES_MAX {
        return Err(error("it has more than 1 MiB".to_owned()));
    }
    Ok(text)
}
