//! A hundred partitions on three brokers, one of which stops responding: records of the others must not wait for
//! it.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use milena_wire::messages::MetadataRequest;

use super::{Plan, Race, consumers::LARGE_BATCHES};
use crate::{
    cluster::Cluster,
    figures::{median, number},
    raw::Connection,
};

pub const RACE: Race = Race { name: "stalled", run };

const TOPIC: &str = "stalled";
const PARTITIONS: i32 = 100;
/// The broker that is stopped.
const STALLED: usize = 3;
/// Duration of each phase, in half seconds. Kafka declares a silent broker dead after nine seconds, and the phases
/// before and after should both be visible.
const WATCHED: usize = 30;
const LEAST: f64 = 0.95;

fn run(plan: &Plan) -> Result<String> {
    let cluster = Cluster::start(3)?;
    let records = (plan.scale.bytes() / LARGE_BATCHES.value_size) as u64;
    LARGE_BATCHES.put(cluster.address(1), TOPIC, PARTITIONS, records)?;
    let stalled = led_by(cluster.address(1), STALLED as i32)?;
    let (mut all, mut without, mut during) = (vec![], vec![], vec![]);
    for round in 0..plan.rounds {
        let mut watched = Watched::start(&cluster.addresses(), &stalled)?;
        all.push(watched.rate()?);
        watched.tell("pause")?;
        without.push(watched.rate()?);
        watched.tell("resume")?;
        let stopped = cluster.stop_answering(STALLED)?;
        during.push(watched.rate()?);
        drop(stopped);
        eprintln!("  round {round}: {all:?} {without:?} {during:?}");
    }
    let (all, without, during) = (middle(&mut all), middle(&mut without), middle(&mut during));
    let ratio = during / without;
    let verdict = if ratio >= LEAST { "met" } else { "MISSED" };
    Ok(format!(
        "\n100 partitions on 3 brokers: M records/s from two of them\n\
         while the third is read too    {:>10}\n\
         while the third is paused      {:>10}\n\
         while the third is stalled     {:>10}  ratio {}  ≥ {LEAST}× paused  {verdict}\n",
        number(all),
        number(without),
        number(during),
        number(ratio),
    ))
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    median(values)
}

/// The partitions that a broker leads.
fn led_by(address: &str, broker: i32) -> Result<Vec<i32>> {
    let topic = milena_wire::messages::metadata_request::MetadataRequestTopic {
        name: Some(TOPIC.into()),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let answer = Connection::open(address)?.call(&request, 9)?;
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let led = partitions.filter(|partition| partition.leader_id == broker);
    let led: Vec<i32> = led.map(|partition| partition.partition_index).collect();
    ensure!(!led.is_empty(), "broker {broker} leads nothing");
    Ok(led)
}

/// Our consumer in a process that prints its rate from the other brokers each half second.
struct Watched {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watched {
    fn start(addresses: &str, stalled: &[i32]) -> Result<Self> {
        let stalled: Vec<String> = stalled.iter().map(ToString::to_string).collect();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["watch", addresses, TOPIC, &PARTITIONS.to_string(), &stalled.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("no output")?;
        let lines = BufReader::new(output).lines();
        Ok(Self { child, lines })
    }

    fn tell(&mut self, word: &str) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no input")?;
        Ok(writeln!(input, "{word}")?)
    }

    /// Million records per second from the other brokers, from now on. Records buffered before do not count.
    fn rate(&mut self) -> Result<f64> {
        let mut rates = vec![];
        for _ in 0..WATCHED {
            let line = self.lines.next().context("the consumer has ended")??;
            rates.push(line.parse::<f64>()?);
        }
        let settled = &rates[WATCHED / 10..];
        Ok(settled.iter().sum::<f64>() / settled.len() as f64 / 1e6)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
