//! Handlers that take no time, 1, 10 or 100 ms, by key. 1,000 keys come equally often, or in a Zipf distribution;
//! there, the first key alone limits the rate to 7,500 records/s at 1 ms, for any implementation, and to less where
//! a timer rounds up.

use anyhow::Result;

use super::{PARTITIONS, job, rate};
use crate::{
    Scale,
    apps::{self, Job, Keys, Runner, Task},
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    programs::Programs,
    scenarios::Scenario,
};

pub const SCENARIO: Scenario = Scenario {
    name: "app-work",
    with_kafka: true,
    run,
    bars: &[
        (NOTHING.plain, Bar::Shown),
        (NOTHING.batches, Bar::Shown),
        (BATCHES_OF_PLAIN, Bar::AtLeast(90.0)),
        (BATCHES_CPU, Bar::AtMost(200.0)),
        (NOTHING.ours, Bar::Shown),
        (EACH_CPU, Bar::AtMost(667.0)),
        (NOTHING.parallel, Bar::Shown),
        (NOTHING.ratio, Bar::AtLeast(10.0)),
        (ZIPF.ours, Bar::Shown),
        (ZIPF.parallel, Bar::Shown),
        (ZIPF.ratio, Bar::AtLeast(10.0)),
        (ZIPF_1.ours, Bar::Shown),
        (ZIPF_1.parallel, Bar::Shown),
        (ZIPF_1.ratio, Bar::AtLeast(1.0)),
        (MS_1.plain, Bar::Shown),
        (MS_1.ours, Bar::Shown),
        (MS_1.parallel, Bar::Shown),
        (MS_1.ratio, Bar::AtLeast(5.0)),
        (MS_10.plain, Bar::Shown),
        (MS_10.ours, Bar::AtLeast(95_000.0)),
        (MS_10.parallel, Bar::Shown),
        (MS_10.ratio, Bar::AtLeast(5.0)),
        (MS_100.plain, Bar::Shown),
        (MS_100.ours, Bar::AtLeast(9_500.0)),
        (MS_100.parallel, Bar::Shown),
        (MS_100.ratio, Bar::AtLeast(1.0)),
    ],
};

/// The names of the figures for one kind of work.
struct Names {
    plain: &'static str,
    batches: &'static str,
    ours: &'static str,
    parallel: &'static str,
    ratio: &'static str,
}

const BATCHES_OF_PLAIN: &str = "no work, batches, % of the plain loop";
const BATCHES_CPU: &str = "no work, batches, CPU ns/record";
const EACH_CPU: &str = "no work, one by one, CPU ns/record";

const NOTHING: Names = Names {
    plain: "no work, plain loop, records/s",
    batches: "no work, batches, records/s",
    ours: "no work, one by one, records/s",
    parallel: "no work, Parallel Consumer, records/s",
    ratio: "no work, one by one / Parallel Consumer",
};
const ZIPF: Names = Names {
    plain: "",
    batches: "",
    ours: "no work, Zipf, records/s",
    parallel: "no work, Zipf, Parallel Consumer",
    ratio: "no work, Zipf, ours / Parallel Consumer",
};
const ZIPF_1: Names = Names {
    plain: "",
    batches: "",
    ours: "1 ms, Zipf, records/s",
    parallel: "1 ms, Zipf, Parallel Consumer",
    ratio: "1 ms, Zipf, ours / Parallel Consumer",
};
const MS_1: Names = Names {
    plain: "1 ms, plain loop, records/s",
    batches: "",
    ours: "1 ms, records/s",
    parallel: "1 ms, Parallel Consumer, records/s",
    ratio: "1 ms, ours / Parallel Consumer",
};
const MS_10: Names = Names {
    plain: "10 ms, plain loop, records/s",
    batches: "",
    ours: "10 ms, records/s",
    parallel: "10 ms, Parallel Consumer, records/s",
    ratio: "10 ms, ours / Parallel Consumer",
};
const MS_100: Names = Names {
    plain: "100 ms, plain loop, records/s",
    batches: "",
    ours: "100 ms, records/s",
    parallel: "100 ms, Parallel Consumer, records/s",
    ratio: "100 ms, ours / Parallel Consumer",
};

