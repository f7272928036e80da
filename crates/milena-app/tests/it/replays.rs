//! Replays whose partitions end separately.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::{
    App, Clock, Replay, ReplayFrom, ReplayReport, RunError, UnfinishedReason, prelude::*, status::StopReason,
};
use milena_client::consumer::TopicPartition;
use milena_test::{TestBroker, TestRecord};
use milena_wire::messages::FetchRequest;

use crate::rig::{app, committed, until, within};

const RECORDS: i64 = 10;

/// Values that handlers have seen, and those that they fail for.
#[derive(Default)]
struct Fixture {
    seen: Mutex<Vec<String>>,
    fatal: Mutex<BTreeSet<String>>,
    hanging: Mutex<BTreeSet<String>>,
}

impl Fixture {
    fn take(&self) -> Vec<String> {
        let mut seen = std::mem::take(&mut *self.seen.lock().unwrap());
        seen.sort();
        seen
    }

    fn has_seen(&self, value: &str) -> bool {
        self.seen.lock().unwrap().iter().any(|seen| seen == value)
    }
}

async fn handle(Value(value): Value<String>, State(fixture): State<Arc<Fixture>>) -> Result<(), Fault> {
    if fixture.fatal.lock().unwrap().contains(&value) {
        return Err(Fault::fatal("the books are closed"));
    }
    let hangs = fixture.hanging.lock().unwrap().contains(&value);
    if hangs {
        fixture.seen.lock().unwrap().push(format!("{value} hangs"));
        std::future::pending::<()>().await;
    }
    fixture.seen.lock().unwrap().push(value);
    Ok(())
}

fn fixture_app(broker: &TestBroker, fixture: &Arc<Fixture>) -> App {
    let in_order = |policy: Policy| policy.order(Order::Partition).timeout(None);
    app(broker).state(fixture.clone()).on("orders", handle, in_order)
}

/// Records `p-n` in three partitions, with timestamps a second apart.
fn filled() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("orders", 3);
    append(&broker, 0..RECORDS);
    broker
}

fn append(broker: &TestBroker, numbers: std::ops::Range<i64>) {
    for partition in 0..3 {
        let records = numbers
            .clone()
            .map(|number| TestRecord::new(format!("{partition}-{number}")).timestamp(time(number)));
        broker.produce("orders", partition, records);
    }
}

fn time(number: i64) -> i64 {
    1_700_000_000_000 + number * 1000
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("orders", number)
}

async fn unfinished(replaying: impl Future<Output = Result<ReplayReport, RunError>>) -> ReplayReport {
    match within("the replay", replaying).await {
        Err(RunError::Unfinished(unfinished)) => unfinished.report,
        other => panic!("all partitions should not have come to their end: {other:?}"),
    }
}

#[tokio::test]
async fn a_partition_that_cannot_go_on_ends_for_itself_and_goes_on_in_the_next_run() {
    let broker = filled();
    let fixture = Arc::new(Fixture::default());
    fixture.fatal.lock().unwrap().insert("1-4".to_owned());
    let load = Replay::new("load");
    let report = unfinished(fixture_app(&broker, &fixture).replay(load.clone())).await;
    assert_eq!(report.partitions.len(), 3);
    let left: Vec<_> = report.unfinished.iter().collect();
    let (stopped, why) = left[0];
    assert_eq!(
        (left.len(), stopped, why.reached, why.end),
        (1, &partition(1), 4, RECORDS)
    );
    assert!(
        matches!(&why.why, UnfinishedReason::Stopped { offset: 4, why: StopReason::Fatal, reason } if reason.contains("closed")),
        "{why:?}"
    );
    assert_eq!(fixture.take().len(), 24);
    // Newer records belong to the running group, also in partitions that had nothing left.
    append(&broker, RECORDS..RECORDS + 5);
    fixture.fatal.lock().unwrap().clear();
    let report = within("the replay", fixture_app(&broker, &fixture).replay(load.clone())).await;
    let report = report.unwrap();
    assert_eq!(
        report.partitions.into_iter().collect::<Vec<_>>(),
        [(partition(1), (4, RECORDS))]
    );
    assert_eq!(fixture.take(), ["1-4", "1-5", "1-6", "1-7", "1-8", "1-9"]);
    let report = within("the replay", fixture_app(&broker, &fixture).replay(load))
        .await
        .unwrap();
    assert_eq!((report.partitions.len(), fixture.take().len()), (0, 0));
}

