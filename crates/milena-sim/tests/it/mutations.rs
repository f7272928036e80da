//! Each bug that is put back in is found: otherwise finding nothing would prove nothing.

use milena_sim::{Mutation, Scenario, run_many};

/// Plays until the bug shows with its own sign. That must happen within `seeds` runs; other signs do not count.
#[track_caller]
pub(crate) fn finds(mutation: Mutation, scenario: Scenario, seeds: u64, sign: &str) {
    let mut other = String::new();
    for seed in 0..seeds {
        match run_many(scenario, seed, 1, Some(mutation)) {
            Ok(_) => {}
            Err(report) if report.contains(sign) => return,
            Err(report) => other = report,
        }
    }
    panic!("{} does not show as {sign:?} in {seeds} runs\n{other}", mutation.name());
}

#[test]
fn keys_that_are_free_before_what_is_held_of_them_is_done() {
    finds(Mutation::FreeKeysEarly, Scenario::App, 300, "overtakes");
}

#[test]
fn owners_that_do_not_look_what_is_held() {
    finds(Mutation::ForgetHeld, Scenario::App, 600, "overtakes");
}

#[test]
fn responses_that_are_sent_before_their_records_are_durable() {
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
fn markers_that_are_not_written_after_a_start() {
    finds(Mutation::ForgetMarkers, Scenario::Transactions, 300, "never ended");
}

#[test]
fn applications_that_do_not_see_revocations() {
    finds(Mutation::ForgetRevoked, Scenario::Classic, 300, "was assigned");
    finds(Mutation::ForgetRevoked, Scenario::Consumer, 300, "was assigned");
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

#[test]
fn batches_that_get_other_numbers_when_they_are_repeated() {
    finds(Mutation::NumberRetriesAnew, Scenario::Producers, 100, "is twice in");
}

#[test]
fn newer_batches_that_overtake_repeated_ones() {
    finds(
        Mutation::NewerOvertakesRepeated,
        Scenario::Producers,
        100,
        "is out of order",
    );
}

#[test]
fn transactions_that_end_before_all_is_written() {
    finds(Mutation::EndBeforeWritten, Scenario::Producers, 100, "are copied");
}

#[test]
fn commits_without_a_response_that_count_as_done() {
    finds(Mutation::LostEndIsCommit, Scenario::Producers, 300, "are copied");
}

#[test]
fn commits_without_a_response_that_count_as_aborted() {
    finds(Mutation::LostEndIsAbort, Scenario::Producers, 100, "is twice in");
}

#[test]
fn fenced_producers_that_go_on_in_the_epoch_of_another() {
    finds(
        Mutation::ReuseEpochAfterFencing,
        Scenario::Producers,
        100,
        "is twice in",
    );
}

#[test]
fn batches_in_flight_that_are_said_not_to_be_written() {
    finds(
        Mutation::DenyWhatIsInFlight,
        Scenario::Producers,
        100,
        "reported as not written",
    );
}

#[test]
fn commits_of_what_was_read_and_not_done() {
    finds(Mutation::CommitHighestSeen, Scenario::App, 100, "is not done");
}

#[test]
fn maps_that_are_written_for_another_offset() {
    finds(Mutation::MapOfOtherBase, Scenario::App, 100, "says that");
}

#[test]
fn records_that_are_taken_for_those_of_an_earlier_assignment() {
    finds(Mutation::StaleResident, Scenario::App, 100, "is not done");
}

#[test]
fn counters_that_remember_what_was_cancelled() {
    finds(Mutation::LeakInFlight, Scenario::App, 500, "still");
}

#[test]
fn runs_that_go_on_while_a_record_waits() {
    finds(Mutation::RunGoesOn, Scenario::App, 100, "before");
}

#[test]
fn commits_of_the_latest_that_is_done() {
    finds(Mutation::CommitLatest, Scenario::App, 100, "is not done");
}

#[test]
fn dead_letters_that_are_not_awaited() {
    finds(Mutation::DeadLettersUnawaited, Scenario::App, 100, "is not done");
}

#[test]
fn output_that_counts_as_taken_before_its_place_is_certain() {
    finds(Mutation::TakenUnordered, Scenario::App, 300, "which has its key");
}

#[test]
fn failures_that_hide_an_earlier_one() {
    finds(Mutation::FirstFailureLost, Scenario::App, 100, "done");
}

#[test]
fn records_that_are_tried_again_early() {
    finds(Mutation::WakeEarly, Scenario::App, 100, "early");
}

#[test]
fn commits_that_were_never_sent() {
    finds(Mutation::CommitUnsent, Scenario::App, 100, "without a word");
}

#[test]
fn maps_that_are_not_looked_at() {
    finds(Mutation::ForgetMap, Scenario::App, 100, "is repeated");
}

#[test]
fn partitions_that_are_never_resumed() {
    finds(Mutation::ForgetResume, Scenario::App, 100, "was never resumed");
}

#[test]
fn transactions_with_records_of_partitions_that_are_gone() {
    finds(Mutation::CommitSpoiled, Scenario::App, 500, "exactly once");
}

#[test]
fn records_that_are_handed_out_before_the_commit_announces_it() {
    finds(Mutation::StartsUnawaited, Scenario::App, 100, "before the group knows");
}

#[test]
fn owners_that_count_as_dead_though_they_moved_on() {
    finds(Mutation::KeepStarts, Scenario::App, 200, "counts as a death");
}

#[test]
fn requests_that_are_served_after_the_session() {
    finds(
        Mutation::ForgetSessionEnd,
        Scenario::Logins,
        100,
        "after its session ended",
    );
}

#[test]
fn renewals_that_overtake_responses() {
    finds(Mutation::RenewBeforeResponses, Scenario::Logins, 100, "is not that of");
}

#[test]
fn renewals_that_forget_the_principal() {
    finds(Mutation::ForgetPrincipal, Scenario::Logins, 300, "became");
}

#[test]
fn requests_that_are_served_before_the_login() {
    finds(Mutation::ServeBeforeLogin, Scenario::Logins, 100, "without a log-in");
}

#[test]
fn clients_that_send_during_a_renewal() {
    finds(
        Mutation::SendDuringRenewal,
        Scenario::Logins,
        100,
        "was sent during a renewal",
    );
}

#[test]
fn relays_that_read_by_a_watermark() {
    finds(Mutation::ReadByWatermark, Scenario::Outbox, 100, "was never published");
}

#[test]
fn relays_that_read_by_the_time_of_creation() {
    finds(Mutation::ReadByCreation, Scenario::Outbox, 300, "overtakes");
}

#[test]
fn relays_that_take_leases_of_others() {
    finds(Mutation::IgnoreLeases, Scenario::Outbox, 100, "without a lease");
}

#[test]
fn relays_that_mark_before_the_acknowledgement() {
    finds(
        Mutation::MarkBeforeAck,
        Scenario::Outbox,
        100,
        "is marked and was not published",
    );
}

#[test]
fn relays_that_continue_behind_a_refused_event() {
    finds(Mutation::IgnoreRefusals, Scenario::Outbox, 100, "overtakes");
}

#[test]
fn relays_that_send_after_a_pause() {
    finds(Mutation::SendAfterDeadline, Scenario::Outbox, 300, "without a lease");
}

#[test]
fn offsets_that_are_stored_before_their_effects() {
    finds(Mutation::OffsetBeforeEffect, Scenario::App, 100, "is not done");
}

#[test]
fn previous_owners_whose_commits_succeed() {
    finds(Mutation::ZombiesCommit, Scenario::App, 100, "follows the claim");
}

#[test]
fn requesters_that_learn_their_position_too_late() {
    finds(Mutation::PositionAfterSend, Scenario::Requests, 300, "was lost");
}

#[test]
fn replies_that_complete_another_request() {
    finds(Mutation::MatchRepliesInOrder, Scenario::Requests, 300, "of another");
}

#[test]
fn requesters_that_take_replies_to_their_predecessor() {
    finds(Mutation::KeepRequestEpoch, Scenario::Requests, 300, "of another");
}

#[test]
fn requests_that_never_time_out() {
    finds(
        Mutation::ForgetRequestDeadlines,
        Scenario::Requests,
        300,
        "not ended at its deadline",
    );
}

#[test]
fn requests_that_are_kept_although_nothing_waits_for_them() {
    finds(Mutation::ForgetCancelled, Scenario::Requests, 300, "keeps");
}

#[test]
fn replies_to_dead_requesters_that_are_tried_for_ever() {
    finds(Mutation::ReplyForEver, Scenario::Requests, 600, "still busy");
}
