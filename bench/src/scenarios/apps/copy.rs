//! Handlers that copy: at least once, and exactly once with a window of 100 ms.

use anyhow::Result;

use super::{PARTITIONS, job, rate};
use crate::{
    Scale,
    apps::{self, Keys, Runner, Task},
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    programs::Programs,
    raw::Connection,
    scenarios::Scenario,
};

const AT_LEAST_ONCE: &str = "app copies, at least once, records/s";
const EXACTLY_ONCE: &str = "app copies, exactly once, records/s";
const SHARE: &str = "app, exactly once, % of at least once";
const PARALLEL_AT_LEAST: &str = "Parallel Consumer, at least once";
const PARALLEL_EXACTLY: &str = "Parallel Consumer, exactly once";
const AT_LEAST_RATIO: &str = "at least once, ours / Parallel Consumer";
const EXACTLY_RATIO: &str = "exactly once, ours / Parallel Consumer";

pub const SCENARIO: Scenario = Scenario {
    name: "app-copy",
    with_kafka: true,
    run,
    bars: &[
        (AT_LEAST_ONCE, Bar::Shown),
        (EXACTLY_ONCE, Bar::Shown),
        (SHARE, Bar::AtLeast(85.0)),
        (PARALLEL_AT_LEAST, Bar::Shown),
        (AT_LEAST_RATIO, Bar::AtLeast(1.0)),
        (PARALLEL_EXACTLY, Bar::Shown),
        (EXACTLY_RATIO, Bar::AtLeast(1.0)),
    ],
};

/// Three seconds of work, so that the last transaction, whose window may be cut anywhere, does not decide.
const RECORDS: u64 = 2_000_000;
/// Parallel Consumer waits for each copy in a thread, so that fewer show its rate.
const PARALLEL_RECORDS: u64 = 20_000;

fn run(peer: Peer, _: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let programs = Programs::build_parallel()?;
    apps::put(&broker.address, "letters", PARTITIONS, RECORDS, Keys::Even)?;
    let at_least = job(&broker, "letters", RECORDS, Task::Copy);
    let exactly = job(&broker, "letters", RECORDS, Task::CopyOnce);
    Connection::open(&broker.address)?.create_topics(&[at_least.output()], PARTITIONS, &[])?;
    let (ours_at_least, _) = rate(Runner::Ours, &at_least, None)?;
    let (ours_exactly, _) = rate(Runner::Ours, &exactly, None)?;
    let few = |task| job(&broker, "letters", PARALLEL_RECORDS, task);
    let (parallel_at_least, _) = rate(Runner::Parallel, &few(Task::Copy), Some(&programs))?;
    let (parallel_exactly, _) = rate(Runner::Parallel, &few(Task::CopyOnce), Some(&programs))?;
    Ok(vec![
        figure(AT_LEAST_ONCE, ours_at_least),
        figure(EXACTLY_ONCE, ours_exactly),
        figure(SHARE, ours_exactly / ours_at_least * 100.0),
        figure(PARALLEL_AT_LEAST, parallel_at_least),
        figure(AT_LEAST_RATIO, ours_at_least / parallel_at_least),
        figure(PARALLEL_EXACTLY, parallel_exactly),
        figure(EXACTLY_RATIO, ours_exactly / parallel_exactly),
    ])
}
