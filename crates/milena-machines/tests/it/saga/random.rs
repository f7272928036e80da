//! Properties of the owner for arbitrary inputs, also for those that no participant of ours would send.

use std::collections::BTreeMap;

use milena_machines::{
    Random,
    saga::{Action, Command, Definition, Input, OwnerEvent, Phase, SagaState, StepIndex, StepKind, StepStatus, Stuck},
};

use super::{draft, order, order_draft, parallel, step};

fn definitions() -> Vec<Definition> {
    let mut with_deadline = order_draft();
    with_deadline.deadline_ms = Some(3_000);
    for step in &mut with_deadline.steps {
        step.timeout_ms = None;
    }
    let fan_out = vec![
        step("open", StepKind::Compensatable, &["created"]),
        step("reserve", StepKind::Compensatable, &["open-done"]),
        step("charge", StepKind::Compensatable, &["open-done"]),
        step("ship", StepKind::Pivot, &["reserve-done", "charge-done"]),
        step("thank", StepKind::Retriable, &["ship-done"]),
        step("restock", StepKind::Retriable, &["ship-done"]),
    ];
    let rest = [with_deadline, draft(fan_out)].map(|draft| Definition::new(draft).unwrap());
    [order(), parallel()].into_iter().chain(rest).collect()
}

fn random_input<'a>(random: &mut Random, events: &[&'a str]) -> Input<'a> {
    match random.below(20) {
        0..=2 => Input::Timer,
        3 => Input::Command(Command::Retry),
        4 => Input::Command(Command::Compensate),
        5 if random.below(5) == 0 => Input::Command(Command::Close),
        _ => Input::Event(events[random.below(events.len() as u64) as usize]),
    }
}

/// A phase never goes back, and an end is final.
fn check_phase(before: &SagaState, after: &SagaState, text: &str) {
    let is_forward = match before.phase {
        Phase::Running => true,
        Phase::Compensating => !matches!(after.phase, Phase::Running | Phase::Completed),
        Phase::Completed | Phase::Compensated => after.phase == before.phase || after.phase == Phase::Closed,
        Phase::Closed => after.phase == Phase::Closed,
    };
    assert!(is_forward, "{text}");
}

/// A saga ends, has a timer, or is visibly stuck.
fn check_alive(state: &SagaState, text: &str) {
    let has_timer = state.next_due_ms().is_some();
    assert!(!(has_timer && state.phase.is_ended()), "{text}");
    assert!(state.phase.is_ended() || has_timer || state.stuck.is_some(), "{text}");
}

/// Compensations go backward: those behind a step are settled first.
fn check_order(definition: &Definition, state: &SagaState, text: &str) {
    for step in definition.indices() {
        if state.status(step) != Some(StepStatus::Compensating) || Some(step) == definition.pivot() {
            continue;
        }
        for after in definition.after(step) {
            assert!(state.status(*after).unwrap().is_settled(), "{text}");
        }
    }
    let pivot = definition.pivot().and_then(|pivot| state.status(pivot));
    if pivot == Some(StepStatus::Done) {
        assert!(
            !matches!(state.phase, Phase::Compensating | Phase::Compensated),
            "{text}"
        );
    }
}

fn ends(actions: &[Action]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for action in actions {
        let name = match action {
            Action::Emit(OwnerEvent::Completed) => "completed",
            Action::Emit(OwnerEvent::Cancelled) => "cancelled",
            Action::End(Phase::Completed | Phase::Compensated) => "end",
            _ => continue,
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

#[test]
fn arbitrary_inputs_keep_the_invariants() {
    for definition in definitions() {
        let mut events = definition.events_read_by("orders");
        events.push("unknown");
        for seed in 0..3_000 {
            let mut random = Random::new(seed);
            let mut now_ms = 0;
            let mut state = SagaState::new(&definition, now_ms);
            let (mut all, mut is_in_order) = (vec![], true);
            for _ in 0..30 {
                now_ms += random.below(900) as i64;
                let input = random_input(&mut random, &events);
                let before = state.clone();
                let transition = state.handle(&definition, input, now_ms);
                state = transition.state;
                let actions = &transition.actions;
                let text = format!("seed {seed}, {input:?}\n{before:?}\n{state:?}\n{actions:?}");
                check_phase(&before, &state, &text);
                check_alive(&state, &text);
                // A participant without tombstones, whose step comes too late to be undone in order.
                let is_skipped = |step| before.status(step) == Some(StepStatus::Skipped);
                let is_undone_late = |step| state.status(step) == Some(StepStatus::Compensating) && is_skipped(step);
                is_in_order &= !definition.indices().any(is_undone_late);
                if is_in_order {
                    check_order(&definition, &state, &text);
                }
                all.extend(transition.actions);
            }
            let ends = ends(&all);
            assert!(ends.values().all(|count| *count == 1), "seed {seed}: {ends:?}");
            assert!(ends.len() != 3, "seed {seed}: {ends:?}");
        }
    }
}

#[test]
fn repeating_an_input_changes_nothing() {
    for definition in definitions() {
        let events = definition.events_read_by("orders");
        for seed in 0..1_000 {
            let mut random = Random::new(seed);
            let mut state = SagaState::new(&definition, 0);
            for _ in 0..12 {
                let event = events[random.below(events.len() as u64) as usize];
                state = state.handle(&definition, Input::Event(event), 0).state;
                let again = state.clone().handle(&definition, Input::Event(event), 0);
                assert_eq!(again.state, state, "seed {seed}, {event}");
                let is_silent = |action: &Action| matches!(action, Action::Ignore(_) | Action::Refuse(_));
                assert!(again.actions.iter().all(is_silent), "{:?}", again.actions);
            }
        }
    }
}

/// The owner alone, with participants that answer every request: it always ends.
#[test]
fn a_saga_ends_when_participants_answer() {
    for definition in definitions() {
        let events = definition.events_read_by("orders");
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let mut now_ms = 0;
            let mut state = SagaState::new(&definition, now_ms);
            for _ in 0..random.below(6) {
                let event = events[random.below(events.len() as u64) as usize];
                state = state.handle(&definition, Input::Event(event), now_ms).state;
            }
            for _ in 0..100 {
                if state.phase.is_ended() || matches!(state.stuck, Some(Stuck::Conflict(_))) {
                    break;
                }
                let reported: Vec<StepIndex> = definition.indices().collect();
                for step in reported {
                    let declared = definition.step(step).unwrap();
                    let event = match state.status(step).unwrap() {
                        StepStatus::Awaited => Some(&declared.done),
                        StepStatus::Compensating => declared.compensated.as_ref().or(declared.failed.as_ref()),
                        _ => None,
                    };
                    if let Some(event) = event.filter(|_| random.below(2) == 0) {
                        state = state.handle(&definition, Input::Event(event), now_ms).state;
                    }
                }
                now_ms = state.next_due_ms().unwrap_or(now_ms);
                state = state.handle(&definition, Input::Timer, now_ms).state;
                if state.stuck.is_some() {
                    state = state.handle(&definition, Input::Command(Command::Retry), now_ms).state;
                }
            }
            let is_visible = state.phase.is_ended() || state.stuck.is_some();
            assert!(is_visible, "seed {seed}: {state:?}");
        }
    }
}
