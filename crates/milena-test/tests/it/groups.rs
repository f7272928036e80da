//! A member stays in its group, or returns to it, through all errors and moves of the coordinator.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use milena_client::consumer::{CloseOptions, Consumer, TopicPartition};
use milena_test::{
    ErrorCode, Fault, Request, TestBroker,
    messages::{
        ConsumerGroupHeartbeatRequest, FindCoordinatorRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest,
        OffsetFetchRequest, SyncGroupRequest,
    },
};

use crate::consumers::{Heard, PROTOCOLS, SHORT, member, member_config, poll_until_struck, read, texts};

const MOVED: [ErrorCode; 2] = [ErrorCode::NotCoordinator, ErrorCode::CoordinatorNotAvailable];

/// A broker with one topic of one partition.
fn broker() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker
}

/// Joins while requests of a kind get errors, one error code after the other.
async fn joins_all_the_same<R>(broker: &TestBroker, protocol: &str, codes: &[ErrorCode])
where
    R: Request + 'static,
{
    for code in codes {
        let case = format!("{protocol} {} {code}", R::KEY);
        let fault = broker.faults().on::<R>().client_id(&case).times(2).respond_error(*code);
        let config = member_config(broker, &case, protocol).client_id(&case);
        let (mut consumer, heard) = member(config);
        assert_eq!(read(&mut consumer, 1).await, ["a"], "{case}");
        assert_eq!(heard.take(), ["assigned [0]"], "{case}");
        assert_eq!(fault.struck(), 2, "{case}");
        consumer.commit_sync().await.unwrap();
        assert_eq!(broker.committed(&case, "letters", 0), Some(1), "{case}");
        consumer.close().await.unwrap();
    }
}

#[tokio::test]
async fn joining_survives_what_a_coordinator_says() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let loading = ErrorCode::CoordinatorLoadInProgress;
    let passing = [MOVED[0], MOVED[1], loading];
    for protocol in PROTOCOLS {
        let codes = [ErrorCode::CoordinatorNotAvailable, loading];
        joins_all_the_same::<FindCoordinatorRequest>(&broker, protocol, &codes).await;
        joins_all_the_same::<OffsetFetchRequest>(&broker, protocol, &passing).await;
        let codes = [ErrorCode::UnstableOffsetCommit];
        joins_all_the_same::<OffsetFetchRequest>(&broker, protocol, &codes).await;
    }
    let rebalancing = ErrorCode::RebalanceInProgress;
    let unknown = ErrorCode::UnknownMemberId;
    let codes = [MOVED[0], MOVED[1], loading, rebalancing, unknown];
    joins_all_the_same::<JoinGroupRequest>(&broker, "classic", &codes).await;
    let codes = [MOVED[0], MOVED[1], loading, rebalancing, ErrorCode::IllegalGeneration];
    joins_all_the_same::<SyncGroupRequest>(&broker, "classic", &codes).await;
    let codes = [MOVED[0], MOVED[1], loading, unknown, ErrorCode::FencedMemberEpoch];
    joins_all_the_same::<ConsumerGroupHeartbeatRequest>(&broker, "consumer", &codes).await;
    let codes = [ErrorCode::StaleMemberEpoch, unknown];
    joins_all_the_same::<OffsetFetchRequest>(&broker, "consumer", &codes).await;
}

#[tokio::test]
async fn who_is_forgotten_between_join_and_sync_joins_anew() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let ids = Arc::new(Mutex::new(vec![]));
    let noted = Arc::clone(&ids);
    let note = move |request: &SyncGroupRequest| {
        noted.lock().unwrap().push(request.member_id.to_string());
        true
    };
    let fault = broker
        .faults()
        .on::<SyncGroupRequest>()
        .when(note)
        .once()
        .respond_error(ErrorCode::UnknownMemberId);
    let (mut consumer, heard) = member(member_config(&broker, "group", "classic"));
    poll_until_struck(&mut consumer, &fault, 1).await;
    let forgotten = ids.lock().unwrap()[0].clone();
    broker.remove_member("group", &forgotten);
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    assert_eq!(heard.take(), ["assigned [0]"]);
    assert_ne!(broker.group_members("group")[0].member_id, forgotten);
}

/// A member that reads, and then gets an error for one heartbeat.
async fn hears<R>(broker: &TestBroker, protocol: &str, code: ErrorCode, expected: &[&str])
where
    R: Request + 'static,
{
    let case = format!("{protocol} {} {code}", R::KEY);
    let topic_end = broker.produce("letters", 0, ["a"]);
    let config = member_config(broker, &case, protocol).client_id(&case);
    let (mut consumer, heard) = member(config.set("auto.offset.reset", "earliest"));
    let before = usize::try_from(topic_end).unwrap() + 1;
    read(&mut consumer, before).await;
    consumer.commit_sync().await.unwrap();
    assert_eq!(heard.take(), ["assigned [0]"], "{case}");
    let member_id = broker.group_members(&case)[0].member_id.clone();
    let fault = broker.faults().on::<R>().client_id(&case).once().respond_error(code);
    poll_until_struck(&mut consumer, &fault, 1).await;
    // Only a classic member comes back under another name, and then waits for its old self.
    if code == ErrorCode::UnknownMemberId && protocol == "classic" {
        broker.remove_member(&case, &member_id);
    }
    broker.produce("letters", 0, ["next"]);
    settle(&mut consumer, &heard, expected, &case).await;
    consumer.commit_sync().await.unwrap();
    let read_up_to = i64::try_from(before).unwrap() + 1;
    assert_eq!(broker.committed(&case, "letters", 0), Some(read_up_to), "{case}");
    consumer.close().await.unwrap();
}

