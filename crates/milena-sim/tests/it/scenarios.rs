//! No scenario violates a check, whatever goes wrong.

use milena_sim::{Scenario, run, run_many};

fn play(scenario: Scenario, seeds: u64) {
    if let Err(report) = run_many(scenario, 0, seeds, None) {
        panic!("{report}");
    }
}

#[test]
fn classic_groups() {
    play(Scenario::Classic, 900);
}

#[test]
fn consumer_groups() {
    play(Scenario::Consumer, 700);
}

#[test]
fn groups_that_migrate() {
    play(Scenario::Migration, 700);
}

#[test]
fn transactions() {
    play(Scenario::Transactions, 1_000);
}

#[test]
fn producers() {
    play(Scenario::Producers, 400);
}

#[test]
fn applications() {
    play(Scenario::App, 1_500);
}

#[test]
fn logins() {
    play(Scenario::Logins, 1_500);
}

#[test]
fn outbox_relays() {
    play(Scenario::Outbox, 1_500);
}

#[test]
fn requests() {
    play(Scenario::Requests, 2_000);
}

/// Otherwise a seed could not repeat a failure.
#[test]
fn a_seed_decides_everything() {
    for scenario in Scenario::ALL {
        let [first, second] = [(), ()].map(|()| run(scenario, 7, None, true));
        assert_eq!(first.events, second.events);
        assert_eq!(first.history.tail(usize::MAX), second.history.tail(usize::MAX));
    }
}
