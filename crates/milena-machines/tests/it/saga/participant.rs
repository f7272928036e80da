//! Participants: each action once, each compensation once, in whatever order events arrive.

use milena_machines::saga::{
    Decision, Definition, Emission, IgnoredPart, Outcome, Reaction, RefusedPart, StepEvent, StepIndex, StepPhase,
    StepState,
};

use super::{order, parallel};

fn in_phase(phase: StepPhase) -> StepState {
    StepState {
        phase,
        ..StepState::default()
    }
}

fn trigger(definition: &Definition, step: usize, state: &StepState, event: &str) -> Decision {
    state.handle(definition, Reaction::Trigger(StepIndex(step)), event)
}

fn compensate(definition: &Definition, step: usize, state: &StepState) -> Decision {
    state.handle(definition, Reaction::Compensate(StepIndex(step)), "undo")
}

#[test]
fn events_concern_the_steps_that_they_are_about() {
    let order = order();
    let reactions = |participant, event, step| order.reactions(participant, event, step);
    assert_eq!(
        reactions("charge-service", "reserve-done", None),
        [Reaction::Trigger(StepIndex(1))]
    );
    let undo = [Reaction::Compensate(StepIndex(1))];
    assert_eq!(reactions("charge-service", "ship-failed", None), undo);
    assert_eq!(reactions("charge-service", "undo", Some("charge")), undo);
    assert_eq!(reactions("charge-service", "undo", Some("reserve")), []);
    assert_eq!(reactions("charge-service", "undo", None), []);
    assert_eq!(reactions("thank-service", "undo", Some("thank")), []);
    let pivot = [Reaction::Compensate(StepIndex(2))];
    assert_eq!(reactions("ship-service", "undo", Some("ship")), pivot);
    let reserve = [Reaction::Compensate(StepIndex(0))];
    assert_eq!(reactions("reserve-service", "charge-undone", None), reserve);
}

#[test]
fn an_action_happens_once() {
    let order = order();
    assert_eq!(trigger(&order, 0, &StepState::default(), "created"), Decision::Perform);
    let step = order.step(StepIndex(0)).unwrap();
    let (done, emission) = StepState::performed(step, Outcome::Done).unwrap();
    let event = "reserve-done".to_owned();
    let kind = StepEvent::Done;
    assert_eq!((done.phase, emission), (StepPhase::Done, Emission { event, kind }));
    let again = Decision::Ignore(IgnoredPart::AlreadyPerformed);
    assert_eq!(trigger(&order, 0, &done, "created"), again);
    let (failed, _) = StepState::performed(step, Outcome::Failed).unwrap();
    assert_eq!(trigger(&order, 0, &failed, "created"), again);
    assert_eq!(
        StepState::performed(order.step(StepIndex(3)).unwrap(), Outcome::Failed),
        None
    );
}

#[test]
fn a_compensation_happens_once() {
    let order = order();
    assert_eq!(compensate(&order, 0, &in_phase(StepPhase::Done)), Decision::Compensate);
    let (undone, emission) = StepState::compensated(order.step(StepIndex(0)).unwrap()).unwrap();
    assert_eq!(
        (undone.phase, emission.kind),
        (StepPhase::Compensated, StepEvent::Compensated)
    );
    let again = Decision::Ignore(IgnoredPart::AlreadyCompensated);
    assert_eq!(compensate(&order, 0, &undone), again);
    let late = Decision::Refuse(RefusedPart::Compensated);
    assert_eq!(trigger(&order, 0, &undone, "created"), late);
}

#[test]
fn a_compensation_before_the_action_leaves_a_tombstone() {
    let order = order();
    let Decision::Store(tombstone, Some(emission)) = compensate(&order, 0, &StepState::default()) else {
        panic!("no tombstone");
    };
    assert_eq!(tombstone.phase, StepPhase::Cancelled);
    let event = "reserve-undone".to_owned();
    let kind = StepEvent::NothingToUndo;
    assert_eq!(emission, Emission { event, kind });
    let late = Decision::Refuse(RefusedPart::Cancelled);
    assert_eq!(trigger(&order, 0, &tombstone, "created"), late);
    let again = Decision::Ignore(IgnoredPart::AlreadyCompensated);
    assert_eq!(compensate(&order, 0, &tombstone), again);
}

#[test]
fn a_failed_step_has_nothing_to_undo() {
    let decision = compensate(&order(), 0, &in_phase(StepPhase::Failed));
    assert_eq!(decision, Decision::Ignore(IgnoredPart::AlreadyFailed));
}

#[test]
fn a_pivot_is_cancelled_in_time_or_never() {
    let order = order();
    let Decision::Store(tombstone, Some(emission)) = compensate(&order, 2, &StepState::default()) else {
        panic!("no tombstone");
    };
    assert_eq!(
        (tombstone.phase, emission.event.as_str()),
        (StepPhase::Cancelled, "ship-failed")
    );
    let decision = compensate(&order, 2, &in_phase(StepPhase::Done));
    assert_eq!(decision, Decision::Ignore(IgnoredPart::PivotPerformed));
}

#[test]
fn a_step_waits_for_all_its_events() {
    let parallel = parallel();
    let Decision::Store(waiting, None) = trigger(&parallel, 2, &StepState::default(), "charge-done") else {
        panic!("does not wait");
    };
    assert_eq!(waiting.phase, StepPhase::Waiting);
    assert!(matches!(trigger(&parallel, 2, &waiting, "charge-done"), Decision::Store(same, None) if same == waiting));
    assert_eq!(trigger(&parallel, 2, &waiting, "reserve-done"), Decision::Perform);
}
