//! A log that tests can read.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{
    Dispatch, Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span, subscriber,
};

/// With a single subscriber, a test on another thread that reaches a log line first would disable the line for all
/// threads.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log::default()));

/// All warnings and errors of the runtime, with their fields.
#[derive(Debug, Clone, Default)]
pub struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
}

#[derive(Debug, Clone, Default)]
pub struct Line {
    pub event: String,
    pub message: String,
    pub similar: u64,
    pub fields: String,
}

impl Log {
    /// Records lines of this thread until the guard is dropped.
    pub fn listen() -> (Self, subscriber::DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let log = Self::default();
        let guard = subscriber::set_default(log.clone());
        (log, guard)
    }

    /// The lines of an event.
    pub fn of(&self, event: &str) -> Vec<Line> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| line.event == event).cloned().collect()
    }

    /// Number of occurrences of an event, including those that were only counted.
    pub fn count(&self, event: &str) -> u64 {
        self.of(event).iter().map(|line| 1 + line.similar).sum()
    }
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "similar" {
            self.similar = value;
        }
        self.record_debug(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "event" {
            self.event = value.to_owned();
        }
        self.record_debug(field, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
        write!(self.fields, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN && metadata.target().starts_with("milena_app")
    }

    fn new_span(&self, _attributes: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _id: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _id: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.lines.lock().unwrap().push(line);
    }

    fn enter(&self, _id: &span::Id) {}

    fn exit(&self, _id: &span::Id) {}
}
