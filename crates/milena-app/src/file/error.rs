//! Errors in application files.

use std::fmt;

use milena_machines::saga::DefinitionError;

/// One error in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error("{path} is not a known key; {} {}", hint(*nearest), known.join(", "))]
    Unknown {
        path: String,
        nearest: Option<&'static str>,
        /// Keys that the table may have.
        known: Vec<&'static str>,
    },
    #[error("{path} cannot be {found}; it must be {expected}")]
    Invalid {
        path: String,
        found: String,
        expected: &'static str,
    },
    #[error("{path}: {found} is not a duration such as \"1m\"; the units are ms, s, m, h and d")]
    NotADuration { path: String, found: String },
    #[error("{path} is missing; it must be {expected}")]
    Missing { path: String, expected: &'static str },
    #[error("{path}: the environment variable {name} is not set; set it, or write $${{{name}}} for the text itself")]
    Unset { path: String, name: String },
    #[error("{path}: {problem}")]
    Handler { path: String, problem: String },
    #[error("{path}: {problem}")]
    Saga { path: String, problem: DefinitionError },
    /// A client setting that the client refuses.
    #[error("{0}")]
    Setting(String),
    #[error("{0}")]
    Syntax(String),
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean {name}? Known keys:"),
        None => "known keys:".to_owned(),
    }
}

/// An error with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedError {
    /// Line number from 1; `None` if the error has no line.
    pub line: Option<usize>,
    pub error: FileError,
}

/// All errors of a file, in the order of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors {
    /// Name of the file, unless it was parsed from a string.
    pub file: Option<String>,
    pub errors: Vec<LocatedError>,
}

/// One line per error, starting with the file and the line.
impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, LocatedError { line, error }) in self.errors.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            match (&self.file, line) {
                (Some(file), Some(line)) => write!(f, "{file}:{line}: {error}")?,
                (Some(file), None) => write!(f, "{file}: {error}")?,
                (None, Some(line)) => write!(f, "line {line}: {error}")?,
                (None, None) => error.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}
