//! The owner, case by case.

use milena_machines::saga::{
    Action, Cause, Command, Definition, Ignored, Input, OwnerEvent, Phase, Refused, SagaState, StepIndex, StepStatus,
    Stuck,
};

use super::{order, order_draft, parallel};

const RESERVE: StepIndex = StepIndex(0);
const CHARGE: StepIndex = StepIndex(1);
const SHIP: StepIndex = StepIndex(2);
const THANK: StepIndex = StepIndex(3);

/// A saga of an owner, and the time.
struct Saga {
    definition: Definition,
    state: SagaState,
    now_ms: i64,
}

impl Saga {
    fn new(definition: Definition) -> Self {
        let state = SagaState::new(&definition, 0);
        let mut saga = Self {
            definition,
            state,
            now_ms: 0,
        };
        assert_eq!(saga.event("created"), []);
        saga
    }

    fn input(&mut self, input: Input<'_>) -> Vec<Action> {
        let transition = self.state.clone().handle(&self.definition, input, self.now_ms);
        self.state = transition.state;
        transition.actions
    }

    fn event(&mut self, event: &str) -> Vec<Action> {
        self.input(Input::Event(event))
    }

    fn events(&mut self, events: &[&str]) -> Vec<Action> {
        events.iter().flat_map(|event| self.event(event)).collect()
    }

    fn command(&mut self, command: Command) -> Vec<Action> {
        self.input(Input::Command(command))
    }

    /// Jumps to the next timer.
    fn timer(&mut self) -> Vec<Action> {
        self.now_ms = self.state.next_due_ms().unwrap();
        self.input(Input::Timer)
    }

    fn statuses(&self) -> Vec<&'static str> {
        self.state.steps.iter().map(|step| step.status.name()).collect()
    }
}

fn request(step: StepIndex) -> Action {
    Action::Emit(OwnerEvent::CompensationRequested(step))
}

const CANCELLED: [Action; 2] = [Action::Emit(OwnerEvent::Cancelled), Action::End(Phase::Compensated)];
const COMPLETED: [Action; 2] = [Action::Emit(OwnerEvent::Completed), Action::End(Phase::Completed)];

#[test]
fn a_saga_completes_when_all_steps_are_done() {
    let mut saga = Saga::new(order());
    assert_eq!(saga.statuses(), ["awaited", "pending", "pending", "pending"]);
    assert_eq!(saga.events(&["reserve-done", "charge-done", "ship-done"]), []);
    assert_eq!(saga.event("thank-done"), COMPLETED);
    assert_eq!(saga.state.next_due_ms(), None);
    assert_eq!(saga.event("thank-done"), [Action::Ignore(Ignored::Duplicate)]);
    assert_eq!(saga.event("created"), [Action::Ignore(Ignored::Duplicate)]);
}

#[test]
fn the_order_of_events_does_not_matter() {
    let mut saga = Saga::new(order());
    assert_eq!(saga.event("ship-done"), []);
    assert_eq!(saga.statuses(), ["done", "done", "done", "awaited"]);
    assert_eq!(saga.event("reserve-done"), [Action::Ignore(Ignored::Duplicate)]);
    assert_eq!(saga.event("thank-done"), COMPLETED);
}

#[test]
fn events_compensate_in_reverse_without_the_owner() {
    let mut saga = Saga::new(order());
    saga.events(&["reserve-done", "charge-done"]);
    // The participant of `charge` hears `ship-failed` itself.
    assert_eq!(saga.event("ship-failed"), []);
    assert_eq!(saga.state.cause, Some(Cause::Failed(SHIP)));
    assert_eq!(saga.statuses(), ["done", "compensating", "failed", "skipped"]);
    assert_eq!(saga.event("charge-undone"), []);
    assert_eq!(saga.statuses(), ["compensating", "compensated", "failed", "skipped"]);
    assert_eq!(saga.event("reserve-undone"), CANCELLED);
}

