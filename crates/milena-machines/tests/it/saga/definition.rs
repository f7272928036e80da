//! Definitions: errors, and what follows from them.

use milena_machines::saga::{Definition, DefinitionError, Draft, StepIndex, StepKind};

use super::{draft, order, order_draft, parallel, step};

#[track_caller]
fn errors(change: impl FnOnce(&mut Draft)) -> Vec<DefinitionError> {
    let mut draft = order_draft();
    change(&mut draft);
    Definition::new(draft).unwrap_err()
}

#[test]
fn the_graph_follows_from_the_events() {
    let order = order();
    assert_eq!(order.pivot(), Some(StepIndex(2)));
    assert_eq!(order.before(StepIndex(1)), [StepIndex(0)]);
    assert_eq!(order.after(StepIndex(1)), [StepIndex(2)]);
    assert_eq!(order.descendants(StepIndex(1)), [StepIndex(2), StepIndex(3)]);
    let parallel = parallel();
    assert_eq!(parallel.before(StepIndex(2)), [StepIndex(0), StepIndex(1)]);
    assert_eq!(parallel.after(StepIndex(1)), [StepIndex(2)]);
    assert_eq!(parallel.pivot(), None);
}

#[test]
fn participants_read_the_events_that_concern_them() {
    let order = order();
    assert_eq!(
        order.events_read_by("charge-service"),
        ["reserve-done", "ship-failed", "undo"]
    );
    assert_eq!(order.events_read_by("thank-service"), ["ship-done"]);
    assert_eq!(
        order.topics_read_by("charge-service"),
        ["orders.events", "reserve-service.events", "ship-service.events"]
    );
    let all = order.events_read_by("orders");
    assert!(all.contains(&"created") && all.contains(&"cancel") && all.contains(&"charge-undone"));
    assert!(!all.contains(&"completed") && !all.contains(&"undo"));
}

#[test]
fn unknown_names_are_errors() {
    let found = errors(|draft| draft.steps[1].on = vec!["reserved".to_owned()]);
    let unknown = |error: &DefinitionError| matches!(error, DefinitionError::UnknownTrigger { step, event, .. } if step == "charge" && event == "reserved");
    assert!(found.iter().any(unknown), "{found:?}");
    let found = errors(|draft| draft.steps[1].participant = "bank".to_owned());
    assert!(
        found[..].iter().any(
            |error| matches!(error, DefinitionError::UnknownParticipant { participant, .. } if participant == "bank")
        ),
        "{found:?}"
    );
    assert!(found.contains(&DefinitionError::IdleParticipant {
        name: "charge-service".to_owned()
    }));
    let owner = "absent".to_owned();
    assert!(errors(|draft| draft.owner.clone_from(&owner)).contains(&DefinitionError::UnknownOwner { owner }));
}

#[test]
fn a_failed_event_triggers_no_step() {
    let found = errors(|draft| draft.steps[1].on = vec!["reserve-failed".to_owned()]);
    assert!(matches!(&found[0], DefinitionError::UnknownTrigger { event, .. } if event == "reserve-failed"));
}

#[test]
fn steps_on_a_cycle_and_behind_it_are_unreachable() {
    let steps = vec![
        step("a", StepKind::Compensatable, &["b-done", "created"]),
        step("b", StepKind::Compensatable, &["a-done"]),
        step("c", StepKind::Compensatable, &["b-done"]),
        step("d", StepKind::Compensatable, &["created"]),
    ];
    let found = Definition::new(draft(steps)).unwrap_err();
    let unreachable = ["a", "b", "c"].map(|step| DefinitionError::Unreachable {
        step: step.to_owned(),
        through: vec!["a".to_owned(), "b".to_owned()],
    });
    assert_eq!(found, unreachable);
}

#[test]
fn an_event_has_one_meaning() {
    for change in [
        |draft: &mut Draft| draft.steps[1].done = "reserve-done".to_owned(),
        |draft: &mut Draft| draft.steps[1].failed = Some("reserve-undone".to_owned()),
        |draft: &mut Draft| draft.completed = Some("created".to_owned()),
        |draft: &mut Draft| draft.cancel_on = vec!["ship-failed".to_owned()],
        |draft: &mut Draft| draft.compensation_requested = "cancel".to_owned(),
    ] {
        let found = errors(change);
        let is_it = |error: &DefinitionError| matches!(error, DefinitionError::TwoMeanings { .. });
        assert!(found.iter().any(is_it), "{found:?}");
    }
}

#[test]
fn each_side_of_the_pivot_has_its_rules() {
    let name = |step: &str| step.to_owned();
    let found = errors(|draft| draft.steps[0].compensated = None);
    assert_eq!(found, [DefinitionError::NoCompensation { step: name("reserve") }]);
    let found = errors(|draft| draft.steps[2].failed = None);
    assert_eq!(found, [DefinitionError::PivotCannotFail { step: name("ship") }]);
    let found = errors(|draft| draft.steps[3].failed = Some(name("thank-failed")));
    assert_eq!(found, [DefinitionError::RetriableFails { step: name("thank") }]);
    let found = errors(|draft| draft.steps[3].on = vec![name("created")]);
    let (step, pivot) = (name("thank"), name("ship"));
    assert_eq!(found, [DefinitionError::NotAfterPivot { step, pivot }]);
    let found = errors(|draft| draft.steps[2].on = vec![name("reserve-done")]);
    let (step, pivot) = (name("charge"), name("ship"));
    assert_eq!(found, [DefinitionError::NotBeforePivot { step, pivot }]);
    let found = errors(|draft| drop(draft.steps.remove(2)));
    assert!(
        found.contains(&DefinitionError::NoPivot { step: name("thank") }),
        "{found:?}"
    );
}

#[test]
fn a_saga_cannot_wait_for_ever() {
    let found = errors(|draft| draft.steps[1].timeout_ms = None);
    assert_eq!(
        found,
        [DefinitionError::NoTimeLimit {
            step: "charge".to_owned()
        }]
    );
    let found = errors(|draft| draft.steps[1].timeout_ms = Some(0));
    assert_eq!(
        found,
        [DefinitionError::ZeroTimeout {
            step: "charge".to_owned()
        }]
    );
    assert_eq!(
        errors(|draft| draft.deadline_ms = Some(0)),
        [DefinitionError::ZeroDeadline]
    );
    let mut draft = order_draft();
    draft.steps[1].timeout_ms = None;
    draft.deadline_ms = Some(60_000);
    assert!(Definition::new(draft).is_ok());
}

#[test]
fn nothing_is_unnamed_or_named_twice() {
    assert!(errors(|draft| draft.steps.clear()).contains(&DefinitionError::NoSteps));
    assert!(
        errors(|draft| draft.starts.clear())
            .iter()
            .any(|error| matches!(error, DefinitionError::Unnamed { .. }))
    );
    let found = errors(|draft| draft.steps[1].name = "reserve".to_owned());
    assert_eq!(
        found,
        [DefinitionError::StepTwice {
            step: "reserve".to_owned()
        }]
    );
}
