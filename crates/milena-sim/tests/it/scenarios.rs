//! Everything holds, whatever goes wrong.

use milena_sim::{Scenario, run_many};

fn play(scenario: Scenario, seeds: u64) {
    if let Err(report) = run_many(scenario, 0, seeds, None) {
        panic!("{report}");
    }
}

#[test]
fn classic_groups() {
    play(Scenario::Classic, 1_000);
}

#[test]
fn consumer_groups() {
    play(Scenario::Consumer, 1_000);
}

#[test]
fn groups_that_migrate() {
    play(Scenario::Migration, 1_000);
}
