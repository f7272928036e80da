//! The conditions of a run.

use std::collections::BTreeMap;

use milena_machines::saga::{Definition, Phase, SagaState, StepIndex, StepKind, StepStatus};

use super::{SagaNo, Sagas, store::Effect};

/// The first condition that did not hold, and the effects so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) failure: Option<String>,
    effects: BTreeMap<(SagaNo, StepIndex), Effects>,
}

/// Effects of a step of one saga.
#[derive(Debug, Default, Clone, Copy)]
struct Effects {
    performed: u32,
    failed: u32,
    undone: u32,
    cancelled: u32,
}

impl Effects {
    /// Goods that are reserved, money that is charged.
    fn is_live(self) -> bool {
        self.performed > self.undone
    }
}

impl Checks {
    pub(super) fn demand(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(problem());
        }
    }

    fn of(&self, saga: SagaNo, step: StepIndex) -> Effects {
        self.effects.get(&(saga, step)).copied().unwrap_or_default()
    }

    /// A step is performed once, undone once, and never performed after that; those behind it are undone first.
    pub(super) fn effect(&mut self, saga: SagaNo, step: StepIndex, effect: Effect, definition: &Definition) {
        let before = self.of(saga, step);
        let name = definition.step(step).map_or("", |step| step.name.as_str());
        let is_pivot = definition
            .step(step)
            .is_some_and(|step| step.kind != StepKind::Compensatable);
        match effect {
            Effect::Performed | Effect::Failed => {
                let is_settled = before.undone + before.cancelled > 0;
                self.demand(!is_settled, || {
                    format!("saga {saga}: {name} is performed after its compensation")
                });
                let is_first = before.performed + before.failed == 0;
                self.demand(is_first, || format!("saga {saga}: {name} is performed twice"));
                let early = definition
                    .before(step)
                    .iter()
                    .find(|other| !self.of(saga, **other).is_live());
                self.demand(early.is_none(), || {
                    format!("saga {saga}: {name} is performed without the step before it, {early:?}")
                });
            }
            Effect::Undone | Effect::Cancelled => {
                let is_first = before.undone + before.cancelled == 0;
                self.demand(is_first, || format!("saga {saga}: {name} is compensated twice"));
                let is_possible = effect == Effect::Cancelled || before.performed == 1 && !is_pivot;
                self.demand(is_possible, || format!("saga {saga}: {name} cannot be undone"));
                let mut behind = definition.descendants(step).iter();
                let live = behind.find(|other| self.of(saga, **other).is_live());
                self.demand(live.is_none(), || {
                    format!("saga {saga}: {name} is compensated before the step behind it, {live:?}")
                });
            }
        }
        let effects = self.effects.entry((saga, step)).or_default();
        match effect {
            Effect::Performed => effects.performed += 1,
            Effect::Failed => effects.failed += 1,
            Effect::Undone => effects.undone += 1,
            Effect::Cancelled => effects.cancelled += 1,
        }
    }

    /// The status of a saga never goes back, and a pivot that is done is never left.
    pub(super) fn moved(&mut self, saga: SagaNo, before: Phase, after: &SagaState, pivot: Option<StepIndex>) {
        let phase = after.phase;
        let is_forward = match before {
            Phase::Running => true,
            Phase::Compensating => phase != Phase::Running && phase != Phase::Completed,
            Phase::Completed | Phase::Compensated | Phase::Closed => phase == before,
        };
        self.demand(is_forward, || {
            format!("saga {saga} goes back from {before:?} to {phase:?}")
        });
        let pivot = pivot.and_then(|pivot| after.status(pivot));
        let is_left = pivot == Some(StepStatus::Done) && matches!(phase, Phase::Compensating | Phase::Compensated);
        self.demand(!is_left, || format!("saga {saga} is compensated behind its pivot"));
        let has_ended = phase.is_ended() && after.next_due_ms().is_some();
        self.demand(!has_ended, || format!("saga {saga} has ended and has a timer"));
    }
}

impl Sagas {
    /// All sagas are complete or compensated, and effects agree with that.
    pub(super) fn check_settled(&mut self) {
        let owner = self.owner();
        let Self { world, nodes } = self;
        let definition = &world.definition;
        let Some(owner) = nodes.get(owner) else { return };
        for (saga, state) in &owner.store.sagas {
            let live = |step: &StepIndex| world.checks.of(*saga, *step).is_live();
            let (all, any) = (
                definition.indices().all(|step| live(&step)),
                definition.indices().any(|step| live(&step)),
            );
            let problem = match state.phase {
                Phase::Running | Phase::Compensating => Some("has not ended"),
                Phase::Completed if !all => Some("is completed and has steps without effect"),
                Phase::Compensated if any => Some("is compensated and has steps with an effect"),
                Phase::Completed | Phase::Compensated | Phase::Closed => None,
            };
            if let Some(problem) = problem {
                world
                    .checks
                    .demand(false, || format!("saga {saga} {problem}: {state:?}"));
                return;
            }
        }
        // A start that was a dead letter of its owner has come back, so every saga that has effects is known.
        let mut effects = world.checks.effects.keys();
        let unknown = effects.find(|(saga, _)| !owner.store.sagas.contains_key(saga)).copied();
        world
            .checks
            .demand(unknown.is_none(), || format!("{unknown:?} has effects and no owner"));
    }
}
