//! One change of one saga: decides with the machines, calls the user's functions, and stores the result, all in one
//! transaction that the caller commits.

use bytes::Bytes;
use milena_app::{
    handler::{Cx, Fault},
    saga::STEP_HEADER,
};
use milena_machines::saga::{
    Action, Command, Decision, Emission, Input, Outcome as StepResult, OwnerEvent, Phase, Reaction, SagaState, Step,
    StepIndex, StepState,
};

use super::{
    Outcome, Participant,
    call::{EndCall, SagaEnd, StepCall, StepFn, TransactionHolder, savepoint},
    command::PendingCommand,
    event::{NewEvent, SAGA_REASON, SagaEvent, redelivery, stored},
    metrics::Happening,
    state::{ParticipantState, describe_stuck},
    store::{self, AuditLine, Conflict, SagaKey, SagaRow},
};
use crate::{
    once::{fault, outbox_fault},
    outbox::{self, OutboxEvent},
};

/// The input of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trigger<'a> {
    Event { event: &'a SagaEvent, cx: &'a Cx },
    Timer,
    Command(&'a PendingCommand),
}

/// A change that failed: the transaction is rolled back.
#[derive(Debug)]
pub(crate) enum ChangeError {
    /// Begin again: another transaction was first.
    Conflict(Conflict),
    Fault(Fault),
}

impl<E: Into<Fault>> From<E> for ChangeError {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// A saga in the hands of one participant, in a transaction.
pub(crate) struct SagaChange<'a> {
    participant: &'a Participant,
    transaction: &'a mut TransactionHolder,
    trigger: Trigger<'a>,
    now_ms: i64,
    key: SagaKey,
    /// The stored row, if there is one.
    row: Option<SagaRow>,
    state: ParticipantState,
    outbox: Vec<OutboxEvent>,
    /// Parts of the audit line.
    notes: Vec<String>,
    /// Why a step failed, in the words of its function or its event.
    reason: Option<String>,
    /// For metrics and log lines after the commit.
    happenings: Vec<Happening>,
}

impl<'a> SagaChange<'a> {
    /// Handles an input. Returns what to count when the transaction is committed.
    pub(crate) async fn run(
        participant: &'a Participant,
        transaction: &'a mut TransactionHolder,
        trigger: Trigger<'a>,
        saga_id: &str,
        now_ms: i64,
    ) -> Result<(SagaKey, Vec<Happening>), ChangeError> {
        let key = SagaKey {
            saga_type: participant.definition().name().to_owned(),
            participant: participant.name.clone(),
            saga_id: saga_id.to_owned(),
        };
        let row = store::lock(transaction.connection()?, &key).await.map_err(fault)?;
        let state = match &row {
            Some(row) => ParticipantState::from_json(participant.definition(), &row.state)?,
            None => ParticipantState::default(),
        };
        let mut change = Self {
            participant,
            transaction,
            trigger,
            now_ms,
            key,
            row,
            state,
            outbox: vec![],
            notes: vec![],
            reason: None,
            happenings: vec![],
        };
        let before = change.state.clone();
        if let Trigger::Event { event, cx } = trigger {
            change.steps(event, cx).await?;
        }
        if participant.is_owner() {
            change.owner().await?;
        }
        change.store(&before).await?;
        Ok((change.key, change.happenings))
    }

