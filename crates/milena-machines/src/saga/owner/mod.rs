//! The owner of a saga: follows all steps, has the timers, and ends the saga.

mod run;

use super::{Definition, StepIndex};

pub(super) use run::Run;

/// Progress of the whole saga. It never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Running,
    Compensating,
    /// All steps are done.
    Completed,
    /// No step has an effect any more.
    Compensated,
    /// Ended by an operator.
    Closed,
}

impl Phase {
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Compensating,
        Self::Completed,
        Self::Compensated,
        Self::Closed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::Closed => "closed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Compensated | Self::Closed)
    }
}

/// Knowledge of the owner about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepStatus {
    /// The owner has not heard all events of `on`.
    Pending,
    /// Triggered; its `done` or `failed` event has not arrived.
    Awaited,
    Done,
    Failed,
    /// Cannot begin any more, because a step before it has failed.
    Skipped,
    /// To be compensated; its `compensated` event, or `failed` of a pivot, has not arrived.
    Compensating,
    Compensated,
}

impl StepStatus {
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Awaited,
        Self::Done,
        Self::Failed,
        Self::Skipped,
        Self::Compensating,
        Self::Compensated,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Awaited => "awaited",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Compensating => "compensating",
            Self::Compensated => "compensated",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether the step has no effect, and never will.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Failed | Self::Skipped | Self::Compensated)
    }
}

/// A step in the state of a saga.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepProgress {
    pub status: StepStatus,
    /// Redeliveries of the trigger, or requests for the compensation.
    pub attempts: u32,
    /// When the owner does something about the step.
    pub due_ms: Option<i64>,
}

/// Reason for which a saga is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A step failed.
    Failed(StepIndex),
    /// A step did not report in time.
    TimedOut(StepIndex),
    /// The deadline of the saga has passed.
    Deadline,
    /// An event of `cancel_on` arrived.
    Requested,
    /// An operator asked for it.
    Operator,
    /// A step was compensated without a known reason.
    Compensated(StepIndex),
}

/// Reason for which a saga needs an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    /// A retriable step has not reported, in spite of redeliveries.
    TimedOut(StepIndex),
    /// A compensation was not reported, in spite of requests.
    CompensationTimedOut(StepIndex),
    /// The deadline passed after the pivot.
    Deadline,
    /// An event of a step contradicts an earlier one, so that its effect is unknown.
    Conflict(StepIndex),
}

/// State of one saga, in the database of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaState {
    pub phase: Phase,
    /// Whether the event that starts the saga has arrived. Others may come before it.
    pub is_started: bool,
    /// Set as soon as the saga is to be cancelled, also while a pivot in doubt is asked.
    pub cause: Option<Cause>,
    pub stuck: Option<Stuck>,
    pub deadline_ms: Option<i64>,
    /// In the order of [`Definition::steps`].
    pub steps: Vec<StepProgress>,
}

/// Input of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// The type of an event of this saga.
    Event(&'a str),
    /// A time at or after [`SagaState::next_due_ms`].
    Timer,
    Command(Command),
}

/// A command of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Redelivers triggers and requests compensations of all awaited steps again, with new timeouts.
    Retry,
    /// Cancels the saga, unless its pivot is done.
    Compensate,
    /// Ends the saga as it is. Nothing is emitted.
    Close,
}

/// Output of the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Write an event into the outbox.
    Emit(OwnerEvent),
    /// Write the events of `on` of a step into the outbox again, with the event ids that they had.
    Redeliver(StepIndex),
    /// The saga has ended.
    End(Phase),
    /// The saga needs an operator.
    MarkStuck(Stuck),
    /// A command or a cancellation has no effect.
    Refuse(Refused),
    /// The input has no effect.
    Ignore(Ignored),
}

/// An event that the owner writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerEvent {
    Completed,
    Cancelled,
    /// Addressed to a step, with the header `saga_step`.
    CompensationRequested(StepIndex),
}

impl OwnerEvent {
    /// The type of the event, if the definition has it.
    pub fn event_type(self, definition: &Definition) -> Option<&str> {
        match self {
            Self::Completed => definition.draft().completed.as_deref(),
            Self::Cancelled => definition.draft().cancelled.as_deref(),
            Self::CompensationRequested(_) => Some(&definition.draft().compensation_requested),
        }
    }
}

/// Reason for which a command or a cancellation is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refused {
    #[error("the pivot is done, so the saga can only go forward")]
    PivotDone,
    #[error("the saga is being compensated already")]
    AlreadyCompensating,
    #[error("the saga has ended")]
    Ended,
}

/// Reason for which an input is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Ignored {
    #[error("the event is a duplicate")]
    Duplicate,
    #[error("the step is being compensated, or was")]
    Stale,
    #[error("the saga has ended")]
    Ended,
    #[error("the event is not part of the saga")]
    NotConcerned,
    #[error("no timer is due")]
    NotDue,
}

/// The state after an input, and what the driver does in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    pub state: SagaState,
    pub actions: Vec<Action>,
}

impl SagaState {
    /// A saga whose first event, whichever it is, has arrived. Feed that event with [`Self::handle`].
    pub fn new(definition: &Definition, now_ms: i64) -> Self {
        let step = StepProgress {
            status: StepStatus::Pending,
            attempts: 0,
            due_ms: None,
        };
        let mut state = Self {
            phase: Phase::Running,
            is_started: false,
            cause: None,
            stuck: None,
            deadline_ms: definition
                .draft()
                .deadline_ms
                .map(|deadline| now_ms.saturating_add(deadline)),
            steps: vec![step; definition.steps().len()],
        };
        Run::new(definition, &mut state, now_ms).advance();
        state
    }

    /// Decides about an input.
    pub fn handle(mut self, definition: &Definition, input: Input<'_>, now_ms: i64) -> Transition {
        let actions = {
            let mut run = Run::new(definition, &mut self, now_ms);
            run.handle(input);
            run.into_actions()
        };
        Transition { state: self, actions }
    }

    /// When [`Input::Timer`] is due. It belongs into the same row as the state.
    pub fn next_due_ms(&self) -> Option<i64> {
        let steps = self.steps.iter().filter_map(|step| step.due_ms);
        steps.chain(self.deadline_ms).min()
    }

    pub fn status(&self, step: StepIndex) -> Option<StepStatus> {
        self.steps.get(step.0).map(|step| step.status)
    }
}

impl Definition {
    /// Whether the owner follows an event. Others must not create a saga.
    pub fn is_followed(&self, event: &str) -> bool {
        use super::definition::Meaning;
        self.meaning(event).is_some_and(|meaning| meaning != Meaning::Own)
    }
}
