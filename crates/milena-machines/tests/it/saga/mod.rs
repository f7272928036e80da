//! Sagas: definitions, participants and the owner.

mod definition;
mod owner;
mod participant;
mod random;

use milena_machines::saga::{Definition, Draft, Participant, Step, StepKind};

pub(crate) fn step(name: &str, kind: StepKind, on: &[&str]) -> Step {
    Step {
        name: name.to_owned(),
        participant: format!("{name}-service"),
        kind,
        on: on.iter().map(|event| (*event).to_owned()).collect(),
        done: format!("{name}-done"),
        failed: (kind != StepKind::Retriable).then(|| format!("{name}-failed")),
        compensated: (kind == StepKind::Compensatable).then(|| format!("{name}-undone")),
        timeout_ms: Some(1_000),
        retries: 0,
        compensation_retries: 1,
    }
}

pub(crate) fn draft(steps: Vec<Step>) -> Draft {
    let mut participants: Vec<Participant> = vec![];
    for name in ["orders"]
        .into_iter()
        .chain(steps.iter().map(|step| step.participant.as_str()))
    {
        if participants.iter().all(|known| known.name != name) {
            participants.push(Participant {
                name: name.to_owned(),
                topic: format!("{name}.events"),
            });
        }
    }
    Draft {
        name: "order".to_owned(),
        owner: "orders".to_owned(),
        participants,
        steps,
        starts: "created".to_owned(),
        completed: Some("completed".to_owned()),
        cancelled: Some("cancelled".to_owned()),
        cancel_on: vec!["cancel".to_owned()],
        compensation_requested: "undo".to_owned(),
        deadline_ms: None,
    }
}

/// `reserve`, `charge`, the pivot `ship`, and `thank` behind it.
pub(crate) fn order() -> Definition {
    Definition::new(order_draft()).unwrap()
}

pub(crate) fn order_draft() -> Draft {
    draft(vec![
        step("reserve", StepKind::Compensatable, &["created"]),
        step("charge", StepKind::Compensatable, &["reserve-done"]),
        step("ship", StepKind::Pivot, &["charge-done"]),
        step("thank", StepKind::Retriable, &["ship-done"]),
    ])
}

/// `reserve` and `charge` at once, `pack` behind both; no pivot.
pub(crate) fn parallel() -> Definition {
    let steps = vec![
        step("reserve", StepKind::Compensatable, &["created"]),
        step("charge", StepKind::Compensatable, &["created"]),
        step("pack", StepKind::Compensatable, &["reserve-done", "charge-done"]),
    ];
    Definition::new(draft(steps)).unwrap()
}
