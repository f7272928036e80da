//! Files with the definitions of sagas, which all participants share.

use std::{path::Path, time::Duration};

use milena_machines::saga::{Definition, DefinitionError, Draft, Participant, Step, StepKind};
use toml::Value;

use super::{
    FileError, FileErrors, LocatedError,
    keys::{Keys, Limit, Report, shown},
    source::{self, Source},
};
use crate::saga::{ID_HEADER, Locator, Saga, TYPE_HEADER};

/// Sagas declared in a file, as tables `[saga.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaFile {
    /// Sorted by name.
    pub sagas: Vec<Saga>,
}

impl SagaFile {
    pub fn read(path: impl AsRef<Path>) -> Result<Self, FileErrors> {
        let name = path.as_ref().display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse_named(&text, Some(&name)),
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
        Self::parse_named(text, None)
    }

    fn parse_named(text: &str, name: Option<&str>) -> Result<Self, FileErrors> {
        let (source, mut table) = Source::parse(text, name)?;
        let unset = source::expand(&mut table, &|variable| std::env::var(variable).ok(), &source);
        let report = Report::new(&source, unset);
        let keys = Keys::new("", &table, &report);
        let declared = read_all(&keys);
        keys.finish();
        let mut errors = report.errors();
        // A draft with missing keys would only repeat their errors.
        let is_complete = errors.is_empty();
        let mut sagas = vec![];
        for (path, Declared { draft, id, event_type }) in declared {
            match Definition::new(draft.clone()) {
                Ok(definition) => sagas.push(Saga::new(definition, id, event_type)),
                Err(problems) if is_complete => {
                    let located = problems
                        .into_iter()
                        .map(|problem| locate(&source, &path, &draft, problem));
                    errors.extend(located);
                }
                Err(_) => {}
            }
        }
        if errors.is_empty() {
            return Ok(Self { sagas });
        }
        errors.sort_by_key(|error| error.line);
        Err(source.errors(errors))
    }

    /// The saga of a type.
    pub fn get(&self, name: &str) -> Option<&Saga> {
        self.sagas.iter().find(|saga| saga.definition().name() == name)
    }
}

struct Declared {
    draft: Draft,
    id: Locator,
    event_type: Locator,
}

fn read_all(keys: &Keys<'_>) -> Vec<(String, Declared)> {
    let Some(all) = keys.inner("saga") else {
        let (path, expected) = ("saga".to_owned(), "a table for each saga, such as [saga.order]");
        if keys.free().all(|(key, _)| key != "saga") {
            keys.error("", FileError::Missing { path, expected });
        }
        return vec![];
    };
    let mut declared = vec![];
    for (name, value) in all.free() {
        match value.as_table() {
            Some(table) => declared.push((all.path(name), read(name, &all.nested(name, table)))),
            None => invalid(&all, name, value, "a table"),
        }
    }
    declared
}

fn invalid(keys: &Keys<'_>, key: &str, value: &Value, expected: &'static str) {
    let (path, found) = (keys.path(key), shown(value));
    keys.error(key, FileError::Invalid { path, found, expected });
}

fn read(name: &str, keys: &Keys<'_>) -> Declared {
    let declared = Declared {
        draft: Draft {
            name: name.to_owned(),
            owner: keys.required("owner").unwrap_or_default(),
            participants: participants(keys),
            starts: keys.required("starts").unwrap_or_default(),
            completed: keys.get("completed"),
            cancelled: keys.get("cancelled"),
            cancel_on: events(keys, "cancel_on").unwrap_or_default(),
            compensation_requested: keys
                .get("compensation_requested")
                .unwrap_or_else(|| Draft::COMPENSATION_REQUESTED.to_owned()),
            deadline_ms: keys.get("deadline").and_then(|Limit(deadline)| deadline).map(millis),
            steps: keys.list("steps").iter().map(step).collect(),
        },
        id: locator(keys, "id", ID_HEADER),
        event_type: locator(keys, "event_type", TYPE_HEADER),
    };
    keys.finish();
    declared
}

fn participants(keys: &Keys<'_>) -> Vec<Participant> {
    let Some(topics) = keys.inner("topics") else {
        let (path, expected) = (keys.path("topics"), "a table with the topic of each participant");
        if keys.free().all(|(key, _)| key != "topics") {
            keys.error("", FileError::Missing { path, expected });
        }
        return vec![];
    };
    let mut participants = vec![];
    for (name, value) in topics.free() {
        match value.as_str() {
            Some(topic) => participants.push(Participant {
                name: name.clone(),
                topic: topic.to_owned(),
            }),
            None => invalid(&topics, name, value, "the name of a topic"),
        }
    }
    participants
}

