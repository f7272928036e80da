//! The definition and the faults of a run.

use milena_machines::{
    Random,
    saga::{Definition, Draft, Participant, Step, StepKind},
};

use crate::Mutation;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) sagas: u64,
    /// The owner starts sagas in its own transaction, and not after an event.
    pub(super) starts_in_transaction: bool,
    pub(super) latency_ms: u64,
    /// A transaction is open for less than this.
    pub(super) transaction_ms: u64,
    /// Whether records of one topic overtake each other, as with retry topics.
    pub(super) reorders: bool,
    /// One in this many actions fails.
    pub(super) failures: u64,
    /// One in this many records is delivered twice.
    pub(super) duplicates: u64,
    /// One in this many transactions is rolled back.
    pub(super) rollbacks: u64,
    /// One in this many records becomes a dead letter; 0 for none.
    pub(super) dead_letters: u64,
    pub(super) faults_ms: i64,
    pub(super) end_ms: i64,
    pub(super) mutation: Option<Mutation>,
}

impl Plan {
    pub(super) fn new(random: &mut Random, mutation: Option<Mutation>) -> (Self, Definition) {
        let faults_ms = 10_000 + random.below(20_000) as i64;
        let plan = Self {
            sagas: 1 + random.below(8),
            starts_in_transaction: random.below(2) == 0,
            latency_ms: if random.below(3) == 0 {
                3_000
            } else {
                1 + random.below(200)
            },
            transaction_ms: 1 + random.below(300),
            reorders: random.below(2) == 0,
            failures: 3 + random.below(20),
            duplicates: 2 + random.below(20),
            rollbacks: 3 + random.below(20),
            dead_letters: if random.below(2) == 0 { 0 } else { 5 + random.below(30) },
            faults_ms,
            // Timeouts, requests and the operator's retries of the longest saga, one after the other.
            end_ms: faults_ms + 14_400_000,
            mutation,
        };
        (plan, definition(random))
    }
}

/// The definition of a run.
fn definition(random: &mut Random) -> Definition {
    let draft = draft(random);
    match Definition::new(draft) {
        Ok(definition) => definition,
        Err(errors) => panic!("the simulator has a wrong definition: {errors:?}"),
    }
}

fn draft(random: &mut Random) -> Draft {
    let steps = match random.below(5) {
        0 => line(&[("reserve", 1), ("charge", 2)], None, &[]),
        1 => line(&[("reserve", 1), ("charge", 2)], Some(("ship", 3)), &[]),
        2 => line(&[("reserve", 1)], Some(("charge", 2)), &[("ship", 3), ("thank", 0)]),
        3 => parallel(),
        // The owner has a step of its own, and two steps are of one participant.
        _ => line(&[("approve", 0), ("reserve", 1), ("pack", 1)], Some(("ship", 3)), &[]),
    };
    let steps: Vec<Step> = steps.into_iter().map(|step| with_limits(step, random)).collect();
    let is_used = |name: &str| name == NAMES[0] || steps.iter().any(|step| step.participant == name);
    let participants = NAMES.iter().filter(|name| is_used(name)).map(|name| Participant {
        name: (*name).to_owned(),
        topic: format!("{name}.events"),
    });
    let has_deadline = random.below(2) == 0 || steps.iter().any(|step| step.timeout_ms.is_none());
    Draft {
        name: "order".to_owned(),
        owner: NAMES[0].to_owned(),
        participants: participants.collect(),
        starts: "Created".to_owned(),
        completed: Some("Completed".to_owned()),
        cancelled: Some("Cancelled".to_owned()),
        cancel_on: vec!["CancelRequested".to_owned()],
        compensation_requested: Draft::COMPENSATION_REQUESTED.to_owned(),
        deadline_ms: has_deadline.then(|| 2_000 + random.below(30_000) as i64),
        steps,
    }
}

const NAMES: [&str; 4] = ["orders", "inventory", "payment", "shipping"];

/// Steps one after the other.
fn line(before: &[(&str, usize)], pivot: Option<(&str, usize)>, after: &[(&str, usize)]) -> Vec<Step> {
    let before = before.iter().map(|step| (*step, StepKind::Compensatable));
    let pivot = pivot.into_iter().map(|step| (step, StepKind::Pivot));
    let after = after.iter().map(|step| (*step, StepKind::Retriable));
    let mut on = "Created".to_owned();
    let mut steps = vec![];
    for ((name, participant), kind) in before.chain(pivot).chain(after) {
        let step = step(name, participant, kind, &[&on]);
        on.clone_from(&step.done);
        steps.push(step);
    }
    steps
}

/// Two steps at once, one that waits for both, and two at once behind it.
fn parallel() -> Vec<Step> {
    vec![
        step("reserve", 1, StepKind::Compensatable, &["Created"]),
        step("charge", 2, StepKind::Compensatable, &["Created"]),
        step("insure", 2, StepKind::Compensatable, &["charge-done"]),
        step("ship", 3, StepKind::Pivot, &["reserve-done", "insure-done"]),
        step("thank", 0, StepKind::Retriable, &["ship-done"]),
        step("restock", 1, StepKind::Retriable, &["ship-done", "Created"]),
    ]
}

fn step(name: &str, participant: usize, kind: StepKind, on: &[&str]) -> Step {
    let can_fail = kind != StepKind::Retriable;
    Step {
        name: name.to_owned(),
        participant: NAMES.get(participant).copied().unwrap_or_default().to_owned(),
        kind,
        on: on.iter().map(|event| (*event).to_owned()).collect(),
        done: format!("{name}-done"),
        failed: can_fail.then(|| format!("{name}-failed")),
        compensated: (kind == StepKind::Compensatable).then(|| format!("{name}-undone")),
        timeout_ms: None,
        retries: 0,
        compensation_retries: 0,
    }
}

fn with_limits(step: Step, random: &mut Random) -> Step {
    Step {
        timeout_ms: (random.below(5) > 0).then(|| 500 + random.below(6_000) as i64),
        retries: random.below(3) as u32,
        compensation_retries: random.below(4) as u32,
        ..step
    }
}
