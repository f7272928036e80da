//! Commits under faults: they succeed, or fail with the right reason.

use std::{collections::BTreeMap, time::Duration};

use milena_client::consumer::{CloseOptions, CommitError, Consumer, OffsetAndMetadata, OffsetError};
use milena_test::{
    ErrorCode, Fault, Faults, FaultsOn, TestBroker,
    messages::{HeartbeatRequest, OffsetCommitRequest},
};

use crate::consumers::{Heard, PROTOCOLS, SHORT, letters, member, member_config, read};

fn broker() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, ["a"]);
    broker
}

/// A member that has read the one record there is.
async fn reading(broker: &TestBroker, group: &str, protocol: &str) -> (Consumer, Heard) {
    let config = member_config(broker, group, protocol)
        .set("request.timeout.ms", 300)
        .set("default.api.timeout.ms", 20_000);
    let (mut consumer, heard) = member(config);
    assert_eq!(read(&mut consumer, 1).await, ["a"]);
    heard.take();
    (consumer, heard)
}

fn reason(error: &CommitError) -> &OffsetError {
    let CommitError::Partitions(failed) = error else {
        panic!("{error:?}");
    };
    &failed[&letters()]
}

#[tokio::test]
async fn what_passes_is_tried_again_until_it_succeeds() {
    let broker = broker();
    for protocol in PROTOCOLS {
        for code in [
            ErrorCode::NotCoordinator,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::RequestTimedOut,
            ErrorCode::UnknownTopicOrPartition,
        ] {
            let group = format!("{protocol} {code}");
            let (mut consumer, heard) = reading(&broker, &group, protocol).await;
            let fault = broker.faults().on::<OffsetCommitRequest>().times(3).respond_error(code);
            consumer.commit_sync().await.unwrap();
            assert_eq!(fault.struck(), 3, "{group}");
            assert_eq!(broker.committed(&group, "letters", 0), Some(1), "{group}");
            assert_eq!(heard.take(), [""; 0], "{group}");
        }
    }
}

#[tokio::test]
async fn a_commit_whose_request_or_answer_is_lost_is_sent_again() {
    type On = FaultsOn<OffsetCommitRequest>;
    type Strike = fn(On) -> Fault;
    let broker = broker();
    let ways: [(&str, Strike); 4] = [
        ("drop request", On::drop_request),
        ("drop response", On::drop_response),
        ("close before", On::close_before),
        ("close after", On::close_after),
    ];
    for protocol in PROTOCOLS {
        for (way, strike) in ways {
            let group = format!("{protocol} {way}");
            let (mut consumer, _) = reading(&broker, &group, protocol).await;
            let fault = strike(broker.faults().on::<OffsetCommitRequest>().once());
            consumer.commit_sync().await.unwrap();
            assert_eq!(fault.struck(), 1, "{group}");
            assert_eq!(broker.committed(&group, "letters", 0), Some(1), "{group}");
        }
    }
}

#[tokio::test]
async fn an_asynchronous_commit_is_tried_again_while_it_is_the_newest() {
    let broker = broker();
    for protocol in PROTOCOLS {
        let group = format!("{protocol} newest");
        let (mut consumer, _) = reading(&broker, &group, protocol).await;
        let loading = ErrorCode::CoordinatorLoadInProgress;
        let fault = broker
            .faults()
            .on::<OffsetCommitRequest>()
            .times(3)
            .respond_error(loading);
        consumer.commit_async_retrying().unwrap().await.unwrap();
        assert_eq!(fault.struck(), 3, "{group}");
        assert_eq!(broker.committed(&group, "letters", 0), Some(1), "{group}");

        broker
            .faults()
            .on::<OffsetCommitRequest>()
            .once()
            .respond_error(loading);
        let overtaken = consumer.commit_async_retrying().unwrap();
        let newer = [(letters(), OffsetAndMetadata::new(0))].into();
        let newer = consumer.commit_offsets_async(newer).unwrap();
        assert!(overtaken.await.unwrap_err().is_retriable(), "{group}");
        newer.await.unwrap();
        assert_eq!(broker.committed(&group, "letters", 0), Some(0), "{group}");
    }
}