#[test]
fn a_compensation_that_is_not_reported_is_requested_and_then_stuck() {
    let mut saga = Saga::new(order());
    saga.events(&["reserve-done", "charge-failed"]);
    assert_eq!(saga.timer(), [request(RESERVE)]);
    assert_eq!(saga.timer(), [request(RESERVE)]);
    let stuck = Stuck::CompensationTimedOut(RESERVE);
    assert_eq!(saga.timer(), [Action::MarkStuck(stuck)]);
    assert_eq!((saga.state.stuck, saga.state.next_due_ms()), (Some(stuck), None));
    assert_eq!(saga.command(Command::Retry), [request(RESERVE)]);
    assert_eq!(saga.state.stuck, None);
    assert_eq!(saga.event("reserve-undone"), CANCELLED);
}

#[test]
fn a_late_event_lets_a_stuck_saga_go_on() {
    let mut saga = Saga::new(order());
    saga.events(&["reserve-done", "charge-failed"]);
    while saga.state.stuck.is_none() {
        saga.timer();
    }
    assert_eq!(saga.event("reserve-undone"), CANCELLED);
    assert_eq!(saga.state.stuck, None);
}

#[test]
fn after_a_timeout_the_pivot_in_doubt_is_asked_first() {
    let mut saga = Saga::new(order());
    saga.event("reserve-done");
    assert_eq!(saga.timer(), [request(SHIP)]);
    assert_eq!(
        (saga.state.phase, saga.state.cause),
        (Phase::Running, Some(Cause::TimedOut(CHARGE)))
    );
    // It had not been performed, and never will be. From here events lead backward.
    assert_eq!(saga.event("ship-failed"), []);
    assert_eq!(saga.state.phase, Phase::Compensating);
    assert_eq!(saga.events(&["charge-undone", "reserve-undone"]), CANCELLED);
}

#[test]
fn a_pivot_that_was_performed_refuses_the_cancellation() {
    let mut saga = Saga::new(order());
    assert_eq!(saga.event("cancel"), [request(SHIP)]);
    assert_eq!(saga.event("cancel"), [Action::Refuse(Refused::AlreadyCompensating)]);
    assert_eq!(saga.event("ship-done"), [Action::Refuse(Refused::PivotDone)]);
    assert_eq!((saga.state.phase, saga.state.cause), (Phase::Running, None));
    assert_eq!(saga.event("cancel"), [Action::Refuse(Refused::PivotDone)]);
    assert_eq!(saga.command(Command::Compensate), [Action::Refuse(Refused::PivotDone)]);
    assert_eq!(saga.event("thank-done"), COMPLETED);
    assert_eq!(saga.event("cancel"), [Action::Refuse(Refused::Ended)]);
}

#[test]
fn retriable_steps_are_redelivered_and_then_stuck() {
    let mut draft = order_draft();
    draft.steps[3].retries = 2;
    let mut saga = Saga::new(Definition::new(draft).unwrap());
    saga.event("ship-done");
    assert_eq!(saga.timer(), [Action::Redeliver(THANK)]);
    assert_eq!(saga.timer(), [Action::Redeliver(THANK)]);
    assert_eq!(saga.timer(), [Action::MarkStuck(Stuck::TimedOut(THANK))]);
    assert_eq!(saga.state.phase, Phase::Running);
    assert_eq!(saga.command(Command::Retry), [Action::Redeliver(THANK)]);
    assert_eq!(saga.event("thank-done"), COMPLETED);
}

#[test]
fn without_a_pivot_steps_in_doubt_are_asked_from_the_last() {
    let mut saga = Saga::new(parallel());
    assert_eq!(saga.event("cancel"), [request(StepIndex(2))]);
    assert_eq!(saga.state.phase, Phase::Compensating);
    assert_eq!(saga.event("reserve-done"), []);
    // Both of those before it hear the event themselves.
    assert_eq!(saga.event("pack-undone"), []);
    assert_eq!(saga.event("charge-done"), [Action::Ignore(Ignored::Stale)]);
    assert_eq!(saga.events(&["charge-undone", "reserve-undone"]), CANCELLED);
}

#[test]
fn a_parallel_step_is_asked_because_it_hears_nothing() {
    let mut saga = Saga::new(parallel());
    saga.event("charge-done");
    assert_eq!(saga.event("reserve-failed"), [request(CHARGE)]);
    assert_eq!(saga.statuses(), ["failed", "compensating", "skipped"]);
    assert_eq!(saga.event("charge-undone"), CANCELLED);
}

