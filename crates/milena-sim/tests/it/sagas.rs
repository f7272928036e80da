//! Sagas: thousands of runs, what they meet, and the known bugs.

use milena_sim::{Mutation, Scenario, run, run_many};

use crate::mutations::finds;

#[test]
fn no_run_violates_a_check() {
    if let Err(report) = run_many(Scenario::Saga, 0, 5_000, None) {
        panic!("{report}");
    }
}

/// Otherwise the runs of sagas would prove little.
#[test]
fn runs_meet_all_that_can_happen() {
    let mut missing = vec![
        "Refuse(Cancelled)",
        "Refuse(PivotDone)",
        "Ignore(PivotPerformed)",
        "Ignore(Stale)",
        "NothingToUndo",
        "Redeliver",
        "MarkStuck(TimedOut",
        "MarkStuck(CompensationTimedOut",
        "MarkStuck(Deadline",
        "End(Completed)",
        "End(Compensated)",
        "End(Closed)",
        "Ignore(NotDue)",
        "dead letter",
    ];
    for seed in 0..2_000 {
        let outcome = run(Scenario::Saga, seed, None, true);
        let lines = outcome.history.tail(usize::MAX);
        missing.retain(|text| !lines.iter().any(|line| line.contains(text)));
        if missing.is_empty() {
            return;
        }
    }
    panic!("never seen: {missing:?}");
}

#[test]
fn effects_of_a_saga_that_come_before_their_dedup_row() {
    finds(Mutation::SagaDedupAfterEffect, Scenario::Saga, 300, "performed twice");
}

#[test]
fn compensations_that_are_not_remembered_before_their_action() {
    finds(
        Mutation::SagaForgetsTombstone,
        Scenario::Saga,
        300,
        "performed after its compensation",
    );
}

#[test]
fn states_of_sagas_that_overwrite_each_other() {
    finds(
        Mutation::SagaStateUnguarded,
        Scenario::Saga,
        300,
        "performed after its compensation",
    );
}

#[test]
fn events_of_sagas_outside_of_their_transaction() {
    finds(Mutation::SagaOutboxOutside, Scenario::Saga, 300, "has not ended");
}

#[test]
fn timers_of_sagas_that_a_crash_forgets() {
    finds(Mutation::SagaTimersInMemory, Scenario::Saga, 600, "has not ended");
}

#[test]
fn compensations_that_are_carried_out_again() {
    finds(
        Mutation::SagaCompensationRepeats,
        Scenario::Saga,
        300,
        "compensated twice",
    );
}
