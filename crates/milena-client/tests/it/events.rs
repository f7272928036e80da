//! The log lines of this process, from all threads. Tests run in parallel, so each looks for its own addresses and
//! names.

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, Once},
    time::{Duration, Instant},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const PATIENCE: Duration = Duration::from_secs(60);

static LINES: Mutex<Vec<String>> = Mutex::new(vec![]);
static INSTALL: Once = Once::new();

/// Starts to collect log lines.
pub(crate) fn listen() {
    INSTALL.call_once(|| tracing::subscriber::set_global_default(Lines).unwrap());
}

/// All lines so far that contain all of these parts.
pub(crate) fn lines(parts: &[&str]) -> Vec<String> {
    let lines = LINES.lock().unwrap();
    let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
    lines.iter().filter(has_all).cloned().collect()
}

/// Waits for the first line that contains all of these parts.
pub(crate) fn wait_for(parts: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        if let Some(line) = lines(parts).into_iter().next() {
            return line;
        }
        assert!(begun.elapsed() < PATIENCE, "no line with {parts:?}");
        std::thread::yield_now();
    }
}

struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("milena_client")
    }

    fn new_span(&self, _attributes: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}
