//! Groups: how soon a new member reads, what a commit costs, what members cost that only say that they live.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;

use super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    member::Member,
    peers::{Peer, Running},
    raw::{Connection, encode},
};

const ONE: &str = "one member, subscribe to record, ms";
const TEN: &str = "ten members, subscribe to record, ms";
const COMMITS: &str = "offset commits, one in flight, per s";
const IDLE: &str = "1000 groups of 10 idle members, % core";

pub const SCENARIO: Scenario = Scenario {
    name: "groups",
    with_kafka: true,
    run,
    bars: &[
        (ONE, Bar::AtMost(20.0)),
        (TEN, Bar::AtMost(100.0)),
        (COMMITS, Bar::TimesKafkaAtLeast(2.0)),
        (IDLE, Bar::AtMost(3.0)),
    ],
};

const PARTITIONS: i32 = 10;
const COMMIT_COUNT: usize = 10_000;
const GROUPS: usize = 1_000;
const MEMBERS: usize = 10;
/// What Kafka's consumers do by default.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
const IDLE_TIME: Duration = Duration::from_secs(9);

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    // Ours is 0 without being told.
    let broker = Running::start_with(peer, &["group.initial.rebalance.delay.ms=0"])?;
    Connection::open(&broker.address)?.create_topic("letters", PARTITIONS, &[])?;
    // The first group of all waits for the topic of groups, which is not what is measured.
    subscribe(&broker.address, "warm up")?;
    let one = (0..5)
        .map(|i| subscribe(&broker.address, &format!("one {i}")))
        .collect::<Result<Vec<_>>>()?;
    let ten = subscribe_together(&broker.address)?;
    let commits = commit(&broker.address)?;
    let mut figures = vec![
        figure(ONE, one.into_iter().fold(f64::MAX, f64::min)),
        figure(TEN, ten),
        figure(COMMITS, commits),
    ];
    if peer == Peer::Milena {
        figures.push(figure(IDLE, idle(&broker)?));
    }
    Ok(figures)
}

/// From nothing to the first record, in milliseconds.
fn subscribe(address: &str, group: &str) -> Result<f64> {
    let began = Instant::now();
    let mut member = Member::new(address, group, "letters", PARTITIONS)?;
    member.find_coordinator()?;
    let partition = *member.join()?.first().context("no partition")?;
    member.read_first(partition)?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// Ten at once, until each has read from a partition that it has to itself.
fn subscribe_together(address: &str) -> Result<f64> {
    let start = Barrier::new(MEMBERS);
    let times: Result<Vec<f64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..MEMBERS)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let began = Instant::now();
                    let mut member = Member::new(address, "ten", "letters", PARTITIONS)?;
                    member.find_coordinator()?;
                    let mut mine = member.join()?;
                    while mine.len() != 1 {
                        if member.heartbeat()? {
                            mine = member.join()?;
                        }
                    }
                    member.read_first(mine[0])?;
                    let time = began.elapsed().as_secs_f64() * 1e3;
                    // The others may still need this one to join again.
                    let end = Instant::now() + Duration::from_secs(1);
                    while Instant::now() < end {
                        if member.heartbeat()? {
                            member.join()?;
                        }
                        thread::sleep(Duration::from_millis(1));
                    }
                    Ok(time)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("members do not panic"))
            .collect()
    });
    Ok(times?.into_iter().fold(0.0, f64::max))
}

fn commit(address: &str) -> Result<f64> {
    let mut member = Member::new(address, "committing", "letters", PARTITIONS)?;
    member.find_coordinator()?;
    member.join()?;
    let frames: Result<Vec<Bytes>> = (0..100)
        .map(|offset| encode(&member.commit_request(offset), 9))
        .collect();
    let frames = frames?;
    let mut began = Instant::now();
    for i in 0..2_000 + COMMIT_COUNT {
        if i == 2_000 {
            began = Instant::now();
        }
        member.connection.send(&frames[i % frames.len()])?;
        let length = member.connection.receive()?;
        // The error is the last number of the only partition, before two empty lists of tags.
        ensure!(
            member.connection.buffer[length - 5..length - 3] == [0, 0],
            "a commit was refused"
        );
    }
    Ok(COMMIT_COUNT as f64 / began.elapsed().as_secs_f64())
}

/// What it costs the broker that ten thousand members, each on its own connection, send heartbeats.
fn idle(broker: &Running) -> Result<f64> {
    let mut members = vec![];
    for group in 0..GROUPS {
        let mut group_members = vec![];
        for _ in 0..MEMBERS {
            group_members.push(Member::new(
                &broker.address,
                &format!("idle {group}"),
                "letters",
                PARTITIONS,
            )?);
        }
        join_all(group_members.as_mut_slice())?;
        members.append(&mut group_members);
    }
    let frames: Result<Vec<Bytes>> = members
        .iter()
        .map(|member| encode(&member.heartbeat_request(), 4))
        .collect();
    let frames = frames?;
    let (cpu, began) = (broker.cpu_seconds()?, Instant::now());
    while began.elapsed() < IDLE_TIME {
        let round = Instant::now();
        for (place, (member, frame)) in members.iter_mut().zip(&frames).enumerate() {
            // Spread over the interval, as they would be.
            let due = HEARTBEAT_INTERVAL.mul_f64(place as f64 / (GROUPS * MEMBERS) as f64);
            thread::sleep(due.saturating_sub(round.elapsed()));
            member.connection.send(frame)?;
            member.connection.receive()?;
        }
        thread::sleep(HEARTBEAT_INTERVAL.saturating_sub(round.elapsed()));
    }
    Ok((broker.cpu_seconds()? - cpu) / began.elapsed().as_secs_f64() * 100.0)
}

/// Lets the members of one group join, each on a thread, until all are in one generation.
fn join_all(members: &mut [Member]) -> Result<()> {
    let together = Barrier::new(members.len());
    thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter_mut()
            .map(|member| {
                let together = &together;
                scope.spawn(move || {
                    let mut mine = member.join()?;
                    while mine.len() != 1 {
                        if member.heartbeat()? {
                            mine = member.join()?;
                        }
                    }
                    together.wait();
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("members do not panic"))
    })
}
