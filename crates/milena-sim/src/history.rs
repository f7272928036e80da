//! What happened, for people.

use crate::simulation::START_MS;

/// What every message has and nobody wants to see.
const NOISE: &str = ", unknown_tags: UnknownTags(None)";

/// A run is played without a history, because text costs more than all else; if it fails, it is played again with one.
#[derive(Debug, Default)]
pub struct History {
    lines: Option<Vec<String>>,
}

impl History {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            lines: wanted.then(Vec::new),
        }
    }

    pub(crate) fn note(&mut self, now: i64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>7} {}", now - START_MS, line().replace(NOISE, "")));
        }
    }

    /// The last lines, at most `count`.
    pub fn tail(&self, count: usize) -> &[String] {
        let lines = self.lines.as_deref().unwrap_or_default();
        lines.get(lines.len().saturating_sub(count)..).unwrap_or_default()
    }
}
