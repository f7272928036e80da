//! The application runtime: beside a plain loop of our own consumer, and beside Confluent's Parallel Consumer.

pub mod breaker;
pub mod copy;
pub mod failures;
pub mod join;
pub mod requests;
pub mod work;

use anyhow::Result;

use crate::{
    apps::{self, Job, Runner, Task},
    child::Measured,
    peers::Running,
    programs::Programs,
};

const PARTITIONS: i32 = 8;

fn job(broker: &Running, topic: &str, records: u64, task: Task) -> Job {
    Job {
        address: broker.address.clone(),
        topic: topic.to_owned(),
        records,
        task,
        work_ms: 0,
    }
}

/// Records per second, the better of two runs: the first one meets a cold broker.
fn rate(runner: Runner, job: &Job, programs: Option<&Programs>) -> Result<(f64, Measured)> {
    let mut best = apps::run(runner, job, programs)?;
    let again = apps::run(runner, job, programs)?;
    if again.seconds < best.seconds {
        best = again;
    }
    Ok((best.records / best.seconds, best))
}
