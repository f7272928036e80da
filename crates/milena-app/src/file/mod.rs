//! Applications declared in TOML files, with a key for every setter of [`App`] and [`Policy`](crate::policy::Policy).
//!
//! ```toml
//! group = "billing"
//!
//! [kafka]                                  # settings of all clients, under Kafka's names
//! "bootstrap.servers" = "127.0.0.1:9092"
//!
//! [app]
//! commit_interval = "1s"
//!
//! [breakers.payments]
//! failure_percent = 50
//!
//! [[handlers]]
//! topic = "orders"
//! breakers = ["payments"]
//! timeout = "5s"
//! retry = { attempts = 5, topics = ["1m", "5m", "15m"] }
//! ```
//!
//! Handlers are Rust code, or programs and services for `milena run`.

mod commands;
mod error;
mod handlers;
mod keys;
mod overrides;
mod replay;
mod saga;
mod settings;
mod source;

use std::{collections::BTreeMap, path::Path, time::Duration};

use milena_client::config::ConfigMap;
use toml::Value;

pub use error::{FileError, FileErrors, LocatedError};
pub use handlers::HandlerFile;
pub use saga::SagaFile;

use crate::{
    App, Replay, UnknownTopic,
    policy::{Breaker, Watermarks, WhenOpen, WhenStalled},
    settings::{Limits, Settings},
};
use keys::{Keys, Report, Size, shown};
use source::Source;

/// Scope of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Declarations,
    /// Programs and services too.
    Handlers,
}

/// An application declared in a file.
#[derive(Debug, Clone)]
pub struct AppFile {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) breakers: BTreeMap<String, Breaker>,
    pub(crate) bulkheads: BTreeMap<String, u32>,
    pub(crate) wait_for_topics: bool,
    pub(crate) unknown_topics: Vec<(String, UnknownTopic)>,
    pub(crate) source: Source,
    /// In the order of the file.
    pub handlers: Vec<HandlerFile>,
    /// Replay to run instead of the group's own offsets.
    pub replay: Option<Replay>,
}

impl AppFile {
    /// Reads a file whose handlers are Rust code, programs or services.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileErrors> {
        Self::read_for(path.as_ref(), Scope::Declarations)
    }

    /// Reads a file for `milena run`: each handler must be an existing program or a service. Starts nothing.
    pub fn read_runnable(path: impl AsRef<Path>) -> Result<Self, FileErrors> {
        Self::read_for(path.as_ref(), Scope::Handlers)
    }

    fn read_for(path: &Path, scope: Scope) -> Result<Self, FileErrors> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse_for(&text, Some(&name), scope),
            Err(error) => Err(FileErrors {
                file: Some(name),
                errors: vec![LocatedError {
                    line: None,
                    error: FileError::Unreadable(error.to_string()),
                }],
            }),
        }
    }

    /// Parses a file, and reports all errors at once.
    pub fn parse(text: &str) -> Result<Self, FileErrors> {
        Self::parse_for(text, None, Scope::Declarations)
    }

    fn parse_for(text: &str, name: Option<&str>, scope: Scope) -> Result<Self, FileErrors> {
        let (source, mut table) = Source::parse(text, name)?;
        let unset = source::expand(&mut table, &|variable| std::env::var(variable).ok(), &source);
        let report = Report::new(&source, unset);
        let mut file = Self::from_keys(&Keys::new("", &table, &report));
        let mut errors = report.errors();
        errors.extend(settings::errors(&file.settings, &source));
        if scope == Scope::Handlers {
            errors.extend(commands::errors(&file.handlers, &source));
        }
        if errors.is_empty() {
            file.source = source;
            return Ok(file);
        }
        errors.sort_by_key(|error| error.line);
        Err(source.errors(errors))
    }

    fn from_keys(keys: &Keys<'_>) -> Self {
        let instance: Option<String> = keys.get("instance");
        let settings = Settings {
            group: keys.required("group").unwrap_or_default(),
            has_instance: instance.is_some(),
            instance: instance.unwrap_or_else(|| format!("milena-{}", std::process::id())),
            common: client_settings(keys, "kafka"),
            consumer: client_settings(keys, "consumer"),
            producer: client_settings(keys, "producer"),
        };
        let (mut limits, mut wait_for_topics) = (Limits::default(), false);
        if let Some(app) = keys.inner("app") {
            read_limits(&app, &mut limits);
            wait_for_topics = app.get("wait_for_topics").unwrap_or(false);
            app.finish();
        }
        let file = Self {
            settings,
            limits,
            breakers: read_breakers(keys),
            bulkheads: read_bulkheads(keys),
            wait_for_topics,
            unknown_topics: replay::unknown_topics(keys),
            replay: replay::replay(keys),
            source: Source::default(),
            handlers: keys.list("handlers").iter().map(HandlerFile::from_keys).collect(),
        };
        keys.finish();
        file
    }

    /// Returns the application without its handlers. [`App::on`] and the other registrations use the policies that the
    /// file has for their topics. A handler in the file without code is an error at start.
    pub fn app(&self) -> App {
        App::from_file(self)
    }
}

