//! The history of a run, for people.

use crate::simulation::START_MS;

/// Fields that every message has and that only add noise.
const NOISE: &str = ", unknown_tags: UnknownTags(None)";

/// Runs are played without a history, because text costs more than all else; a failed run is played again with one.
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