fn step(keys: &Keys<'_>) -> Step {
    let kinds = "\"compensatable\", \"pivot\" or \"retriable\"";
    let kind = keys.get_as("kind", kinds, |value| StepKind::from_name(value.as_str()?));
    let kind = kind.unwrap_or(StepKind::Compensatable);
    let timeout = keys.get("timeout").map(|Limit(timeout)| timeout.map(millis));
    let step = Step {
        name: keys.required("name").unwrap_or_default(),
        participant: keys.required("participant").unwrap_or_default(),
        kind,
        on: events(keys, "on").unwrap_or_default(),
        done: keys.required("done").unwrap_or_default(),
        failed: keys.get("failed"),
        compensated: keys.get("compensated"),
        timeout_ms: timeout.unwrap_or(Some(Step::TIMEOUT_MS)),
        retries: keys.get("retries").unwrap_or_else(|| Step::default_retries(kind)),
        compensation_retries: keys.get("compensation_retries").unwrap_or(Step::COMPENSATION_RETRIES),
    };
    keys.finish();
    step
}

/// One event type, or a list of them.
fn events(keys: &Keys<'_>, key: &'static str) -> Option<Vec<String>> {
    keys.get_as(key, "an event type, or a list of them", |value| match value {
        Value::String(event) => Some(vec![event.clone()]),
        Value::Array(events) => events.iter().map(|event| event.as_str().map(str::to_owned)).collect(),
        _ => None,
    })
}

fn locator(keys: &Keys<'_>, key: &'static str, default: &str) -> Locator {
    let expected = "\"key\", { header = \"NAME\" } or { json = \"FIELD\" }";
    let found = keys.get_as(key, expected, |value| match value {
        Value::String(text) if text == "key" => Some(Locator::Key),
        Value::Table(table) if table.len() == 1 => {
            let (kind, name) = table.iter().next()?;
            let name = name.as_str().filter(|name| !name.is_empty())?;
            match kind.as_str() {
                "header" => Some(Locator::header(name)),
                "json" => Some(Locator::json(name)),
                _ => None,
            }
        }
        _ => None,
    });
    found.unwrap_or_else(|| Locator::header(default))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Names the key that a problem is about.
fn locate(source: &Source, saga: &str, draft: &Draft, problem: DefinitionError) -> LocatedError {
    let path = match place(&problem, draft) {
        Some(place) => format!("{saga}.{place}"),
        None => saga.to_owned(),
    };
    source.locate(&path.clone(), FileError::Saga { path, problem })
}

fn place(problem: &DefinitionError, draft: &Draft) -> Option<String> {
    use DefinitionError as E;
    let key = |step: &str, key: &str| {
        let place = draft.steps.iter().rposition(|other| other.name == step)?;
        let dot = if key.is_empty() { "" } else { "." };
        Some(format!("steps[{place}]{dot}{key}"))
    };
    match problem {
        E::UnknownOwner { .. } => Some("owner".to_owned()),
        E::ZeroDeadline => Some("deadline".to_owned()),
        E::IdleParticipant { name } | E::ParticipantTwice { name } => Some(format!("topics.{name}")),
        E::StepTwice { step } => key(step, "name"),
        E::UnknownParticipant { step, .. } => key(step, "participant"),
        E::UnknownTrigger { step, .. } | E::TriggerTwice { step, .. } | E::Unreachable { step, .. } => key(step, "on"),
        E::NeverCompensated { step, .. } => key(step, "compensated"),
        E::RetriableFails { step } => key(step, "failed"),
        E::TwoPivots { second, .. } => key(second, "kind"),
        E::NoPivot { step } | E::NotBeforePivot { step, .. } | E::NotAfterPivot { step, .. } => key(step, "kind"),
        E::ZeroTimeout { step } | E::NoTimeLimit { step } => key(step, "timeout"),
        E::NoTrigger { step } | E::NoCompensation { step } | E::PivotCannotFail { step } => key(step, ""),
        E::TwoMeanings { event, .. } => place_of_event(event, draft),
        _ => None,
    }
}

/// The last place that has an event: the first one is in the message.
fn place_of_event(event: &str, draft: &Draft) -> Option<String> {
    for (place, step) in draft.steps.iter().enumerate().rev() {
        let events = [
            ("compensated", step.compensated.as_deref()),
            ("failed", step.failed.as_deref()),
            ("done", Some(step.done.as_str())),
        ];
        if let Some((key, _)) = events.iter().find(|(_, other)| *other == Some(event)) {
            return Some(format!("steps[{place}].{key}"));
        }
    }
    let own = [
        ("compensation_requested", draft.compensation_requested == event),
        ("cancelled", draft.cancelled.as_deref() == Some(event)),
        ("completed", draft.completed.as_deref() == Some(event)),
        ("cancel_on", draft.cancel_on.iter().any(|other| other == event)),
    ];
    own.iter().find(|(_, is_it)| *is_it).map(|(key, _)| (*key).to_owned())
}

#[cfg(test)]
mod tests;
