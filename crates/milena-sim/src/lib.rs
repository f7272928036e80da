//! A simulator of Kafka's coordinators. It is not shipped.
//!
//! It runs the machines of `milena-machines`, a broker around them that crashes and loses power, a network that loses,
//! duplicates, delays and reorders, clocks that jump, and clients that crash, pause and come back. Checkers verify
//! invariants of the whole.
//!
//! One seed is one run: everything random follows from it, so that a failure can be repeated. Start with [`run`];
//! `scenario` defines the participants, `simulation` the events, `checks` the conditions, and `mutation` the bugs that
//! the simulation is known to find.
//!
//! No clock, no thread, no file and no other randomness may be named here.

#![forbid(unsafe_code)]

mod app;
mod broker;
mod checks;
mod clients;
mod history;
mod invariants;
mod journal;
mod logins;
mod mutation;
mod network;
mod outbox;
mod play;
mod queue;
mod requests;
mod saga;
mod scenario;
mod simulation;

pub use history::History;
pub use mutation::Mutation;
pub use scenario::Scenario;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The violated condition, and when.
    pub failure: Option<Failure>,
    /// The number of events.
    pub events: u64,
    pub history: History,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub at_ms: i64,
    pub what: String,
}

/// Plays one run.
pub fn run(scenario: Scenario, seed: u64, mutation: Option<Mutation>, with_history: bool) -> Outcome {
    match scenario {
        Scenario::App => return app::run(seed, mutation, with_history),
        Scenario::Logins => return logins::run(seed, mutation, with_history),
        Scenario::Requests => return requests::run(seed, mutation, with_history),
        Scenario::Outbox => return outbox::run(seed, mutation, with_history),
        Scenario::Saga => return saga::run(seed, mutation, with_history),
        _ => {}
    }
    let scenario::Plan { mut simulation, end } = scenario::plan(scenario, seed, mutation, with_history);
    let mut events = 0;
    let result = invariants::until_violated(|| {
        simulation.play(end, &mut events);
        if simulation.world.checks.failure().is_none() {
            simulation.check_settled();
        }
    });
    simulation.world.checks.demand(result);
    let at_ms = simulation.world.queue.now() - simulation::START_MS;
    let what = simulation.world.checks.failure().map(ToOwned::to_owned);
    Outcome {
        failure: what.map(|what| Failure { at_ms, what }),
        events,
        history: simulation.world.history,
    }
}

/// Plays `count` runs from seed `start` on. Returns a report of the first that fails, with the command that repeats it.
pub fn run_many(scenario: Scenario, start: u64, count: u64, mutation: Option<Mutation>) -> Result<u64, String> {
    let mut events = 0;
    for seed in start..start.saturating_add(count) {
        let outcome = run(scenario, seed, mutation, false);
        events += outcome.events;
        if outcome.failure.is_some() {
            return Err(report(scenario, seed, mutation, 60));
        }
    }
    Ok(events)
}

/// Plays a run again, with its history.
pub fn report(scenario: Scenario, seed: u64, mutation: Option<Mutation>, lines: usize) -> String {
    let outcome = run(scenario, seed, mutation, true);
    let mut text = outcome.history.tail(lines).join("\n");
    let scenario = scenario.name();
    let mutation = mutation.map_or_else(String::new, |mutation| format!(" --mutation {}", mutation.name()));
    match outcome.failure {
        Some(Failure { at_ms, what }) => {
            text += &format!("\n\nscenario {scenario}, seed {seed}, after {at_ms} ms: {what}\n");
        }
        None => text += &format!("\n\nscenario {scenario}, seed {seed}: no violation\n"),
    }
    text + &format!("repeat: cargo xtask simulate --scenario {scenario} --start {seed} --seeds 1{mutation}\n")
}