#[tokio::test]
async fn a_replay_that_was_killed_goes_on_with_what_is_left_up_to_the_same_ends() {
    let broker = filled();
    let fixture = Arc::new(Fixture::default());
    fixture.hanging.lock().unwrap().insert("0-5".to_owned());
    let load = Replay::new("load");
    let running = tokio::spawn(fixture_app(&broker, &fixture).replay(load.clone()));
    for (partition, offset) in [(0, 5), (1, RECORDS), (2, RECORDS)] {
        committed(&broker, "billing.load", "orders", partition, offset).await;
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_eq!(fixture.take().len(), 26, "25 that are done, and one that hangs");
    append(&broker, RECORDS..RECORDS + 5);
    fixture.hanging.lock().unwrap().clear();
    let report = within("the replay", fixture_app(&broker, &fixture).replay(load))
        .await
        .unwrap();
    assert_eq!(
        report.partitions.into_iter().collect::<Vec<_>>(),
        [(partition(0), (5, RECORDS))]
    );
    assert_eq!(fixture.take(), ["0-5", "0-6", "0-7", "0-8", "0-9"]);
}

#[tokio::test]
async fn what_was_empty_when_a_replay_began_stays_so() {
    let broker = filled();
    broker.produce("orders", 1, [TestRecord::new("1-20").timestamp(time(20))]);
    let fixture = Arc::new(Fixture::default());
    fixture.fatal.lock().unwrap().insert("1-20".to_owned());
    let late = Replay::new("late").from(ReplayFrom::Time(time(20)));
    let report = unfinished(fixture_app(&broker, &fixture).replay(late.clone())).await;
    assert_eq!(report.partitions.keys().collect::<Vec<_>>(), [&partition(1)]);
    fixture.fatal.lock().unwrap().clear();
    // Within the range of timestamps, but written after the start.
    append(&broker, 30..32);
    within("the replay", fixture_app(&broker, &fixture).replay(late))
        .await
        .unwrap();
    assert_eq!(fixture.take(), ["1-20"]);
}

#[tokio::test]
async fn a_handler_that_does_not_return_holds_up_its_partition_only() {
    for when_stalled in [WhenStalled::Stop, WhenStalled::End] {
        let broker = filled();
        let fixture = Arc::new(Fixture::default());
        fixture.hanging.lock().unwrap().insert("2-3".to_owned());
        let clock = Clock::manual();
        let app = fixture_app(&broker, &fixture)
            .clock(clock.clone())
            .drain(Duration::ZERO);
        let running = tokio::spawn(app.when_stalled(when_stalled).replay(Replay::new("load")));
        until("the call that hangs", || fixture.has_seen("2-3 hangs")).await;
        for others in 0..2 {
            committed(&broker, "billing.load", "orders", others, RECORDS).await;
        }
        clock.advance(Duration::from_secs(60));
        let report = unfinished(async { running.await.unwrap() }).await;
        let left: Vec<_> = report.unfinished.iter().collect();
        assert_eq!((left.len(), left[0].0, left[0].1.reached), (1, &partition(2), 3));
        let is_stall = |why: &UnfinishedReason| {
            matches!(
                why,
                UnfinishedReason::Stopped {
                    offset: 3,
                    why: StopReason::Stalled,
                    ..
                }
            )
        };
        assert!(is_stall(&left[0].1.why), "{report:?}");
    }
}

#[tokio::test]
async fn a_partition_whose_records_are_damaged_ends_for_itself() {
    let broker = filled();
    let fixture = Arc::new(Fixture::default());
    let damage = broker.faults().on::<FetchRequest>().change_response(|_, response| {
        let partitions = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        for partition in partitions.filter(|partition| partition.partition_index == 1) {
            let mut records = partition.records.take().unwrap_or_default().to_vec();
            if let Some(last) = records.last_mut() {
                *last ^= 1;
            }
            partition.records = Some(records.into());
        }
    });
    let load = Replay::new("load");
    let report = unfinished(fixture_app(&broker, &fixture).replay(load.clone())).await;
    let left: Vec<_> = report.unfinished.iter().collect();
    assert_eq!((left.len(), left[0].0, left[0].1.reached), (1, &partition(1), 0));
    assert!(matches!(left[0].1.why, UnfinishedReason::Unreadable(_)), "{report:?}");
    assert_eq!(fixture.take().len(), 20);
    damage.remove();
    within("the replay", fixture_app(&broker, &fixture).replay(load))
        .await
        .unwrap();
    assert_eq!(fixture.take().len(), 10);
}

#[tokio::test]
async fn a_group_with_members_is_not_used_for_a_replay() {
    let broker = filled();
    let fixture = Arc::new(Fixture::default());
    // The application that has the name of the replay's group.
    let running = fixture_app(&broker, &fixture)
        .group("billing.load")
        .start()
        .await
        .unwrap();
    until("its records", || fixture.has_seen("2-9")).await;
    let refused = within("the replay", fixture_app(&broker, &fixture).replay(Replay::new("load"))).await;
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("billing.load, which must have no members"), "{error}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_periodic_load_goes_on_where_the_last_one_ended() {
    let (broker, fixture) = (filled(), Arc::new(Fixture::default()));
    let load = || fixture_app(&broker, &fixture).replay(Replay::new("load").periodic());
    let values = |numbers: std::ops::Range<i64>| {
        let all = (0..3).flat_map(move |partition| numbers.clone().map(move |number| format!("{partition}-{number}")));
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    };
    within("the first load", load()).await.unwrap();
    assert_eq!(fixture.take(), values(0..10));
    let idle = within("a load of nothing", load()).await.unwrap();
    assert!(idle.partitions.is_empty(), "{idle:?}");

    append(&broker, 10..15);
    fixture.fatal.lock().unwrap().insert("1-12".to_owned());
    let stopped = unfinished(load()).await;
    assert_eq!(stopped.partitions[&partition(0)], (10, 15));
    assert_eq!(stopped.unfinished[&partition(1)].reached, 12);
    let mut expected = values(10..15);
    expected.retain(|value| !["1-12", "1-13", "1-14"].contains(&value.as_str()));
    assert_eq!(fixture.take(), expected);

    // Unfinished records come with new ones.
    fixture.fatal.lock().unwrap().clear();
    append(&broker, 15..20);
    let rest = within("the last load", load()).await.unwrap();
    assert_eq!(
        (rest.partitions[&partition(0)], rest.partitions[&partition(1)]),
        ((15, 20), (12, 20))
    );
    let mut expected = values(15..20);
    expected.extend(["1-12", "1-13", "1-14"].map(str::to_owned));
    expected.sort();
    assert_eq!(fixture.take(), expected);
    committed(&broker, "billing.load", "orders", 1, 20).await;
}
