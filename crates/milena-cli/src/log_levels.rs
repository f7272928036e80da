//! Log levels that clients can change while `milena broker` runs.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use milena_broker::{LogLevel, LogLevels, ROOT_LOGGER};
use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    reload,
};

/// The log targets that are listed as loggers. Kafka's tools change only listed loggers; other clients may name any
/// target inside these.
const TARGETS: [&str; 9] = [
    "kafka::authorizer::logger",
    "milena_broker",
    "milena_broker::broker",
    "milena_broker::coordinators",
    "milena_broker::handlers",
    "milena_broker::maintenance",
    "milena_broker::net",
    "milena_broker::node",
    "milena_log",
];

/// The log levels of this process, which can be changed while it runs.
#[derive(Debug)]
pub(crate) struct LogControl {
    /// The levels that were set explicitly.
    set: Mutex<BTreeMap<String, LogLevel>>,
    handle: reload::Handle<Targets, Registry>,
}

impl LogControl {
    /// Creates the control of the filter `targets` behind `handle`.
    pub(crate) fn new(targets: &Targets, handle: reload::Handle<Targets, Registry>) -> Self {
        let root = targets.default_level().unwrap_or(LevelFilter::OFF);
        let named = targets
            .iter()
            .map(|(target, level)| (target.to_owned(), log_level(level)));
        let set = named.chain([(ROOT_LOGGER.to_owned(), log_level(root))]).collect();
        Self {
            set: Mutex::new(set),
            handle,
        }
    }

    fn set(&self) -> MutexGuard<'_, BTreeMap<String, LogLevel>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogLevels for LogControl {
    fn levels(&self) -> BTreeMap<String, LogLevel> {
        let set = self.set();
        let listed = TARGETS.map(|target| (target.to_owned(), level_of(target, &set)));
        let mut levels = BTreeMap::from(listed);
        levels.extend(set.iter().map(|(target, level)| (target.clone(), *level)));
        levels
    }

    fn change(&self, levels: &BTreeMap<String, Option<LogLevel>>) -> Result<(), String> {
        let mut set = self.set();
        let mut changed = set.clone();
        for (target, level) in levels {
            match level {
                Some(level) => changed.insert(target.clone(), *level),
                None => changed.remove(target),
            };
        }
        self.handle
            .reload(filter(&changed))
            .map_err(|error| error.to_string())?;
        *set = changed;
        Ok(())
    }
}

/// The level of a target: its own, that of the nearest enclosing target, or that of the root.
fn level_of(target: &str, set: &BTreeMap<String, LogLevel>) -> LogLevel {
    let around = target.rsplit_once("::").map_or(ROOT_LOGGER, |(outer, _)| outer);
    match set.get(target) {
        Some(level) => *level,
        None if target == ROOT_LOGGER => LogLevel::Info,
        None => level_of(around, set),
    }
}

fn filter(levels: &BTreeMap<String, LogLevel>) -> Targets {
    levels
        .iter()
        .fold(Targets::new(), |targets, (target, level)| match target == ROOT_LOGGER {
            true => targets.with_default(level_filter(*level)),
            false => targets.with_target(target.clone(), level_filter(*level)),
        })
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Fatal => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn log_level(level: LevelFilter) -> LogLevel {
    match level {
        LevelFilter::OFF => LogLevel::Fatal,
        LevelFilter::ERROR => LogLevel::Error,
        LevelFilter::WARN => LogLevel::Warn,
        LevelFilter::INFO => LogLevel::Info,
        LevelFilter::DEBUG => LogLevel::Debug,
        LevelFilter::TRACE => LogLevel::Trace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_a_level_follows_the_nearest_around_it() {
        let set = [("root", LogLevel::Warn), ("milena_broker", LogLevel::Debug)];
        let set = BTreeMap::from(set.map(|(target, level)| (target.to_owned(), level)));
        assert_eq!(level_of("milena_broker::net", &set), LogLevel::Debug);
        assert_eq!(level_of("milena_broker::handlers::fetch", &set), LogLevel::Debug);
        assert_eq!(level_of("milena_log", &set), LogLevel::Warn);
        assert_eq!(level_of("milena_log", &BTreeMap::new()), LogLevel::Info);
    }
}