#[test]
fn the_deadline_cancels_before_the_pivot_and_is_stuck_behind_it() {
    let mut draft = order_draft();
    draft.deadline_ms = Some(500);
    let definition = Definition::new(draft).unwrap();
    let mut saga = Saga::new(definition.clone());
    assert_eq!(saga.timer(), [request(SHIP)]);
    assert_eq!(saga.state.cause, Some(Cause::Deadline));
    let mut saga = Saga::new(definition);
    saga.event("ship-done");
    assert_eq!(saga.timer(), [Action::MarkStuck(Stuck::Deadline)]);
    assert_eq!(saga.event("thank-done"), COMPLETED);
    assert_eq!(saga.state.stuck, None);
}

#[test]
fn timers_that_fire_early_or_twice_do_nothing() {
    let mut saga = Saga::new(order());
    assert_eq!(saga.input(Input::Timer), [Action::Ignore(Ignored::NotDue)]);
    saga.timer();
    let state = saga.state.clone();
    assert_eq!(saga.input(Input::Timer), [Action::Ignore(Ignored::NotDue)]);
    assert_eq!(saga.state, state);
}

#[test]
fn events_that_disagree_are_visible() {
    let mut saga = Saga::new(order());
    saga.events(&["reserve-done", "charge-failed", "reserve-undone"]);
    assert_eq!(saga.state.phase, Phase::Compensated);
    let conflict = Stuck::Conflict(CHARGE);
    assert_eq!(saga.event("charge-done"), [Action::MarkStuck(conflict)]);
    assert_eq!(saga.state.stuck, Some(conflict));
    assert_eq!(saga.command(Command::Retry), [Action::Refuse(Refused::Ended)]);
    assert_eq!(saga.command(Command::Close), [Action::End(Phase::Closed)]);
    assert_eq!(saga.event("charge-done"), [Action::Ignore(Ignored::Ended)]);
}

#[test]
fn a_step_compensated_by_itself_cancels_the_saga() {
    let mut saga = Saga::new(order());
    saga.event("reserve-done");
    assert_eq!(saga.event("reserve-undone"), [request(SHIP)]);
    assert_eq!(saga.state.cause, Some(Cause::Compensated(RESERVE)));
    // Too late: goods are gone and the parcel is on its way.
    let actions = saga.event("ship-done");
    assert_eq!(
        actions,
        [
            Action::Refuse(Refused::PivotDone),
            Action::MarkStuck(Stuck::Conflict(SHIP))
        ]
    );
}

#[test]
fn a_closed_saga_stays_closed() {
    let mut saga = Saga::new(order());
    assert_eq!(saga.command(Command::Close), [Action::End(Phase::Closed)]);
    assert_eq!(saga.event("reserve-done"), [Action::Ignore(Ignored::Ended)]);
    for command in [Command::Close, Command::Retry, Command::Compensate] {
        assert_eq!(saga.command(command), [Action::Refuse(Refused::Ended)]);
    }
    assert_eq!(saga.state.next_due_ms(), None);
}

#[test]
fn an_operator_compensates_a_running_saga() {
    let mut saga = Saga::new(order());
    saga.event("reserve-done");
    assert_eq!(saga.command(Command::Compensate), [request(SHIP)]);
    saga.events(&["ship-failed", "charge-undone"]);
    assert_eq!(saga.event("reserve-undone"), CANCELLED);
    assert_eq!(saga.state.cause, Some(Cause::Operator));
}

#[test]
fn events_before_the_start_are_kept() {
    let definition = order();
    let state = SagaState::new(&definition, 0);
    let mut saga = Saga {
        definition,
        state,
        now_ms: 0,
    };
    assert!(saga.definition.is_followed("reserve-done"));
    assert!(!saga.definition.is_followed("undo") && !saga.definition.is_followed("other"));
    saga.event("reserve-done");
    assert!(!saga.state.is_started);
    assert_eq!(saga.event("created"), []);
    assert!(saga.state.is_started);
    assert_eq!(saga.state.status(CHARGE), Some(StepStatus::Awaited));
    assert_eq!(saga.event("other"), [Action::Ignore(Ignored::NotConcerned)]);
    assert_eq!(saga.event("undo"), [Action::Ignore(Ignored::NotConcerned)]);
}
