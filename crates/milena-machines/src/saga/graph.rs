//! Checks of a definition, and the graph of its steps.

use std::collections::BTreeMap;

use super::{
    DefinitionError, Draft, Step, StepIndex, StepKind,
    definition::{Meaning, Participant},
};

/// The parts of a definition that follow from its draft.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) before: Vec<Vec<StepIndex>>,
    pub(super) after: Vec<Vec<StepIndex>>,
    pub(super) descendants: Vec<Vec<StepIndex>>,
    pub(super) pivot: Option<StepIndex>,
    pub(super) meanings: BTreeMap<String, Meaning>,
}

pub(super) fn check(draft: &Draft) -> Result<Checked, Vec<DefinitionError>> {
    let mut errors = vec![];
    check_names(draft, &mut errors);
    check_participants(draft, &mut errors);
    for step in &draft.steps {
        check_step(draft, step, &mut errors);
    }
    let meanings = meanings(draft, &mut errors);
    let errors_before = errors.len();
    let before = edges(draft, &meanings, &mut errors);
    // Without an arrow, others would seem to be on the wrong side of the pivot.
    let is_complete = errors.len() == errors_before;
    let after = reversed(&before);
    let descendants: Vec<_> = (0..after.len()).map(|step| reachable(&after, step)).collect();
    check_cycles(draft, &descendants, &mut errors);
    let pivot = find_pivot(draft, &mut errors);
    if let Some(pivot) = pivot.filter(|_| is_complete) {
        check_sides(draft, pivot, &descendants, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Checked {
        before,
        after,
        descendants,
        pivot,
        meanings,
    })
}

fn check_names(draft: &Draft, errors: &mut Vec<DefinitionError>) {
    let named = [
        (draft.name.as_str(), "the saga"),
        (draft.owner.as_str(), "the owner"),
        (draft.starts.as_str(), "the event that starts the saga"),
        (
            draft.compensation_requested.as_str(),
            "the event that requests a compensation",
        ),
    ];
    let unnamed = named.iter().filter(|(name, _)| name.is_empty());
    errors.extend(unnamed.map(|(_, what)| DefinitionError::Unnamed { what }));
    let own = draft.completed.iter().chain(&draft.cancelled).chain(&draft.cancel_on);
    if own.into_iter().any(String::is_empty) {
        errors.push(DefinitionError::Unnamed {
            what: "an event of the owner",
        });
    }
    if draft.steps.is_empty() {
        errors.push(DefinitionError::NoSteps);
    }
    if draft.deadline_ms.is_some_and(|deadline| deadline <= 0) {
        errors.push(DefinitionError::ZeroDeadline);
    }
    for (place, step) in draft.steps.iter().enumerate() {
        if draft.steps.iter().take(place).any(|other| other.name == step.name) {
            errors.push(DefinitionError::StepTwice {
                step: step.name.clone(),
            });
        }
    }
}

fn check_participants(draft: &Draft, errors: &mut Vec<DefinitionError>) {
    for (place, Participant { name, topic }) in draft.participants.iter().enumerate() {
        if name.is_empty() {
            errors.push(DefinitionError::Unnamed { what: "a participant" });
        }
        if topic.is_empty() {
            errors.push(DefinitionError::Unnamed {
                what: "the topic of a participant",
            });
        }
        if draft.participants.iter().take(place).any(|other| other.name == *name) {
            errors.push(DefinitionError::ParticipantTwice { name: name.clone() });
        }
        let is_idle = draft.steps.iter().all(|step| step.participant != *name);
        if is_idle && *name != draft.owner {
            errors.push(DefinitionError::IdleParticipant { name: name.clone() });
        }
    }
    if !draft.owner.is_empty() && !knows(draft, &draft.owner) {
        errors.push(DefinitionError::UnknownOwner {
            owner: draft.owner.clone(),
        });
    }
}

fn knows(draft: &Draft, participant: &str) -> bool {
    draft.participants.iter().any(|known| known.name == participant)
}

fn check_step(draft: &Draft, step: &Step, errors: &mut Vec<DefinitionError>) {
    let name = || step.name.clone();
    let events = [Some(&step.done), step.failed.as_ref(), step.compensated.as_ref()];
    if step.name.is_empty() {
        errors.push(DefinitionError::Unnamed { what: "a step" });
    }
    if events.into_iter().flatten().chain(&step.on).any(String::is_empty) {
        errors.push(DefinitionError::Unnamed {
            what: "an event of a step",
        });
    }
    if !knows(draft, &step.participant) {
        errors.push(DefinitionError::UnknownParticipant {
            step: name(),
            participant: step.participant.clone(),
            known: draft.participants.iter().map(|known| known.name.clone()).collect(),
        });
    }
    if step.on.is_empty() {
        errors.push(DefinitionError::NoTrigger { step: name() });
    }
    for (place, event) in step.on.iter().enumerate() {
        if step.on.iter().take(place).any(|other| other == event) {
            let event = event.clone();
            errors.push(DefinitionError::TriggerTwice { step: name(), event });
        }
    }
    match (step.kind, &step.compensated) {
        (StepKind::Compensatable, None) => errors.push(DefinitionError::NoCompensation { step: name() }),
        (StepKind::Pivot | StepKind::Retriable, Some(_)) => errors.push(DefinitionError::NeverCompensated {
            step: name(),
            kind: step.kind.name(),
        }),
        _ => {}
    }
    match (step.kind, &step.failed) {
        (StepKind::Pivot, None) => errors.push(DefinitionError::PivotCannotFail { step: name() }),
        (StepKind::Retriable, Some(_)) => errors.push(DefinitionError::RetriableFails { step: name() }),
        _ => {}
    }
    match step.timeout_ms {
        Some(timeout) if timeout <= 0 => errors.push(DefinitionError::ZeroTimeout { step: name() }),
        None if draft.deadline_ms.is_none() => errors.push(DefinitionError::NoTimeLimit { step: name() }),
        _ => {}
    }
}

/// Every event has one meaning: an owner that hears it must know which step has done what.
fn meanings(draft: &Draft, errors: &mut Vec<DefinitionError>) -> BTreeMap<String, Meaning> {
    let mut meanings: BTreeMap<String, Meaning> = BTreeMap::new();
    let own = draft.completed.iter().chain(&draft.cancelled);
    let own = own
        .chain([&draft.compensation_requested])
        .map(|event| (event, Meaning::Own));
    let cancel = draft.cancel_on.iter().map(|event| (event, Meaning::Cancel));
    let steps = draft.steps.iter().enumerate().flat_map(|(place, step)| {
        let index = StepIndex(place);
        let failed = step.failed.iter().map(move |event| (event, Meaning::Failed(index)));
        let compensated = step
            .compensated
            .iter()
            .map(move |event| (event, Meaning::Compensated(index)));
        [(&step.done, Meaning::Done(index))]
            .into_iter()
            .chain(failed)
            .chain(compensated)
    });
    let all = [(&draft.starts, Meaning::Start)]
        .into_iter()
        .chain(cancel)
        .chain(own)
        .chain(steps);
    for (event, meaning) in all.filter(|(event, _)| !event.is_empty()) {
        if let Some(first) = meanings.insert(event.clone(), meaning) {
            errors.push(DefinitionError::TwoMeanings {
                event: event.clone(),
                first: described(draft, first),
                second: described(draft, meaning),
            });
        }
    }
    meanings
}

fn described(draft: &Draft, meaning: Meaning) -> String {
    let name = |step: StepIndex| draft.steps.get(step.0).map_or("", |step| step.name.as_str());
    match meaning {
        Meaning::Start => "the start of the saga".to_owned(),
        Meaning::Cancel => "a cancellation".to_owned(),
        Meaning::Own => "an event that the owner emits".to_owned(),
        Meaning::Done(step) => format!("`done` of step {}", name(step)),
        Meaning::Failed(step) => format!("`failed` of step {}", name(step)),
        Meaning::Compensated(step) => format!("`compensated` of step {}", name(step)),
    }
}

/// For each step, the steps whose `done` events trigger it.
fn edges(
    draft: &Draft,
    meanings: &BTreeMap<String, Meaning>,
    errors: &mut Vec<DefinitionError>,
) -> Vec<Vec<StepIndex>> {
    let known = || {
        let done = draft.steps.iter().map(|step| &step.done);
        [&draft.starts].into_iter().chain(done).cloned().collect()
    };
    let mut edges = vec![];
    for step in &draft.steps {
        let mut before = vec![];
        for event in step.on.iter().filter(|event| !event.is_empty()) {
            match meanings.get(event) {
                Some(Meaning::Start) => {}
                Some(Meaning::Done(other)) => before.push(*other),
                _ => errors.push(DefinitionError::UnknownTrigger {
                    step: step.name.clone(),
                    event: event.clone(),
                    known: known(),
                }),
            }
        }
        edges.push(before);
    }
    edges
}

fn reversed(edges: &[Vec<StepIndex>]) -> Vec<Vec<StepIndex>> {
    let mut reversed = vec![vec![]; edges.len()];
    for (step, others) in edges.iter().enumerate() {
        for other in others {
            if let Some(list) = reversed.get_mut(other.0) {
                list.push(StepIndex(step));
            }
        }
    }
    reversed
}

/// Steps on a path that begins with an edge of `from`, in their order. Contains `from` itself if it is on a cycle.
fn reachable(edges: &[Vec<StepIndex>], from: usize) -> Vec<StepIndex> {
    let mut found = vec![false; edges.len()];
    let mut next: Vec<StepIndex> = edges.get(from).cloned().unwrap_or_default();
    while let Some(step) = next.pop() {
        match found.get_mut(step.0) {
            Some(seen) if !*seen => *seen = true,
            _ => continue,
        }
        next.extend(edges.get(step.0).into_iter().flatten());
    }
    let found = found.iter().enumerate().filter(|(_, found)| **found);
    found.map(|(step, _)| StepIndex(step)).collect()
}

fn check_cycles(draft: &Draft, descendants: &[Vec<StepIndex>], errors: &mut Vec<DefinitionError>) {
    let name = |step: &StepIndex| draft.steps.get(step.0).map(|step| step.name.clone());
    let is_on_cycle = |step: &StepIndex| descendants.get(step.0).is_some_and(|steps| steps.contains(step));
    for (place, (step, reached)) in draft.steps.iter().zip(descendants).enumerate() {
        // A step that waits for a cycle can never begin either.
        let cycle: Vec<StepIndex> = (0..draft.steps.len()).map(StepIndex).filter(is_on_cycle).collect();
        let leads_here = |other: &&StepIndex| {
            let reached = descendants.get(other.0);
            reached.is_some_and(|reached| reached.contains(&StepIndex(place)))
        };
        let through: Vec<String> = cycle.iter().filter(leads_here).filter_map(name).collect();
        if reached.contains(&StepIndex(place)) || !through.is_empty() {
            let step = step.name.clone();
            errors.push(DefinitionError::Unreachable { step, through });
        }
    }
}

fn find_pivot(draft: &Draft, errors: &mut Vec<DefinitionError>) -> Option<StepIndex> {
    let is_pivot = |(_, step): &(usize, &Step)| step.kind == StepKind::Pivot;
    let mut pivots = draft.steps.iter().enumerate().filter(is_pivot);
    let Some((place, first)) = pivots.next() else {
        let retriable = draft.steps.iter().filter(|step| step.kind == StepKind::Retriable);
        errors.extend(retriable.map(|step| DefinitionError::NoPivot {
            step: step.name.clone(),
        }));
        return None;
    };
    errors.extend(pivots.map(|(_, second)| DefinitionError::TwoPivots {
        first: first.name.clone(),
        second: second.name.clone(),
    }));
    Some(StepIndex(place))
}

/// Every step is before or after the pivot: a parallel one could fail after the point of no return.
fn check_sides(draft: &Draft, pivot: StepIndex, descendants: &[Vec<StepIndex>], errors: &mut Vec<DefinitionError>) {
    let leads_to = |from: StepIndex, to: StepIndex| descendants.get(from.0).is_some_and(|steps| steps.contains(&to));
    let pivot_name = draft.steps.get(pivot.0).map_or("", |step| step.name.as_str());
    for (place, step) in draft.steps.iter().enumerate() {
        let (name, pivot_name) = (step.name.clone(), pivot_name.to_owned());
        match step.kind {
            StepKind::Compensatable if !leads_to(StepIndex(place), pivot) => {
                errors.push(DefinitionError::NotBeforePivot {
                    step: name,
                    pivot: pivot_name,
                });
            }
            StepKind::Retriable if !leads_to(pivot, StepIndex(place)) => {
                errors.push(DefinitionError::NotAfterPivot {
                    step: name,
                    pivot: pivot_name,
                });
            }
            _ => {}
        }
    }
}