#[tokio::test]
async fn who_is_no_member_any_more_cannot_commit() {
    let broker = broker();
    let codes = [
        ("classic", ErrorCode::UnknownMemberId),
        ("classic", ErrorCode::IllegalGeneration),
        ("consumer", ErrorCode::UnknownMemberId),
        ("consumer", ErrorCode::StaleMemberEpoch),
    ];
    for (protocol, code) in codes {
        let group = format!("{protocol} {code}");
        let (mut consumer, heard) = reading(&broker, &group, protocol).await;
        let member_id = broker.group_members(&group)[0].member_id.clone();
        broker.faults().on::<OffsetCommitRequest>().once().respond_error(code);
        let error = consumer.commit_sync().await.unwrap_err();
        assert_eq!(reason(&error), &OffsetError::CommitFailed, "{group}");
        assert!(!error.is_retriable());
        assert_eq!(broker.committed(&group, "letters", 0), None, "{group}");
        if code == ErrorCode::UnknownMemberId {
            broker.remove_member(&group, &member_id);
        }
        // In the classic protocol that is how it learns that it is out; in the other only heartbeats count.
        if code != ErrorCode::StaleMemberEpoch {
            let mut all = vec![];
            while all.len() < 2 {
                consumer.poll(SHORT).await.unwrap();
                all.extend(heard.take());
            }
            assert_eq!(all, ["lost [0]", "assigned [0]"], "{group}");
        }
        // The records are read again, and can be committed now.
        if consumer.position(&letters()).await.unwrap().offset == 0 {
            read(&mut consumer, 1).await;
        }
        consumer.commit_sync().await.unwrap();
        assert_eq!(broker.committed(&group, "letters", 0), Some(1), "{group}");
    }
}

#[tokio::test]
async fn a_commit_during_a_rebalance_says_so() {
    let broker = broker();
    let (mut consumer, heard) = reading(&broker, "group", "classic").await;
    let code = ErrorCode::RebalanceInProgress;
    broker.faults().on::<OffsetCommitRequest>().once().respond_error(code);
    let error = consumer.commit_sync().await.unwrap_err();
    assert_eq!(reason(&error), &OffsetError::RebalanceInProgress);
    assert!(error.is_retriable());
    let mut all = vec![];
    while all.len() < 2 {
        consumer.poll(SHORT).await.unwrap();
        all.extend(heard.take());
    }
    assert_eq!(all, ["revoked [0]", "assigned [0]"]);
}

#[tokio::test]
async fn what_is_refused_for_good_is_not_tried_again() {
    let broker = broker();
    for protocol in PROTOCOLS {
        let (mut consumer, _) = reading(&broker, protocol, protocol).await;
        let code = ErrorCode::OffsetMetadataTooLarge;
        let fault = broker.faults().on::<OffsetCommitRequest>().respond_error(code);
        let error = consumer.commit_sync().await.unwrap_err();
        assert_eq!(reason(&error), &OffsetError::Refused(code));
        assert_eq!(fault.struck(), 1);
        fault.remove();
    }
}

#[tokio::test]
async fn an_asynchronous_commit_is_sent_once() {
    let broker = broker();
    let (mut consumer, _) = reading(&broker, "group", "classic").await;
    let code = ErrorCode::CoordinatorLoadInProgress;
    let fault = broker.faults().on::<OffsetCommitRequest>().respond_error(code);
    let error = consumer.commit_async().unwrap().await.unwrap_err();
    assert!(matches!(reason(&error), OffsetError::Retriable(_)), "{error:?}");
    assert_eq!(fault.struck(), 1);
    fault.remove();
    consumer.commit_async().unwrap().await.unwrap();
    assert_eq!(broker.committed("group", "letters", 0), Some(1));
}

#[tokio::test]
async fn nothing_waits_for_ever_for_a_dead_broker() {
    let broker = broker();
    for protocol in PROTOCOLS {
        let (mut consumer, heard) = reading(&broker, protocol, protocol).await;
        broker.kill();
        let offsets = BTreeMap::from([(letters(), offset(1))]);
        let within = Duration::from_millis(300);
        let error = consumer.commit_offsets_within(offsets, within).await.unwrap_err();
        assert!(matches!(reason(&error), OffsetError::TimedOut { .. }), "{error:?}");
        let options = CloseOptions {
            timeout: Duration::from_millis(300),
            ..CloseOptions::default()
        };
        consumer.close_with(options).await.unwrap();
        assert_eq!(heard.take(), ["revoked [0]"]);
        broker.restart();
    }
}

fn offset(offset: i64) -> OffsetAndMetadata {
    OffsetAndMetadata {
        offset,
        leader_epoch: None,
        metadata: Default::default(),
    }
}

#[tokio::test]
async fn commits_and_heartbeats_share_the_fate_of_their_connection() {
    let broker = broker();
    let (mut consumer, heard) = reading(&broker, "group", "classic").await;
    let faults: &Faults = broker.faults();
    let beats = faults.on::<HeartbeatRequest>().skip(1).times(1).close_after();
    beats.struck_times(1).await;
    consumer.commit_sync().await.unwrap();
    assert_eq!(broker.committed("group", "letters", 0), Some(1));
    consumer.poll(SHORT).await.unwrap();
    assert_eq!(heard.take(), [""; 0], "a new connection is no new membership");
}