const RECORDS: u64 = 2_000_000;
const PARALLEL_RECORDS: u64 = 100_000;
/// Duration of the run of the plain loop.
const PLAIN_MS: u64 = 2_000;

fn run(peer: Peer, _: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let programs = Programs::build_parallel()?;
    let mut figures = nothing(&broker, &programs)?;
    let loads = [
        (Keys::Zipf, 0, 1_000_000, ZIPF),
        (Keys::Zipf, 1, 30_000, ZIPF_1),
        (Keys::Even, 1, 300_000, MS_1),
        (Keys::Even, 10, 200_000, MS_10),
        (Keys::Even, 100, 30_000, MS_100),
    ];
    for (keys, work_ms, records, names) in loads {
        let load = Load { keys, work_ms, records };
        figures.extend(beside(&broker, &programs, &load, &names)?);
    }
    Ok(figures)
}

/// A topic has as many records as are handled and no more: else those of frequent keys would be left out.
struct Load {
    keys: Keys,
    work_ms: u64,
    records: u64,
}

impl Load {
    /// Fills a topic; its name includes the runner.
    fn put(&self, broker: &Running, whose: &str, records: u64) -> Result<Job> {
        let topic = format!("{whose}-{:?}-{}", self.keys, self.work_ms);
        apps::put(&broker.address, &topic, PARTITIONS, records, self.keys)?;
        let mut job = job(broker, &topic, records, Task::Work);
        job.work_ms = self.work_ms;
        Ok(job)
    }

    /// Parallel Consumer takes long for as many as we do; fewer show its rate.
    fn put_for_parallel(&self, broker: &Running) -> Result<Job> {
        self.put(broker, "parallel", self.records.min(PARALLEL_RECORDS))
    }
}

/// The overhead of the runtime itself.
fn nothing(broker: &Running, programs: &Programs) -> Result<Vec<Figure>> {
    let load = Load {
        keys: Keys::Even,
        work_ms: 0,
        records: RECORDS,
    };
    let job = load.put(broker, "ours", RECORDS)?;
    let (plain, _) = rate(Runner::Plain, &job, None)?;
    let (batches, batches_cost) = rate(Runner::Batches, &job, None)?;
    let (ours, ours_cost) = rate(Runner::Ours, &job, None)?;
    let (parallel, _) = rate(Runner::Parallel, &load.put_for_parallel(broker)?, Some(programs))?;
    let nanos = |seconds: f64| seconds / RECORDS as f64 * 1e9;
    Ok(vec![
        figure(NOTHING.plain, plain),
        figure(NOTHING.batches, batches),
        figure(BATCHES_OF_PLAIN, batches / plain * 100.0),
        figure(BATCHES_CPU, nanos(batches_cost.cpu_seconds)),
        figure(NOTHING.ours, ours),
        figure(EACH_CPU, nanos(ours_cost.cpu_seconds)),
        figure(NOTHING.parallel, parallel),
        figure(NOTHING.ratio, ours / parallel),
    ])
}

/// Ours and Parallel Consumer, and the plain loop where it has a name.
fn beside(broker: &Running, programs: &Programs, load: &Load, names: &Names) -> Result<Vec<Figure>> {
    let job = load.put(broker, "ours", load.records)?;
    let (ours, _) = rate(Runner::Ours, &job, None)?;
    let (parallel, _) = rate(Runner::Parallel, &load.put_for_parallel(broker)?, Some(programs))?;
    let mut figures = vec![
        figure(names.ours, ours),
        figure(names.parallel, parallel),
        figure(names.ratio, ours / parallel),
    ];
    if !names.plain.is_empty() {
        let few = Job {
            records: PLAIN_MS / load.work_ms,
            ..job
        };
        figures.push(figure(names.plain, rate(Runner::Plain, &few, None)?.0));
    }
    Ok(figures)
}
