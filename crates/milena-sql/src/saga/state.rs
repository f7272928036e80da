//! State of a participant in a saga, as JSON. Steps have their names, so that a definition can get more steps while
//! sagas are running.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::saga::{
    Cause, Definition, Phase, SagaState, StepIndex, StepPhase, StepProgress, StepState, StepStatus, Stuck,
};
use serde::{Deserialize, Serialize};

/// State of a participant: of its steps, and of the whole saga if it is the owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ParticipantState {
    pub(crate) steps: BTreeMap<StepIndex, StepState>,
    pub(crate) owner: Option<SagaState>,
}

/// A stored state that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    #[error("the stored state of the saga is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "the stored state of the saga names step {step:?}, which the definition of {saga_type} does not have; add it"
    )]
    UnknownStep { saga_type: String, step: String },
    #[error("the stored state of the saga has {what} {value:?}, which this version does not know; use a newer version")]
    UnknownValue { what: &'static str, value: String },
}

#[derive(Serialize, Deserialize)]
struct StateJson {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    steps: BTreeMap<String, StepJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerJson>,
}

#[derive(Serialize, Deserialize)]
struct StepJson {
    phase: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    arrived: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct OwnerJson {
    phase: String,
    #[serde(default)]
    is_started: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<ReasonJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stuck: Option<ReasonJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<i64>,
    steps: BTreeMap<String, ProgressJson>,
}

/// A cause, or a reason for being stuck.
#[derive(Serialize, Deserialize)]
struct ReasonJson {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ProgressJson {
    status: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempts: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_ms: Option<i64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ParticipantState {
    pub(crate) fn to_json(&self, definition: &Definition) -> Result<String, StateError> {
        let names = Names { definition };
        let steps = self.steps.iter().filter_map(|(index, step)| {
            let json = StepJson {
                phase: step.phase.name().to_owned(),
                arrived: step.arrived.clone(),
            };
            Some((names.name(*index)?, json))
        });
        let json = StateJson {
            steps: steps.collect(),
            owner: self.owner.as_ref().map(|state| names.owner_json(state)),
        };
        Ok(serde_json::to_string(&json)?)
    }

    pub(crate) fn from_json(definition: &Definition, text: &str) -> Result<Self, StateError> {
        let names = Names { definition };
        let json: StateJson = serde_json::from_str(text)?;
        let mut steps = BTreeMap::new();
        for (name, step) in json.steps {
            let state = StepState {
                phase: known("the phase", &step.phase, StepPhase::from_name)?,
                arrived: step.arrived,
            };
            steps.insert(names.index(&name)?, state);
        }
        let owner = json.owner.map(|owner| names.owner(owner)).transpose()?;
        Ok(Self { steps, owner })
    }

    /// Status for lists: that of the saga for its owner, otherwise that of the least advanced step.
    pub(crate) fn status(&self) -> &'static str {
        if let Some(owner) = &self.owner {
            return match owner.stuck {
                Some(_) => "stuck",
                None => owner.phase.name(),
            };
        }
        let phases = self.steps.values().map(|step| step.phase);
        phases.min().unwrap_or_default().name()
    }

    pub(crate) fn wake_ms(&self) -> Option<i64> {
        self.owner.as_ref().and_then(SagaState::next_due_ms)
    }

    /// Why the saga is stuck or compensated.
    pub(crate) fn reason(&self, definition: &Definition) -> Option<String> {
        let owner = self.owner.as_ref()?;
        let stuck = owner.stuck.map(|stuck| describe_stuck(definition, stuck));
        stuck.or_else(|| owner.cause.map(|cause| describe_cause(definition, cause)))
    }
}

fn known<T>(what: &'static str, value: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, StateError> {
    read(value).ok_or_else(|| StateError::UnknownValue {
        what,
        value: value.to_owned(),
    })
}

/// Names of the steps of a definition.
struct Names<'a> {
    definition: &'a Definition,
}

impl Names<'_> {
    fn name(&self, index: StepIndex) -> Option<String> {
        self.definition.step(index).map(|step| step.name.clone())
    }

    fn index(&self, name: &str) -> Result<StepIndex, StateError> {
        self.definition.step_named(name).ok_or_else(|| StateError::UnknownStep {
            saga_type: self.definition.name().to_owned(),
            step: name.to_owned(),
        })
    }

