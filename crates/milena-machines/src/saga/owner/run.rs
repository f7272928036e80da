//! One call of the owner: applies an input to the state and collects actions.

use super::{
    super::{Definition, Step, StepIndex, StepKind, definition::Meaning},
    Action, Cause, Command, Ignored, Input, OwnerEvent, Phase, Refused, SagaState, StepProgress, StepStatus, Stuck,
};

/// A definition, the state of one saga, and the actions so far.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    definition: &'a Definition,
    state: &'a mut SagaState,
    now_ms: i64,
    actions: Vec<Action>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(definition: &'a Definition, state: &'a mut SagaState, now_ms: i64) -> Self {
        Self {
            definition,
            state,
            now_ms,
            actions: vec![],
        }
    }

    pub(crate) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    pub(crate) fn handle(&mut self, input: Input<'_>) {
        match input {
            Input::Event(event) => self.event(event),
            Input::Timer => self.timer(),
            Input::Command(Command::Retry) => self.retry(),
            Input::Command(Command::Compensate) => self.cancel(Cause::Operator),
            Input::Command(Command::Close) => self.close(),
        }
        self.update_stuck();
    }

    /// A late event lets a saga go on that was stuck, unless another step needs an operator too. A saga that has nothing
    /// to wait for is stuck as well: its events disagree.
    fn update_stuck(&mut self) {
        let has_ended = self.state.phase.is_ended();
        if let Some(stuck) = self.state.stuck {
            self.state.stuck = match stuck {
                Stuck::Conflict(_) => Some(stuck),
                _ if has_ended => None,
                _ => self.remaining_stuck(),
            };
        }
        if !has_ended && self.state.stuck.is_none() && self.state.next_due_ms().is_none() {
            let open = self.state.steps.iter().position(|step| step.status != StepStatus::Done);
            self.mark_stuck(Stuck::Conflict(StepIndex(open.unwrap_or(0))));
        }
    }

    fn remaining_stuck(&self) -> Option<Stuck> {
        let exhausted = self.definition.indices().find(|step| self.is_exhausted(*step));
        if let Some(step) = exhausted {
            return Some(match self.status(step) {
                StepStatus::Compensating => Stuck::CompensationTimedOut(step),
                _ => Stuck::TimedOut(step),
            });
        }
        let has_deadline = self.definition.draft().deadline_ms.is_some();
        let is_late = has_deadline && self.state.deadline_ms.is_none() && self.pivot_is_done();
        is_late.then_some(Stuck::Deadline)
    }

    /// Whether the owner waits for a step and has given up asking.
    fn is_exhausted(&self, step: StepIndex) -> bool {
        let has_timeout = self.step(step).is_some_and(|step| step.timeout_ms.is_some());
        let has_timer = self.due_ms(step).is_some();
        match self.status(step) {
            StepStatus::Compensating => !has_timer,
            StepStatus::Awaited => has_timeout && self.state.cause.is_none() && !has_timer,
            _ => false,
        }
    }

    fn event(&mut self, event: &str) {
        let Some(meaning) = self.definition.meaning(event) else {
            return self.ignore(Ignored::NotConcerned);
        };
        if self.state.phase == Phase::Closed {
            return self.ignore(Ignored::Ended);
        }
        match meaning {
            Meaning::Own => self.ignore(Ignored::NotConcerned),
            Meaning::Start if self.state.is_started => self.ignore(Ignored::Duplicate),
            Meaning::Start => self.state.is_started = true,
            Meaning::Cancel => self.cancel(Cause::Requested),
            Meaning::Done(step) => self.done(step),
            Meaning::Failed(step) => self.failed(step),
            Meaning::Compensated(step) => self.compensated(step),
        }
    }

    fn done(&mut self, step: StepIndex) {
        let is_compensatable = self.step(step).is_some_and(|step| step.kind == StepKind::Compensatable);
        match (self.status(step), self.state.phase) {
            (StepStatus::Done, _) => self.ignore(Ignored::Duplicate),
            (StepStatus::Compensated, _) => self.ignore(Ignored::Stale),
            (StepStatus::Compensating, _) if is_compensatable => self.ignore(Ignored::Stale),
            // A service that does not keep tombstones: its effect must be undone too.
            (StepStatus::Skipped, Phase::Compensating) if is_compensatable => {
                self.settle(step, StepStatus::Done);
                self.unwind();
            }
            (StepStatus::Failed | StepStatus::Skipped, _) => self.mark_stuck(Stuck::Conflict(step)),
            (StepStatus::Pending | StepStatus::Awaited | StepStatus::Compensating, _) => {
                self.settle(step, StepStatus::Done);
                self.settle_before(step);
                self.step_done(step);
            }
        }
    }

    /// Goes on after a step that is done. A pivot ends all thoughts of cancelling.
    fn step_done(&mut self, step: StepIndex) {
        if self.state.phase == Phase::Compensating {
            return self.unwind();
        }
        let is_forward_only = self.pivot_is_done();
        if is_forward_only && self.state.cause.take().is_some() {
            self.actions.push(Action::Refuse(Refused::PivotDone));
            self.rearm_deadline();
            let is_undone = |step: &StepProgress| step.status == StepStatus::Compensated;
            if self.state.steps.iter().any(is_undone) {
                self.mark_stuck(Stuck::Conflict(step));
            }
        }
        self.advance();
    }

    /// A step is performed only after those before it, so their events are merely late.
    fn settle_before(&mut self, step: StepIndex) {
        for other in self.definition.indices() {
            let is_before = self.definition.descendants(other).contains(&step);
            let is_late = match self.status(other) {
                StepStatus::Pending | StepStatus::Awaited => true,
                // It was asked too late.
                StepStatus::Compensating => Some(other) == self.definition.pivot(),
                _ => false,
            };
            if is_before && is_late {
                self.settle(other, StepStatus::Done);
            }
        }
    }

    fn failed(&mut self, step: StepIndex) {
        match self.status(step) {
            StepStatus::Failed => self.ignore(Ignored::Duplicate),
            StepStatus::Compensated => self.ignore(Ignored::Stale),
            StepStatus::Done => self.mark_stuck(Stuck::Conflict(step)),
            StepStatus::Skipped if self.state.phase.is_ended() => self.ignore(Ignored::Stale),
            StepStatus::Pending | StepStatus::Awaited | StepStatus::Skipped | StepStatus::Compensating => {
                self.settle(step, StepStatus::Failed);
                self.skip_after(step);
                self.compensate(Cause::Failed(step));
            }
        }
    }

    /// Steps behind a failed one never begin: only its `done` event would trigger them.
    fn skip_after(&mut self, step: StepIndex) {
        for other in self.definition.descendants(step) {
            match self.status(*other) {
                StepStatus::Pending | StepStatus::Awaited | StepStatus::Compensating => {
                    self.settle(*other, StepStatus::Skipped);
                }
                _ => {}
            }
        }
    }

    fn compensated(&mut self, step: StepIndex) {
        match (self.status(step), self.state.phase) {
            (StepStatus::Compensated, _) => self.ignore(Ignored::Duplicate),
            (StepStatus::Failed, _) | (StepStatus::Skipped, Phase::Compensated) => self.ignore(Ignored::Stale),
            (_, Phase::Completed) => self.mark_stuck(Stuck::Conflict(step)),
            _ if self.pivot_is_done() => self.mark_stuck(Stuck::Conflict(step)),
            _ => {
                self.settle(step, StepStatus::Compensated);
                self.compensate(Cause::Compensated(step));
            }
        }
    }

    fn cancel(&mut self, cause: Cause) {
        if self.state.phase.is_ended() {
            self.refuse(Refused::Ended);
        } else if self.pivot_is_done() {
            self.refuse(Refused::PivotDone);
        } else if self.state.cause.is_some() {
            self.refuse(Refused::AlreadyCompensating);
        } else {
            self.compensate(cause);
        }
    }

    /// Goes backward, unless a pivot in doubt has to be asked first.
    fn compensate(&mut self, cause: Cause) {
        self.state.cause.get_or_insert(cause);
        if let Some(pivot) = self.definition.pivot()
            && !self.status(pivot).is_settled()
        {
            self.stop_forward_timers();
            if self.status(pivot) != StepStatus::Compensating {
                self.begin_compensation(pivot);
            }
            return;
        }
        self.state.phase = self.state.phase.max(Phase::Compensating);
        self.state.deadline_ms = None;
        self.stop_forward_timers();
        self.unwind();
    }

    fn stop_forward_timers(&mut self) {
        let forward = |step: &&mut StepProgress| step.status != StepStatus::Compensating;
        for step in self.state.steps.iter_mut().filter(forward) {
            step.due_ms = None;
        }
    }

    /// Compensates the steps that have only settled steps behind them, and ends the saga behind the last.
    fn unwind(&mut self) {
        for step in self.definition.indices().rev() {
            let status = self.status(step);
            let is_open = !status.is_settled() && status != StepStatus::Compensating;
            let after = self.definition.after(step);
            if is_open && after.iter().all(|after| self.status(*after).is_settled()) {
                self.begin_compensation(step);
            }
        }
        let is_over = self.state.steps.iter().all(|step| step.status.is_settled());
        if is_over && self.state.phase == Phase::Compensating {
            self.end(Phase::Compensated, OwnerEvent::Cancelled);
        }
    }

    fn begin_compensation(&mut self, step: StepIndex) {
        self.settle(step, StepStatus::Compensating);
        if self.compensates_unasked(step) {
            self.await_compensation(step);
        } else {
            self.request_compensation(step);
        }
    }

    /// Whether the participant reads the event that let the owner compensate the step.
    fn compensates_unasked(&self, step: StepIndex) -> bool {
        let has_event = |status| matches!(status, StepStatus::Failed | StepStatus::Compensated);
        match self.definition.after(step) {
            [next] => has_event(self.status(*next)),
            _ => false,
        }
    }

    fn request_compensation(&mut self, step: StepIndex) {
        self.actions.push(Action::Emit(OwnerEvent::CompensationRequested(step)));
        if let Some(progress) = self.state.steps.get_mut(step.0) {
            progress.attempts = progress.attempts.saturating_add(1);
        }
        self.await_compensation(step);
    }

    fn await_compensation(&mut self, step: StepIndex) {
        let timeout = self.step(step).map_or(Step::TIMEOUT_MS, Step::compensation_timeout_ms);
        let due = self.now_ms.saturating_add(timeout);
        if let Some(progress) = self.state.steps.get_mut(step.0) {
            progress.due_ms = Some(due);
        }
    }

    /// Awaits the steps whose triggers have all arrived, and completes the saga behind the last.
    pub(crate) fn advance(&mut self) {
        if self.state.phase != Phase::Running {
            return;
        }
        for step in self.definition.indices() {
            let mut before = self.definition.before(step).iter();
            let is_triggered = before.all(|before| self.status(*before) == StepStatus::Done);
            if is_triggered && self.status(step) == StepStatus::Pending {
                self.await_step(step);
            }
        }
        if self.state.steps.iter().all(|step| step.status == StepStatus::Done) {
            self.end(Phase::Completed, OwnerEvent::Completed);
        }
    }

    fn await_step(&mut self, step: StepIndex) {
        let timeout = self.step(step).and_then(|step| step.timeout_ms);
        let is_forward = self.state.cause.is_none();
        let due = timeout
            .filter(|_| is_forward)
            .map(|timeout| self.now_ms.saturating_add(timeout));
        if let Some(progress) = self.state.steps.get_mut(step.0) {
            progress.status = StepStatus::Awaited;
            progress.due_ms = due;
        }
    }

    fn timer(&mut self) {
        let is_due = |due: Option<i64>| due.is_some_and(|due| due <= self.now_ms);
        let due: Vec<StepIndex> = self
            .definition
            .indices()
            .filter(|step| is_due(self.due_ms(*step)))
            .collect();
        if is_due(self.state.deadline_ms) {
            self.deadline();
        } else if due.is_empty() {
            return self.ignore(Ignored::NotDue);
        }
        for step in due {
            // An earlier one of these timers may have stopped this one.
            if self.due_ms(step).is_some_and(|due| due <= self.now_ms) {
                self.step_timer(step);
            }
        }
    }

    /// A saga that goes on after its deadline gets another one, so that it cannot be forgotten.
    fn rearm_deadline(&mut self) {
        let deadline = self.definition.draft().deadline_ms;
        let again = deadline.map(|deadline| self.now_ms.saturating_add(deadline));
        self.state.deadline_ms = self.state.deadline_ms.or(again);
    }

    fn deadline(&mut self) {
        self.state.deadline_ms = None;
        if self.pivot_is_done() {
            self.mark_stuck(Stuck::Deadline);
        } else if self.state.cause.is_none() {
            self.compensate(Cause::Deadline);
        }
    }

    fn step_timer(&mut self, index: StepIndex) {
        let (Some(step), Some(progress)) = (self.definition.step(index), self.state.steps.get_mut(index.0)) else {
            return;
        };
        progress.due_ms = None;
        match (progress.status, step.kind) {
            (StepStatus::Awaited, _) if progress.attempts < step.retries => {
                progress.attempts += 1;
                self.actions.push(Action::Redeliver(index));
                self.await_step(index);
            }
            (StepStatus::Awaited, StepKind::Retriable) => self.mark_stuck(Stuck::TimedOut(index)),
            (StepStatus::Awaited, _) => self.compensate(Cause::TimedOut(index)),
            (StepStatus::Compensating, _) if progress.attempts <= step.compensation_retries => {
                self.request_compensation(index);
            }
            (StepStatus::Compensating, _) => self.mark_stuck(Stuck::CompensationTimedOut(index)),
            _ => {}
        }
    }

    fn retry(&mut self) {
        if self.state.phase.is_ended() {
            return self.refuse(Refused::Ended);
        }
        self.state.stuck = None;
        let is_forward = self.state.cause.is_none();
        if is_forward {
            self.rearm_deadline();
        }
        for step in self.definition.indices() {
            let status = self.status(step);
            if let Some(progress) = self.state.steps.get_mut(step.0) {
                progress.attempts = 0;
            }
            match status {
                StepStatus::Awaited if is_forward => {
                    self.actions.push(Action::Redeliver(step));
                    self.await_step(step);
                }
                StepStatus::Compensating => self.request_compensation(step),
                _ => {}
            }
        }
    }

    fn close(&mut self) {
        let is_over = self.state.phase.is_ended() && self.state.stuck.is_none();
        if is_over || self.state.phase == Phase::Closed {
            return self.refuse(Refused::Ended);
        }
        self.stop(Phase::Closed);
        self.state.stuck = None;
    }

    fn end(&mut self, phase: Phase, event: OwnerEvent) {
        if event.event_type(self.definition).is_some() {
            self.actions.push(Action::Emit(event));
        }
        self.stop(phase);
    }

    fn stop(&mut self, phase: Phase) {
        self.state.phase = phase;
        self.state.deadline_ms = None;
        for step in &mut self.state.steps {
            step.due_ms = None;
        }
        self.actions.push(Action::End(phase));
    }

    /// Changes the status of a step.
    fn settle(&mut self, step: StepIndex, status: StepStatus) {
        if let Some(progress) = self.state.steps.get_mut(step.0) {
            *progress = StepProgress {
                status,
                attempts: 0,
                due_ms: None,
            };
        }
    }

    fn mark_stuck(&mut self, stuck: Stuck) {
        // The first conflict is the one to look at; nothing hides it.
        if self.state.stuck == Some(stuck) || matches!(self.state.stuck, Some(Stuck::Conflict(_))) {
            return self.ignore(Ignored::Duplicate);
        }
        self.state.stuck = Some(stuck);
        self.actions.push(Action::MarkStuck(stuck));
    }

    fn ignore(&mut self, reason: Ignored) {
        self.actions.push(Action::Ignore(reason));
    }

    fn refuse(&mut self, reason: Refused) {
        self.actions.push(Action::Refuse(reason));
    }

    fn pivot_is_done(&self) -> bool {
        let pivot = self.definition.pivot();
        pivot.is_some_and(|pivot| self.status(pivot) == StepStatus::Done)
    }

    fn step(&self, step: StepIndex) -> Option<&'a Step> {
        self.definition.step(step)
    }

    fn status(&self, step: StepIndex) -> StepStatus {
        self.state.status(step).unwrap_or(StepStatus::Skipped)
    }

    fn due_ms(&self, step: StepIndex) -> Option<i64> {
        self.state.steps.get(step.0).and_then(|step| step.due_ms)
    }
}
