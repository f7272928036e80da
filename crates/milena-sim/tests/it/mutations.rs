//! Bugs that are put back in are found: otherwise that nothing is found would mean nothing.

use milena_sim::{Mutation, Scenario, run_many};

/// Plays until the bug shows. It must do so within `seeds` runs, and as what it is.
#[track_caller]
fn finds(mutation: Mutation, scenario: Scenario, seeds: u64, sign: &str) {
    match run_many(scenario, 0, seeds, Some(mutation)) {
        Ok(_) => panic!("{} is not found in {seeds} runs", mutation.name()),
        Err(report) => assert!(report.contains(sign), "{report}"),
    }
}

#[test]
fn answers_that_leave_before_their_records_are_durable() {
    finds(Mutation::ReplyBeforeDurable, Scenario::Transactions, 500, "transaction");
}

#[test]
fn commits_of_members_that_are_gone() {
    finds(Mutation::AcceptStaleCommits, Scenario::Classic, 300, "succe");
    finds(Mutation::AcceptStaleCommits, Scenario::Consumer, 300, "succe");
}

#[test]
fn static_members_that_are_not_fenced() {
    finds(Mutation::OldStaticMembersSucceed, Scenario::Classic, 300, "had success");
}

#[test]
fn members_that_expire_although_they_are_heard_of() {
    finds(Mutation::ForgetHeartbeats, Scenario::Classic, 300, "belongs to client");
}

#[test]
fn partitions_that_are_given_away_before_they_are_released() {
    finds(
        Mutation::ReleaseBeforeRevoked,
        Scenario::Consumer,
        300,
        "belongs to client",
    );
}

#[test]
fn batches_that_are_not_appended_whole() {
    finds(Mutation::LoseLastRecord, Scenario::Consumer, 300, "group");
}

#[test]
fn offsets_of_open_transactions_that_a_start_forgets() {
    finds(
        Mutation::LosePendingOffsets,
        Scenario::Transactions,
        300,
        "its log says",
    );
}

#[test]
fn markers_that_nobody_writes_after_a_start() {
    finds(Mutation::ForgetMarkers, Scenario::Transactions, 300, "never ended");
}

#[test]
fn applications_that_are_not_told_what_they_lose() {
    finds(Mutation::ForgetRevoked, Scenario::Classic, 300, "was told");
    finds(Mutation::ForgetRevoked, Scenario::Consumer, 300, "was told");
}

#[test]
fn producers_that_are_not_fenced() {
    finds(
        Mutation::OldProducersSucceed,
        Scenario::Transactions,
        300,
        "had success",
    );
}