fn read_limits(app: &Keys<'_>, limits: &mut Limits) {
    let set = |key, field: &mut Duration| {
        if let Some(time) = app.get(key) {
            *field = time;
        }
    };
    set("commit_interval", &mut limits.commit_interval);
    set("transaction_window", &mut limits.window);
    set("drain", &mut limits.drain);
    set("final_commit", &mut limits.final_commit);
    set("close_timeout", &mut limits.close_timeout);
    set("shutdown_timeout", &mut limits.shutdown);
    set("stalled_after", &mut limits.stalled_after);
    let stalled = app.get_as(
        "when_stalled",
        "\"tell\", \"try-again\", \"stop\" or \"end\"",
        |value| match value.as_str()? {
            "tell" => Some(WhenStalled::Report),
            "try-again" => Some(WhenStalled::Retry),
            "stop" => Some(WhenStalled::Stop),
            "end" => Some(WhenStalled::End),
            _ => None,
        },
    );
    if let Some(action) = stalled {
        limits.when_stalled = action;
    }
    let crashes = app.get_as("crash_limit", "\"none\", or a number from 2 to 100", |value| {
        if value.as_str() == Some("none") {
            return Some(None);
        }
        let crashes = value.as_integer().and_then(|crashes| u32::try_from(crashes).ok());
        crashes.filter(|crashes| (2..=100).contains(crashes)).map(Some)
    });
    if let Some(crashes) = crashes {
        limits.crash_limit = crashes;
    }
    if let Some(records) = app.get("in_flight") {
        limits.in_flight = Watermarks::high(records);
    }
    if let Some(Size(bytes)) = app.get("buffer") {
        limits.buffer = Watermarks::high(bytes);
    }
    if let Some(percent) = app.get("partition_percent") {
        limits.partition_percent = percent;
    }
    limits.commit_every = app.get("commit_every");
    if let Some(count) = app.get("consumers") {
        limits.consumers = count;
    }
    if let Some(count) = app.get("workers") {
        limits.workers = count;
    }
}

/// Kafka's names have dots, which TOML reads as nested tables unless they are quoted; both forms mean the same.
fn client_settings(keys: &Keys<'_>, key: &'static str) -> ConfigMap {
    let mut map = ConfigMap::new();
    if let Some(inner) = keys.inner(key) {
        for (name, value) in inner.free() {
            flatten(&inner, name, value, &mut map);
        }
    }
    map
}

fn flatten(keys: &Keys<'_>, name: &str, value: &Value, map: &mut ConfigMap) {
    let text = match value {
        Value::Table(table) => {
            for (inner, value) in table {
                flatten(keys, &format!("{name}.{inner}"), value, map);
            }
            return;
        }
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(","),
        value => plain(value),
    };
    map.set_from(name, text, keys.source().origin(&keys.path(name)));
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| shown(value), str::to_owned)
}

fn read_breakers(keys: &Keys<'_>) -> BTreeMap<String, Breaker> {
    let Some(all) = keys.inner("breakers") else {
        return BTreeMap::new();
    };
    let mut breakers = BTreeMap::new();
    for (name, value) in all.free() {
        let Some(table) = value.as_table() else {
            let (path, found) = (all.path(name), shown(value));
            let expected = "a table";
            all.error(name, FileError::Invalid { path, found, expected });
            continue;
        };
        let keys = all.nested(name, table);
        let mut breaker = Breaker::default();
        if let Some(percent) = keys.get("failure_percent") {
            breaker = breaker.failure_percent(percent);
        }
        if let Some(calls) = keys.get("calls") {
            breaker = breaker.calls(calls);
        }
        if let Some(calls) = keys.get("calls_min") {
            breaker = breaker.calls_min(calls);
        }
        if let Some(time) = keys.get("open") {
            breaker = breaker.open(time);
        }
        if let Some(time) = keys.get("open_max") {
            breaker = breaker.open_max(time);
        }
        if let Some(calls) = keys.get("probes") {
            breaker = breaker.probes(calls);
        }
        let when_open = keys.get_as("when_open", "\"pause\" or \"dead-letter\"", |value| {
            match value.as_str()? {
                "pause" => Some(WhenOpen::Pause),
                "dead-letter" => Some(WhenOpen::DeadLetter),
                _ => None,
            }
        });
        if let Some(when_open) = when_open {
            breaker = breaker.when_open(when_open);
        }
        keys.finish();
        breakers.insert(name.clone(), breaker);
    }
    breakers
}

fn read_bulkheads(keys: &Keys<'_>) -> BTreeMap<String, u32> {
    let Some(all) = keys.inner("bulkheads") else {
        return BTreeMap::new();
    };
    let mut bulkheads = BTreeMap::new();
    for (name, value) in all.free() {
        match value.as_integer().and_then(|permits| u32::try_from(permits).ok()) {
            Some(permits) => drop(bulkheads.insert(name.clone(), permits)),
            None => {
                let (path, found) = (all.path(name), shown(value));
                let expected = "a number of permits";
                all.error(name, FileError::Invalid { path, found, expected });
            }
        }
    }
    bulkheads
}

#[cfg(test)]
mod tests;
