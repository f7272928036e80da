//! Time from the failure that opens a circuit breaker until all partitions are paused.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use milena_app::{prelude::*, status::PauseReason};

use super::PARTITIONS;
use crate::{
    Scale,
    apps::{self, Keys},
    figures::{Bar, Figure, figure},
    peers::{Peer, Running as Broker},
    scenarios::Scenario,
};

const PAUSED: &str = "breaker opens until paused, worst of 20, ms";

pub const SCENARIO: Scenario = Scenario {
    name: "app-breaker",
    with_kafka: true,
    run,
    bars: &[(PAUSED, Bar::AtMost(5.0))],
};

const TRIES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(60);

fn run(peer: Peer, _: &Scale) -> Result<Vec<Figure>> {
    let broker = Broker::start(peer)?;
    apps::put(&broker.address, "mails", PARTITIONS, 100_000, Keys::Even)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut worst: f64 = 0.0;
    for number in 0..TRIES {
        worst = worst.max(runtime.block_on(once(&broker.address, number))?);
    }
    Ok(vec![figure(PAUSED, worst)])
}

/// The service has failed from the beginning, so the last call is the one that opened the breaker.
async fn once(address: &str, number: usize) -> Result<f64> {
    let last = Arc::new(Mutex::new(None));
    let called = Arc::clone(&last);
    let handler = move || {
        let called = Arc::clone(&called);
        async move {
            // Long enough for all partitions to have records when the breaker opens.
            tokio::time::sleep(Duration::from_millis(200)).await;
            if let Ok(mut called) = called.lock() {
                *called = Some(Instant::now());
            }
            Err::<(), _>("no answer").map_err(Fault::dependency("smtp"))
        }
    };
    let app = App::new(address).group(format!("mails-{number}"));
    let app = app.on("mails", handler, |policy| policy.breaker("smtp").concurrency(10));
    let running = app.start().await?;
    let began = Instant::now();
    let paused = loop {
        let status = running.status();
        let is_paused = |reasons: &[(PauseReason, i64)]| reasons.iter().any(|(why, _)| *why == PauseReason::Breaker);
        let all = status.partitions.iter().all(|partition| is_paused(&partition.paused));
        if all && status.partitions.len() == PARTITIONS as usize {
            break Instant::now();
        }
        ensure!(began.elapsed() < PATIENCE, "the partitions do not pause: {status:?}");
        tokio::time::sleep(Duration::from_micros(100)).await;
    };
    running.kill();
    let last = last.lock().ok().and_then(|last| *last);
    Ok(last.map_or(f64::NAN, |last| paused.duration_since(last).as_secs_f64() * 1e3))
}
