//! Effect of joining and leaving instances on partitions that are not moved.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use milena_app::prelude::*;

use super::PARTITIONS;
use crate::{
    Scale,
    apps::{self, Keys},
    figures::{Bar, Figure, figure},
    peers::{Peer, Running as Broker},
    scenarios::Scenario,
};

const CLASSIC: &str = "join and leave, classic, dip of others, %";
const CONSUMER: &str = "join and leave, consumer, dip of others, %";

pub const SCENARIO: Scenario = Scenario {
    name: "app-join",
    with_kafka: true,
    run,
    bars: &[(CLASSIC, Bar::AtMost(5.0)), (CONSUMER, Bar::AtMost(5.0))],
};

const RECORDS: u64 = 1_000_000;
/// Each record; a partition has 125 keys, so 2,500 records/s.
const WORK: Duration = Duration::from_millis(50);
const TICK: Duration = Duration::from_millis(50);
/// A dip that is shorter is none.
const WINDOW: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);

type Counts = Arc<[AtomicU64; PARTITIONS as usize]>;

fn run(peer: Peer, _: &Scale) -> Result<Vec<Figure>> {
    // Members of the broker's protocol hear of changes as soon as those of the classic one.
    let heartbeat = [
        "group.consumer.min.heartbeat.interval.ms=300",
        "group.consumer.heartbeat.interval.ms=300",
    ];
    let broker = Broker::start_with(peer, &heartbeat)?;
    apps::put(&broker.address, "steps", PARTITIONS, RECORDS, Keys::Even)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(vec![
        figure(CLASSIC, runtime.block_on(dip(&broker.address, "classic"))?),
        figure(CONSUMER, runtime.block_on(dip(&broker.address, "consumer"))?),
    ])
}

/// By how much the slowest half second of a partition that stayed was below its rate before.
async fn dip(address: &str, protocol: &str) -> Result<f64> {
    let (stays, comes) = (Counts::default(), Counts::default());
    let first = start(address, protocol, &stays).await?;
    until(|| stays.iter().all(|count| count.load(Relaxed) > 0)).await?;
    let mut samples = vec![];
    for _ in 0..60 {
        sample(&stays, &mut samples).await;
    }
    let calm = samples.len();
    let second = start(address, protocol, &comes).await?;
    let began = Instant::now();
    while comes.iter().all(|count| count.load(Relaxed) == 0) {
        ensure!(began.elapsed() < PATIENCE, "the second instance gets no partition");
        sample(&stays, &mut samples).await;
    }
    for _ in 0..20 {
        sample(&stays, &mut samples).await;
    }
    let mut leaving = tokio::spawn(second.stop());
    while !leaving.is_finished() {
        sample(&stays, &mut samples).await;
    }
    (&mut leaving).await??;
    for _ in 0..20 {
        sample(&stays, &mut samples).await;
    }
    first.stop().await?;
    let stayed = (0..PARTITIONS as usize).filter(|partition| comes[*partition].load(Relaxed) == 0);
    let dips = stayed.map(|partition| {
        let counts: Vec<u64> = samples.iter().map(|sample| sample[partition]).collect();
        let rates: Vec<f64> = counts
            .windows(WINDOW + 1)
            .map(|window| (window[WINDOW] - window[0]) as f64)
            .collect();
        let (before, after) = rates.split_at(calm - WINDOW - 1);
        // It takes a moment until it runs at its rate.
        let before = &before[before.len() / 2..];
        let usual = before.iter().sum::<f64>() / before.len() as f64;
        let lowest = after.iter().copied().fold(usual, f64::min);
        (usual - lowest) / usual * 100.0
    });
    Ok(dips.fold(0.0, f64::max))
}

async fn sample(counts: &Counts, samples: &mut Vec<Vec<u64>>) {
    tokio::time::sleep(TICK).await;
    samples.push(counts.iter().map(|count| count.load(Relaxed)).collect());
}

async fn start(address: &str, protocol: &str, counts: &Counts) -> Result<Running> {
    let counts = Arc::clone(counts);
    let handler = move |cx: Cx| {
        let counts = Arc::clone(&counts);
        async move {
            tokio::time::sleep(WORK).await;
            counts[cx.record().partition() as usize].fetch_add(1, Relaxed);
        }
    };
    let app = App::new(address)
        .group(format!("steps-{protocol}"))
        .consumer("group.protocol", protocol);
    let app = match protocol {
        "classic" => app.consumer("heartbeat.interval.ms", 300),
        _ => app,
    };
    Ok(app.on("steps", handler, |policy| policy).start().await?)
}

async fn until(is_so: impl Fn() -> bool) -> Result<()> {
    let began = Instant::now();
    while !is_so() {
        ensure!(began.elapsed() < PATIENCE, "nothing is handled");
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}
