//! The log levels of the process that a broker runs in.

use std::{collections::BTreeMap, fmt, str::FromStr};

/// The name of the logger whose level holds for every target without one of its own.
pub const ROOT_LOGGER: &str = "root";

/// A level under Kafka's names. `tracing` has no lines above ERROR, so at FATAL a target is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Fatal,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Shows and changes log levels while the process runs, for `kafka-configs --entity-type broker-loggers`.
///
/// A logger is a `tracing` target, such as `milena_broker` or `milena_broker::net`, or [`ROOT_LOGGER`]. Clients see it with
/// dots, `milena_broker.net`, because Kafka's tools take no colons. As in Kafka, levels are those of the process: they are
/// not stored, and a restart forgets them.
pub trait LogLevels: fmt::Debug + Send + Sync {
    /// The level of each logger; the root is one of them.
    fn levels(&self) -> BTreeMap<String, LogLevel>;

    /// Sets the level of loggers; `None` lets one follow the root again. All of them change, or none does.
    fn change(&self, levels: &BTreeMap<String, Option<LogLevel>>) -> Result<(), String>;
}

impl LogLevel {
    pub const ALL: [Self; 6] = [
        Self::Fatal,
        Self::Error,
        Self::Warn,
        Self::Info,
        Self::Debug,
        Self::Trace,
    ];
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warn => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DEBUG",
            Self::Trace => "TRACE",
        })
    }
}

/// The text is not the name of a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a log level; the levels are FATAL, ERROR, WARN, INFO, DEBUG and TRACE")]
pub struct UnknownLogLevel(pub String);

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let level = Self::ALL
            .into_iter()
            .find(|level| level.to_string().eq_ignore_ascii_case(text));
        level.ok_or_else(|| UnknownLogLevel(text.to_owned()))
    }
}