    fn owner_json(&self, state: &SagaState) -> OwnerJson {
        let steps = self.definition.indices().zip(&state.steps);
        let steps = steps.filter_map(|(index, step)| {
            let json = ProgressJson {
                status: step.status.name().to_owned(),
                attempts: step.attempts,
                due_ms: step.due_ms,
            };
            Some((self.name(index)?, json))
        });
        let reason = |(kind, step): (&str, Option<StepIndex>)| ReasonJson {
            kind: kind.to_owned(),
            step: step.and_then(|step| self.name(step)),
        };
        OwnerJson {
            phase: state.phase.name().to_owned(),
            is_started: state.is_started,
            cause: state.cause.map(cause_parts).map(reason),
            stuck: state.stuck.map(stuck_parts).map(reason),
            deadline_ms: state.deadline_ms,
            steps: steps.collect(),
        }
    }

    fn owner(&self, json: OwnerJson) -> Result<SagaState, StateError> {
        let pending = StepProgress {
            status: StepStatus::Pending,
            attempts: 0,
            due_ms: None,
        };
        let mut steps = vec![pending; self.definition.steps().len()];
        for (name, step) in json.steps {
            let index = self.index(&name)?;
            if let Some(progress) = steps.get_mut(index.0) {
                *progress = StepProgress {
                    status: known("the status", &step.status, StepStatus::from_name)?,
                    attempts: step.attempts,
                    due_ms: step.due_ms,
                };
            }
        }
        let cause = json.cause.map(|reason| self.cause(&reason)).transpose()?;
        let stuck = json.stuck.map(|reason| self.stuck(&reason)).transpose()?;
        Ok(SagaState {
            phase: known("the phase", &json.phase, Phase::from_name)?,
            is_started: json.is_started,
            cause,
            stuck,
            deadline_ms: json.deadline_ms,
            steps,
        })
    }

    fn cause(&self, reason: &ReasonJson) -> Result<Cause, StateError> {
        let step = || self.index(reason.step.as_deref().unwrap_or_default());
        Ok(match reason.kind.as_str() {
            "failed" => Cause::Failed(step()?),
            "timed_out" => Cause::TimedOut(step()?),
            "deadline" => Cause::Deadline,
            "requested" => Cause::Requested,
            "operator" => Cause::Operator,
            "compensated" => Cause::Compensated(step()?),
            kind => return known("the cause", kind, |_| None),
        })
    }

    fn stuck(&self, reason: &ReasonJson) -> Result<Stuck, StateError> {
        let step = || self.index(reason.step.as_deref().unwrap_or_default());
        Ok(match reason.kind.as_str() {
            "timed_out" => Stuck::TimedOut(step()?),
            "compensation_timed_out" => Stuck::CompensationTimedOut(step()?),
            "deadline" => Stuck::Deadline,
            "conflict" => Stuck::Conflict(step()?),
            kind => return known("the reason for being stuck", kind, |_| None),
        })
    }
}

fn cause_parts(cause: Cause) -> (&'static str, Option<StepIndex>) {
    match cause {
        Cause::Failed(step) => ("failed", Some(step)),
        Cause::TimedOut(step) => ("timed_out", Some(step)),
        Cause::Deadline => ("deadline", None),
        Cause::Requested => ("requested", None),
        Cause::Operator => ("operator", None),
        Cause::Compensated(step) => ("compensated", Some(step)),
    }
}

fn stuck_parts(stuck: Stuck) -> (&'static str, Option<StepIndex>) {
    match stuck {
        Stuck::TimedOut(step) => ("timed_out", Some(step)),
        Stuck::CompensationTimedOut(step) => ("compensation_timed_out", Some(step)),
        Stuck::Deadline => ("deadline", None),
        Stuck::Conflict(step) => ("conflict", Some(step)),
    }
}

fn step_name(definition: &Definition, step: StepIndex) -> &str {
    definition.step(step).map_or("?", |step| step.name.as_str())
}

pub(crate) fn describe_cause(definition: &Definition, cause: Cause) -> String {
    let name = |step| step_name(definition, step);
    match cause {
        Cause::Failed(step) => format!("step {} failed", name(step)),
        Cause::TimedOut(step) => format!("step {} timed out", name(step)),
        Cause::Deadline => "the deadline has passed".to_owned(),
        Cause::Requested => "cancelled by an event".to_owned(),
        Cause::Operator => "cancelled by hand".to_owned(),
        Cause::Compensated(step) => format!("step {} was compensated", name(step)),
    }
}

pub(crate) fn describe_stuck(definition: &Definition, stuck: Stuck) -> String {
    let name = |step| step_name(definition, step);
    match stuck {
        Stuck::TimedOut(step) => format!("step {} timed out after its last retry", name(step)),
        Stuck::CompensationTimedOut(step) => format!("compensation of step {} timed out", name(step)),
        Stuck::Deadline => "the deadline has passed after the pivot".to_owned(),
        Stuck::Conflict(step) => format!("events of step {} contradict each other", name(step)),
    }
}