/// Polls until the next record is there and the listener has heard all it should.
async fn settle(consumer: &mut Consumer, heard: &Heard, expected: &[&str], case: &str) {
    let mut all_heard = vec![];
    let mut values = vec![];
    while values.is_empty() || all_heard.len() < expected.len() {
        values.extend(texts(&consumer.poll(SHORT).await.unwrap()));
        all_heard.extend(heard.take());
    }
    assert_eq!(all_heard, expected, "{case}");
    assert_eq!(values, ["next"], "{case}");
}

#[tokio::test]
async fn heartbeats_tell_of_rebalances_and_losses_in_the_classic_protocol() {
    let broker = broker();
    let again = ["revoked [0]", "assigned [0]"];
    let lost = ["lost [0]", "assigned [0]"];
    for code in MOVED {
        hears::<HeartbeatRequest>(&broker, "classic", code, &[]).await;
    }
    hears::<HeartbeatRequest>(&broker, "classic", ErrorCode::CoordinatorLoadInProgress, &[]).await;
    hears::<HeartbeatRequest>(&broker, "classic", ErrorCode::RebalanceInProgress, &again).await;
    hears::<HeartbeatRequest>(&broker, "classic", ErrorCode::IllegalGeneration, &lost).await;
    hears::<HeartbeatRequest>(&broker, "classic", ErrorCode::UnknownMemberId, &lost).await;
}

#[tokio::test]
async fn heartbeats_tell_of_losses_in_the_other_protocol() {
    let broker = broker();
    let lost = ["lost [0]", "assigned [0]"];
    for code in MOVED {
        hears::<ConsumerGroupHeartbeatRequest>(&broker, "consumer", code, &[]).await;
    }
    let code = ErrorCode::CoordinatorLoadInProgress;
    hears::<ConsumerGroupHeartbeatRequest>(&broker, "consumer", code, &[]).await;
    hears::<ConsumerGroupHeartbeatRequest>(&broker, "consumer", ErrorCode::FencedMemberEpoch, &lost).await;
    hears::<ConsumerGroupHeartbeatRequest>(&broker, "consumer", ErrorCode::UnknownMemberId, &lost).await;
}

#[tokio::test]
async fn a_member_that_is_put_out_loses_what_it_had_and_comes_back() {
    let broker = broker();
    for protocol in PROTOCOLS {
        let (mut consumer, heard) = member(member_config(&broker, protocol, protocol));
        while heard.take() != ["assigned [0]"] {
            consumer.poll(SHORT).await.unwrap();
        }
        let members = broker.group_members(protocol);
        broker.remove_member(protocol, &members[0].member_id);
        let mut all = vec![];
        while all.len() < 2 {
            consumer.poll(SHORT).await.unwrap();
            all.extend(heard.take());
        }
        assert_eq!(all, ["lost [0]", "assigned [0]"], "{protocol}");
        consumer.close().await.unwrap();
    }
}

#[tokio::test]
async fn lost_answers_of_the_group_are_asked_for_again() {
    async fn survives<R: Request + 'static>(broker: &TestBroker, protocol: &str, lose: fn(&TestBroker, &str) -> Fault) {
        let case = format!("{protocol} {}", R::KEY);
        let fault = lose(broker, &case);
        let config = member_config(broker, &case, protocol)
            .client_id(&case)
            .set("request.timeout.ms", 300);
        let config = match protocol {
            // The timeout of a JoinGroup request depends on this too.
            "classic" => config.set("max.poll.interval.ms", 500).set("session.timeout.ms", 400),
            _ => config,
        };
        let (mut consumer, _) = member(config);
        assert_eq!(read(&mut consumer, 1).await, ["a"], "{case}");
        assert_eq!(fault.struck(), 1, "{case}");
    }
    fn lose<R: Request + 'static>(broker: &TestBroker, client: &str) -> Fault {
        broker.faults().on::<R>().client_id(client).once().drop_response()
    }
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    for protocol in PROTOCOLS {
        survives::<FindCoordinatorRequest>(&broker, protocol, lose::<FindCoordinatorRequest>).await;
        survives::<OffsetFetchRequest>(&broker, protocol, lose::<OffsetFetchRequest>).await;
    }
    survives::<SyncGroupRequest>(&broker, "classic", lose::<SyncGroupRequest>).await;
    survives::<ConsumerGroupHeartbeatRequest>(&broker, "consumer", lose::<ConsumerGroupHeartbeatRequest>).await;
}