    /// Performs and compensates the participant's own steps.
    async fn steps(&mut self, event: &SagaEvent, cx: &Cx) -> Result<(), ChangeError> {
        let participant = self.participant;
        let definition = participant.definition();
        let reactions = definition.reactions(&participant.name, &event.event_type, event.saga_step.as_deref());
        for reaction in reactions {
            let index = reaction.step();
            let Some(step) = definition.step(index) else { continue };
            let state = self.state.steps.get(&index).cloned().unwrap_or_default();
            match state.handle(definition, reaction, &event.event_type) {
                Decision::Perform => self.perform(index, step, cx).await?,
                Decision::Compensate => self.compensate(index, step, cx).await?,
                Decision::Store(state, emission) => {
                    if emission.is_none() {
                        self.notes.push(format!("{} waits for more events", step.name));
                    }
                    if let Some(emission) = emission {
                        self.notes
                            .push(format!("{} cancelled before it was performed", step.name));
                        self.happenings.push(Happening::Cancelled {
                            step: step.name.clone(),
                        });
                        self.emit_step(step, &emission, &Outcome::done())?;
                    }
                    self.state.steps.insert(index, state);
                }
                Decision::Ignore(reason) => self.log_ignored(&reason),
                Decision::Refuse(reason) => {
                    debug_assert!(matches!(reaction, Reaction::Trigger(_)), "only actions are refused");
                    self.notes.push(format!("{} refused: {reason}", step.name));
                    self.happenings.push(Happening::Refused {
                        step: step.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    async fn perform(&mut self, index: StepIndex, step: &Step, cx: &Cx) -> Result<(), ChangeError> {
        let Some(function) = self.participant.step_function(index) else {
            return Err(Fault::fatal(format!("step {} has no function", step.name)).into());
        };
        self.savepoint("SAVEPOINT milena_step").await?;
        let outcome = self.call(function, cx).await?;
        let Some((state, emission)) = StepState::performed(step, outcome.result) else {
            let reason = outcome.reason.as_deref().unwrap_or("no reason");
            let text = format!("step {} comes after the pivot, so it is retried: {reason}", step.name);
            return Err(Fault::retry(text).into());
        };
        match outcome.result {
            StepResult::Done => {
                self.notes.push(format!("{} done", step.name));
                self.happenings.push(Happening::Performed {
                    step: step.name.clone(),
                });
            }
            StepResult::Failed => {
                // A failed step has no effect, also if its function wrote something before it found out.
                self.savepoint("ROLLBACK TO SAVEPOINT milena_step").await?;
                self.notes.push(format!("{} failed", step.name));
                self.reason.clone_from(&outcome.reason);
                self.happenings.push(Happening::Failed {
                    step: step.name.clone(),
                });
            }
        }
        self.savepoint("RELEASE SAVEPOINT milena_step").await?;
        self.emit_step(step, &emission, &outcome)?;
        self.state.steps.insert(index, state);
        Ok(())
    }

    async fn compensate(&mut self, index: StepIndex, step: &Step, cx: &Cx) -> Result<(), ChangeError> {
        let Some(function) = self.participant.compensation_function(index) else {
            return Err(Fault::fatal(format!("step {} has no compensation", step.name)).into());
        };
        let outcome = must_be_done(
            self.call(function, cx).await?,
            &format!("the compensation of {}", step.name),
        )?;
        if let Some((state, emission)) = StepState::compensated(step) {
            self.notes.push(format!("{} compensated", step.name));
            self.happenings.push(Happening::Compensated {
                step: step.name.clone(),
            });
            self.emit_step(step, &emission, &outcome)?;
            self.state.steps.insert(index, state);
        }
        Ok(())
    }

    async fn call(&mut self, function: &StepFn, cx: &Cx) -> Result<Outcome, ChangeError> {
        let lent = self.transaction.lend()?;
        let future = function(&StepCall {
            cx,
            saga_id: &self.key.saga_id,
            transaction: &lent,
        });
        let outcome = future?.await?;
        self.transaction.take_back(&lent)?;
        Ok(outcome)
    }

    async fn savepoint(&mut self, statement: &'static str) -> Result<(), ChangeError> {
        let done = savepoint(self.transaction.connection()?, statement).await;
        Ok(done.map_err(fault)?)
    }

    fn emit_step(&mut self, step: &Step, emission: &Emission, outcome: &Outcome) -> Result<(), Fault> {
        let payload = outcome.event_payload();
        let mut event = self.event(&emission.event, payload)?.header(STEP_HEADER, &step.name);
        if let Some(reason) = &outcome.reason {
            event = event.header(SAGA_REASON, reason);
        }
        for (name, value) in &outcome.headers {
            event = event.header(name, value);
        }
        self.outbox.push(event);
        Ok(())
    }

    fn event(&self, event_type: &str, payload: Bytes) -> Result<OutboxEvent, Fault> {
        let cause = match self.trigger {
            Trigger::Event { cx, .. } => Some(cx),
            _ => None,
        };
        let event = NewEvent {
            participant: self.participant,
            saga_id: &self.key.saga_id,
            event_type,
            cause,
        };
        event.with_payload(payload)
    }

    fn log_ignored(&self, reason: &dyn std::fmt::Display) {
        tracing::debug!(
            event = "saga_event_ignored",
            saga_type = self.key.saga_type,
            saga_id = self.key.saga_id,
            participant = self.key.participant,
            %reason,
            "an event changes nothing"
        );
    }

    /// Follows the whole saga.
    async fn owner(&mut self) -> Result<(), ChangeError> {
        let definition = self.participant.definition();
        let input = match self.trigger {
            Trigger::Event { event, .. } if !definition.is_followed(&event.event_type) => return Ok(()),
            Trigger::Event { event, .. } => Input::Event(&event.event_type),
            Trigger::Timer => Input::Timer,
            Trigger::Command(pending) => Input::Command(pending.command.into()),
        };
        let state = match (self.state.owner.take(), self.trigger) {
            (Some(state), _) => state,
            (None, Trigger::Event { .. }) => SagaState::new(definition, self.now_ms),
            // Only events create sagas.
            (None, _) => return Ok(()),
        };
        let before = (state.cause, state.phase);
        let transition = state.handle(definition, input, self.now_ms);
        if let Trigger::Event { event, cx } = self.trigger {
            self.reason = self.reason.take().or_else(|| event.reason.clone());
            if definition
                .steps()
                .iter()
                .any(|step| step.on.contains(&event.event_type))
                && !transition.state.phase.is_ended()
            {
                let event = stored(event, cx);
                let kept = store::keep_event(self.transaction.connection()?, &self.key, &event);
                kept.await.map_err(fault)?;
            }
        }
        if before.0.is_none() && transition.state.cause.is_some() {
            self.happenings.push(Happening::Cancelling);
        }
        if let (Trigger::Timer, Some(_)) = (self.trigger, transition.actions.first()) {
            self.happenings.push(Happening::TimedOut);
        }
        let phase = transition.state.phase;
        self.state.owner = Some(transition.state);
        for action in transition.actions {
            self.act(action, phase).await?;
        }
        Ok(())
    }

    async fn act(&mut self, action: Action, phase: Phase) -> Result<(), ChangeError> {
        let definition = self.participant.definition();
        match action {
            Action::Emit(OwnerEvent::CompensationRequested(index)) => {
                let name = definition.step(index).map_or("", |step| step.name.as_str());
                self.notes.push(format!("asked for the compensation of {name}"));
                let event_type = definition.draft().compensation_requested.clone();
                let payload = serde_json::json!({ "step": name }).to_string().into();
                let event = self.event(&event_type, payload)?.header(STEP_HEADER, name);
                self.outbox.push(event);
            }
            // Written with the end, which has the payload.
            Action::Emit(OwnerEvent::Completed | OwnerEvent::Cancelled) => {}
            Action::Redeliver(index) => self.redeliver(index).await?,
            Action::End(_) => self.end(phase).await?,
            Action::MarkStuck(stuck) => {
                let reason = describe_stuck(definition, stuck);
                self.notes.push(format!("stuck: {reason}"));
                self.happenings.push(Happening::Stuck { reason });
            }
            Action::Refuse(reason) => self.notes.push(format!("refused: {reason}")),
            Action::Ignore(reason) => self.log_ignored(&reason),
        }
        Ok(())
    }

    /// Calls the function for the end, and writes its event.
    async fn end(&mut self, phase: Phase) -> Result<(), ChangeError> {
        self.notes.push(format!("saga {}", phase.name()));
        self.happenings.push(Happening::Ended(phase));
        let dropped = store::drop_events(self.transaction.connection()?, &self.key).await;
        dropped.map_err(fault)?;
        let event = match phase {
            Phase::Completed => OwnerEvent::Completed,
            Phase::Compensated => OwnerEvent::Cancelled,
            _ => return Ok(()),
        };
        let mut outcome = Outcome::done();
        if let Some(function) = self.participant.end_function(phase == Phase::Completed) {
            let reason = match phase {
                Phase::Compensated => self.state.reason(self.participant.definition()),
                _ => None,
            };
            let end = SagaEnd {
                saga_id: self.key.saga_id.clone(),
                reason,
            };
            let lent = self.transaction.lend()?;
            let future = function(&EndCall {
                end: &end,
                transaction: &lent,
            });
            outcome = must_be_done(future?.await?, "the function for the end of a saga")?;
            self.transaction.take_back(&lent)?;
        }
        if let Some(event_type) = event.event_type(self.participant.definition()) {
            let mut event = self.event(event_type, outcome.event_payload())?;
            for (name, value) in outcome.headers {
                event = event.header(name, value);
            }
            self.outbox.push(event);
        }
        Ok(())
    }

    async fn redeliver(&mut self, index: StepIndex) -> Result<(), ChangeError> {
        let definition = self.participant.definition();
        let Some(step) = definition.step(index) else {
            return Ok(());
        };
        let events = store::events(self.transaction.connection()?, &self.key).await;
        let events = events.map_err(fault)?;
        self.notes.push(format!("redelivered the trigger of {}", step.name));
        self.happenings.push(Happening::Redelivered {
            step: step.name.clone(),
        });
        for event in events.iter().filter(|event| step.on.contains(&event.event_type)) {
            self.outbox.extend(redelivery(definition, &self.key.saga_id, event));
        }
        Ok(())
    }

    /// Stores the state, the audit line and the events, unless nothing has changed.
    async fn store(&mut self, before: &ParticipantState) -> Result<(), ChangeError> {
        let is_changed = self.state != *before || !self.notes.is_empty() || !self.outbox.is_empty();
        let is_command = matches!(self.trigger, Trigger::Command(_));
        if !is_changed && !is_command {
            return Ok(());
        }
        let definition = self.participant.definition();
        let old = self.row.as_ref();
        let reason = self.state.reason(definition).map(|reason| match &self.reason {
            Some(detail) if self.state.status() != "stuck" => format!("{reason}: {detail}"),
            _ => reason,
        });
        // A later event has no reason of its own, and the first one counts.
        let kept = old
            .and_then(|row| row.reason.clone())
            .filter(|old| reason.as_ref().is_some_and(|reason| old.starts_with(reason.as_str())));
        let command = match self.trigger {
            Trigger::Command(_) => None,
            _ => old.and_then(|row| row.command.clone()),
        };
        let wake_ms = match &command {
            Some(_) => Some(self.now_ms),
            None => self.state.wake_ms(),
        };
        let row = SagaRow {
            key: self.key.clone(),
            status: self.state.status().to_owned(),
            version: old.map_or(0, |row| row.version).saturating_add(1),
            state: self.state.to_json(definition)?,
            wake_ms,
            command,
            reason: kept.or(reason).or_else(|| self.reason.clone()),
            started_ms: old.map_or(self.now_ms, |row| row.started_ms),
            changed_ms: self.now_ms,
        };
        let line = self.audit_line(row.version);
        let saved = store::save(self.transaction.connection()?, &row).await.map_err(fault)?;
        saved.map_err(ChangeError::Conflict)?;
        let audited = store::audit(self.transaction.connection()?, &self.key, &line).await;
        audited.map_err(fault)?;
        if !self.outbox.is_empty() {
            let written = outbox::write_all(self.transaction.connection()?, &self.outbox).await;
            written.map_err(outbox_fault)?;
        }
        Ok(())
    }

    fn audit_line(&self, version: i64) -> AuditLine {
        let (actor, reason) = match self.trigger {
            Trigger::Event { event, .. } => {
                let actor = format!("event {} {}", event.event_type, event.event_id);
                (actor, self.reason.clone())
            }
            Trigger::Timer => ("timer".to_owned(), None),
            Trigger::Command(pending) => (pending.actor.clone(), Some(pending.reason.clone())),
        };
        let done = match self.notes.is_empty() {
            true => "state changed".to_owned(),
            false => self.notes.join("; "),
        };
        let action = match self.trigger {
            Trigger::Command(pending) => format!("{}: {done}", pending.command.name()),
            _ => done,
        };
        AuditLine {
            version,
            at_ms: self.now_ms,
            actor,
            action,
            reason,
        }
    }
}

fn must_be_done(outcome: Outcome, what: &str) -> Result<Outcome, Fault> {
    match outcome.result {
        StepResult::Done => Ok(outcome),
        StepResult::Failed => {
            let reason = outcome.reason.unwrap_or_default();
            Err(Fault::retry(format!("{what} cannot fail, so it is retried: {reason}")))
        }
    }
}

impl From<super::command::CommandKind> for Command {
    fn from(kind: super::command::CommandKind) -> Self {
        use super::command::CommandKind;
        match kind {
            CommandKind::Retry => Self::Retry,
            CommandKind::Compensate => Self::Compensate,
            CommandKind::Close => Self::Close,
        }
    }
}
