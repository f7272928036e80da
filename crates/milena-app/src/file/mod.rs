//! An application declared in a file of TOML: all that [`App`] and [`Policy`](crate::policy::Policy) have setters for.
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
//! Handlers themselves are code, or commands and services for `milena run`.

mod handlers;
mod keys;

use std::{cell::RefCell, collections::BTreeMap, path::Path, time::Duration};

use milena_client::config::ConfigMap;
use toml::{Table, Value};

pub use handlers::HandlerFile;
pub use keys::{FileError, FileErrors};

use crate::{
    App,
    policy::{Breaker, Water, WhenOpen, WhenStalled},
    settings::{Limits, Settings},
};
use keys::{Keys, Size, shown};

/// What a file declares.
#[derive(Debug, Clone)]
pub struct AppFile {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    pub(crate) breakers: BTreeMap<String, Breaker>,
    pub(crate) bulkheads: BTreeMap<String, u32>,
    pub(crate) wait_for_topics: bool,
    /// In the order of the file.
    pub handlers: Vec<HandlerFile>,
}

impl AppFile {
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileErrors> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| {
            FileErrors(vec![FileError::Unreadable {
                path: path.display().to_string(),
                problem: error.to_string(),
            }])
        })?;
        Self::parse(&text)
    }

    /// Reads all of it, and tells all that is wrong at once.
    pub fn parse(text: &str) -> Result<Self, FileErrors> {
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| FileErrors(vec![FileError::Syntax(error.to_string())]))?;
        let errors = RefCell::new(vec![]);
        let file = Self::from_keys(&Keys::new("", &table, &errors));
        let errors = errors.into_inner();
        if errors.is_empty() {
            Ok(file)
        } else {
            Err(FileErrors(errors))
        }
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
            handlers: keys.list("handlers").iter().map(HandlerFile::from_keys).collect(),
        };
        keys.finish();
        file
    }

    /// The application without its handlers. [`App::on`] and its siblings take the policies that the file has for their
    /// topics; a handler in the file that gets no code is an error when the application starts.
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
            "tell" => Some(WhenStalled::Tell),
            "try-again" => Some(WhenStalled::TryAgain),
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
        limits.in_flight = Water::high(records);
    }
    if let Some(Size(bytes)) = app.get("buffer") {
        limits.buffer = Water::high(bytes);
    }
    if let Some(percent) = app.get("partition_percent") {
        limits.partition_percent = percent;
    }
    limits.commit_every = app.get("commit_every");
    if let Some(count) = app.get("consumers") {
        limits.consumers = count;
    }
    if let Some(count) = app.get("lanes") {
        limits.lanes = count;
    }
}

/// Kafka's names have dots, which TOML reads as tables unless they are in quotes; both are meant the same.
fn client_settings(keys: &Keys<'_>, key: &'static str) -> ConfigMap {
    let mut map = ConfigMap::new();
    if let Some(inner) = keys.inner(key) {
        for (name, value) in inner.free() {
            flatten(name, value, &mut map);
        }
    }
    map
}

fn flatten(name: &str, value: &Value, map: &mut ConfigMap) {
    match value {
        Value::Table(table) => {
            for (inner, value) in table {
                flatten(&format!("{name}.{inner}"), value, map);
            }
        }
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(plain).collect();
            map.set(name, texts.join(","));
        }
        value => {
            map.set(name, plain(value));
        }
    }
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
            all.error(FileError::Invalid {
                path: all.path(name),
                found: shown(value),
                expected: "a table",
            });
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
            None => all.error(FileError::Invalid {
                path: all.path(name),
                found: shown(value),
                expected: "a number of permits",
            }),
        }
    }
    bulkheads
}

#[cfg(test)]
mod tests;