#[tokio::test]
async fn a_goodbye_that_fails_keeps_nobody_from_closing() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    for code in [
        ErrorCode::NotCoordinator,
        ErrorCode::UnknownMemberId,
        ErrorCode::CoordinatorLoadInProgress,
    ] {
        let (mut consumer, heard) = member(member_config(&broker, &format!("{code}"), "classic"));
        read(&mut consumer, 1).await;
        heard.take();
        let fault = broker.faults().on::<LeaveGroupRequest>().once().respond_error(code);
        consumer.close().await.unwrap();
        assert_eq!(heard.take(), ["revoked [0]"], "{code}");
        assert_eq!(fault.struck(), 1);
    }
}

#[tokio::test]
async fn a_group_goes_on_when_its_broker_was_killed() {
    for protocol in PROTOCOLS {
        let broker = TestBroker::start();
        broker.create_topic("letters", 4);
        let mut members = [(); 2].map(|()| member(member_config(&broker, "group", protocol)));
        let mut produced = BTreeSet::new();
        let mut seen: Vec<String> = vec![];
        for round in 0..20 {
            if round % 8 == 7 {
                broker.kill();
                for (consumer, _) in &mut members {
                    seen.extend(texts(&consumer.poll(SHORT).await.unwrap()));
                }
                broker.restart();
            }
            for partition in 0..4 {
                let value = format!("{round}/{partition}");
                broker.produce("letters", partition, [&value]);
                produced.insert(value);
            }
            for (consumer, _) in &mut members {
                seen.extend(texts(&consumer.poll(SHORT).await.unwrap()));
                // It may fail as long as the group has not found itself again.
                let _ = consumer.commit_async();
            }
        }
        while seen.iter().collect::<BTreeSet<_>>().len() < produced.len() {
            for (consumer, _) in &mut members {
                seen.extend(texts(&consumer.poll(SHORT).await.unwrap()));
            }
        }
        let mut ends = BTreeMap::new();
        for (consumer, _) in &mut members {
            consumer.commit_sync().await.unwrap();
            for partition in consumer.assignment() {
                let position = consumer.position(&partition).await.unwrap().offset;
                ends.insert(partition, position);
            }
        }
        for partition in 0..4 {
            let end = ends.get(&TopicPartition::new("letters", partition));
            assert_eq!(end, Some(&20), "{protocol}");
            assert_eq!(broker.committed("group", "letters", partition), Some(20), "{protocol}");
        }
    }
}

#[tokio::test]
async fn a_coordinator_that_has_died_in_silence_costs_no_partitions() {
    for protocol in PROTOCOLS {
        let broker = broker();
        broker.produce("letters", 0, ["a"]);
        let config = member_config(&broker, "group", protocol).set("request.timeout.ms", 300);
        let (mut consumer, heard) = member(config);
        assert_eq!(read(&mut consumer, 1).await, ["a"]);
        heard.take();
        broker.faults().half_open();
        consumer.commit_sync().await.unwrap();
        assert_eq!(broker.committed("group", "letters", 0), Some(1));
        broker.produce("letters", 0, ["b"]);
        assert_eq!(read(&mut consumer, 1).await, ["b"]);
        assert_eq!(heard.take(), [""; 0], "{protocol}: its session is longer than that");
    }
}

#[tokio::test]
async fn a_broker_that_is_not_there_yet_is_waited_for() {
    for protocol in PROTOCOLS {
        let broker = broker();
        broker.produce("letters", 0, ["a"]);
        broker.kill();
        let (mut consumer, heard) = member(member_config(&broker, "group", protocol));
        for _ in 0..3 {
            assert!(consumer.poll(SHORT).await.unwrap().is_empty());
        }
        broker.restart();
        assert_eq!(read(&mut consumer, 1).await, ["a"]);
        assert_eq!(heard.take(), ["assigned [0]"]);
    }
}

#[tokio::test]
async fn a_member_without_a_broker_tries_with_growing_pauses() {
    let broker = broker();
    broker.produce("letters", 0, ["a"]);
    let config = member_config(&broker, "group", "classic")
        .set("reconnect.backoff.ms", 50)
        .set("reconnect.backoff.max.ms", 400);
    let (mut consumer, _) = member(config);
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    let began = Instant::now();
    let refused = broker.faults().refuse_connections();
    broker.faults().cut_connections();
    poll_until_struck(&mut consumer, &refused, 12).await;
    // Three connections at most, each with 20 % less than 50, 100 and 200 ms between its first four tries.
    assert!(began.elapsed() >= Duration::from_millis(280), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_broker_that_says_nothing_keeps_nobody_from_closing() {
    for protocol in PROTOCOLS {
        let broker = broker();
        broker.produce("letters", 0, ["a"]);
        let (mut consumer, heard) = member(member_config(&broker, "group", protocol));
        assert_eq!(read(&mut consumer, 1).await, ["a"]);
        heard.take();
        broker.faults().stall();
        let options = CloseOptions {
            timeout: Duration::from_millis(200),
            ..CloseOptions::default()
        };
        // The group may not have heard of it: that is no reason to fail, or to wait.
        let _ = consumer.close_with(options).await;
        assert_eq!(heard.take(), ["revoked [0]"], "{protocol}");
    }
}
