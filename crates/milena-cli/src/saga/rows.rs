//! Sagas in the output of commands.

use std::{collections::BTreeMap, time::Duration};

use milena_sql::saga::{
    command::{PendingCommand, is_owner},
    store::{AuditLine, SagaRow},
};
use serde::{Deserialize, Serialize};

use crate::time::TimeFormat;

/// A saga without its steps.
#[derive(Serialize)]
pub(super) struct SagaSummary {
    id: String,
    #[serde(rename = "type")]
    saga_type: String,
    participant: String,
    status: String,
    reason: Option<String>,
    started: String,
    changed: String,
    version: i64,
    /// When the next timer is due.
    wake: Option<String>,
    /// A change by hand that was not performed yet.
    pending: Option<PendingCommand>,
}

impl SagaSummary {
    pub(super) fn new(row: &SagaRow) -> Self {
        Self {
            id: row.key.saga_id.clone(),
            saga_type: row.key.saga_type.clone(),
            participant: row.key.participant.clone(),
            status: row.status.clone(),
            reason: row.reason.clone(),
            started: iso(row.started_ms),
            changed: iso(row.changed_ms),
            version: row.version,
            wake: row.wake_ms.map(iso),
            pending: row.command.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}

/// A saga with its steps and its audit trail.
#[derive(Serialize)]
pub(super) struct SagaDetails {
    #[serde(flatten)]
    summary: SagaSummary,
    role: &'static str,
    pub(super) steps: Vec<StepRow>,
    audit: Vec<AuditRow>,
}

#[derive(Serialize)]
pub(super) struct StepRow {
    pub(super) step: String,
    pub(super) status: String,
    pub(super) attempts: u32,
    pub(super) due: Option<String>,
}

#[derive(Serialize)]
struct AuditRow {
    time: String,
    who: String,
    what: String,
    why: Option<String>,
    version: i64,
}

impl SagaDetails {
    pub(super) fn new(row: &SagaRow, trail: &[AuditLine]) -> Self {
        let audit = trail.iter().map(|line| AuditRow {
            time: iso(line.at_ms),
            who: line.actor.clone(),
            what: line.action.clone(),
            why: line.reason.clone(),
            version: line.version,
        });
        Self {
            summary: SagaSummary::new(row),
            role: if is_owner(row) { "owner" } else { "participant" },
            steps: steps(row),
            audit: audit.collect(),
        }
    }
}

/// The stored state, as far as it is shown.
#[derive(Default, Deserialize)]
struct StateText {
    #[serde(default)]
    steps: BTreeMap<String, StepText>,
    owner: Option<OwnerText>,
}

#[derive(Deserialize)]
struct StepText {
    phase: String,
}

#[derive(Deserialize)]
struct OwnerText {
    steps: BTreeMap<String, ProgressText>,
}

#[derive(Deserialize)]
struct ProgressText {
    status: String,
    #[serde(default)]
    attempts: u32,
    due_ms: Option<i64>,
}

fn steps(row: &SagaRow) -> Vec<StepRow> {
    let state: StateText = serde_json::from_str(&row.state).unwrap_or_default();
    if let Some(owner) = state.owner {
        let rows = owner.steps.into_iter().map(|(step, progress)| StepRow {
            step,
            status: progress.status,
            attempts: progress.attempts,
            due: progress.due_ms.map(iso),
        });
        return rows.collect();
    }
    let rows = state.steps.into_iter().map(|(step, text)| StepRow {
        step,
        status: text.phase,
        attempts: 0,
        due: None,
    });
    rows.collect()
}

pub(super) fn iso(millis: i64) -> String {
    TimeFormat::Iso.write(millis).unwrap_or_default()
}

/// An age in its largest unit, such as `3m` or `2d`.
pub(super) fn age(since_ms: i64, now_ms: i64) -> String {
    let seconds = Duration::from_millis(u64::try_from(now_ms - since_ms).unwrap_or_default()).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The first characters of a text.
pub(super) fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(characters.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (61, "1m"), (7_200, "2h"), (200_000, "2d")] {
            assert_eq!(age(0, seconds * 1000), text);
        }
        assert_eq!(age(5, 0), "0s");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
    }
}
