//! Groups: the time until a new member reads, the cost of a commit, the cost of idle members.

use std::{
    sync::{Barrier, Mutex},
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
/// Default of Kafka's consumers.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
const IDLE_TIME: Duration = Duration::from_secs(9);

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    // The work is measured, not the wait for more members: 20 ms on ours by default, 3 s on Kafka.
    let broker = Running::start_with(peer, &["group.initial.rebalance.delay.ms=0"])?;
    Connection::open(&broker.address)?.create_topic("letters", PARTITIONS, &[])?;
    // The first group waits for the creation of the group topic, which is not to be measured.
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

/// Ten at once, until all are in one generation and each has read from the partition that it has to itself.
fn subscribe_together(address: &str) -> Result<f64> {
    let start = Barrier::new(MEMBERS);
    // Generation and number of partitions of each member.
    let shares = Mutex::new(vec![(-1, 0); MEMBERS]);
    let times: Result<Vec<f64>> = thread::scope(|scope| {
        let (start, shares) = (&start, &shares);
        let threads: Vec<_> = (0..MEMBERS)
            .map(|place| {
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    let mut member = Member::new(address, "ten", "letters", PARTITIONS)?;
                    member.find_coordinator()?;
                    loop {
                        let mine = member.join()?;
                        if let [partition] = mine[..] {
                            member.read_first(partition)?;
                        }
                        let time = began.elapsed().as_secs_f64() * 1e3;
                        shares.lock().expect("members do not panic")[place] = (member.generation, mine.len());
                        while !member.heartbeat()? {
                            let shares = shares.lock().expect("members do not panic");
                            if shares.iter().all(|share| *share == (member.generation, 1)) {
                                return Ok(time);
                            }
                        }
                    }
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

/// The cost for the broker of ten thousand members, each on its own connection, that send heartbeats.
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

/// Brings the members of one group into one generation.
fn join_all(members: &mut [Member]) -> Result<()> {
    let (first, others) = members.split_first_mut().context("no members")?;
    first.join()?;
    for member in others.iter_mut() {
        member.send_join()?;
        // The broker assigns an id; from then on it waits for this member too.
        ensure!(member.receive_join()?.is_none(), "a member got in without an id");
    }
    for member in others.iter_mut().chain([first]) {
        member.send_join()?;
    }
    for member in members.iter_mut() {
        let joined = member.receive_join()?.context("a member must join again")?;
        member.send_sync(&joined)?;
    }
    for member in members {
        ensure!(
            member.receive_sync()?.is_some_and(|mine| mine.len() == 1),
            "not one generation"
        );
    }
    Ok(())
}
