//! Log levels that clients can change while `milena broker` runs.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use milena_broker::{LogLevel, LogLevels, ROOT_LOGGER};
use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

/// The crates whose lines an operator may want to see more or less of.
const TARGETS: [&str; 3] = ["milena_broker", "milena_log", "milena_machines"];

/// Starts to log to stderr, at INFO until that is changed.
pub(crate) fn init() -> Arc<dyn LogLevels> {
    let levels = BTreeMap::from([(ROOT_LOGGER.to_owned(), LogLevel::Info)]);
    let (filter, handle) = reload::Layer::new(filter(&levels));
    let lines = fmt::layer().with_writer(io::stderr).with_target(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    let set = Mutex::new(levels);
    Arc::new(Reloadable { set, handle })
}

#[derive(Debug)]
struct Reloadable {
    /// The levels that were set.
    set: Mutex<BTreeMap<String, LogLevel>>,
    handle: reload::Handle<Targets, Registry>,
}

impl Reloadable {
    fn set(&self) -> MutexGuard<'_, BTreeMap<String, LogLevel>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogLevels for Reloadable {
    fn levels(&self) -> BTreeMap<String, LogLevel> {
        let mut levels = self.set().clone();
        let root = levels.get(ROOT_LOGGER).copied().unwrap_or(LogLevel::Info);
        for target in TARGETS {
            levels.entry(target.to_owned()).or_insert(root);
        }
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
