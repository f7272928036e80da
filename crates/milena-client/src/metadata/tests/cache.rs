//! The metadata cache.

use milena_wire::{frame, pool::BufferPool};

use super::*;
use crate::metadata::{Broker, LeaderHint};

fn hint(partition: TopicPartition, leader_id: i32, leader_epoch: i32) -> LeaderHint {
    LeaderHint {
        partition,
        leader_id,
        leader_epoch,
    }
}

#[test]
fn a_response_is_kept() {
    let mut refresher = refresher();
    let mut internal = topic("__internal", id(2), vec![partition(0, 3, 1)]);
    internal.is_internal = true;
    let orders = topic("orders", id(1), vec![partition(1, 2, 5), partition(0, 1, 4)]);
    learn(&mut refresher, VERSION, response_with(vec![orders, internal]));
    let cache = refresher.cache();
    assert_eq!(cache.cluster_id().unwrap(), "the cluster");
    assert_eq!(cache.controller().unwrap().id, 2);
    assert_eq!(cache.brokers().map(|broker| broker.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(cache.broker(3).unwrap().endpoint().to_string(), "host3:9092");
    assert_eq!(cache.topic_id("orders"), Some(id(1)));
    assert_eq!(cache.topic_name(id(1)).unwrap(), "orders");
    assert_eq!(partition_count(cache, "orders"), Some(2));
    assert_eq!(cache.leader("orders", 1).unwrap().broker.id, 2);
    assert_eq!(cache.leader("orders", 1).unwrap().epoch, Some(5));
    let kept = cache.partition("orders", 0).unwrap();
    assert_eq!(
        (&*kept.replicas, &*kept.isr, &*kept.offline),
        (&[1, 2, 3][..], &[1, 2][..], &[3][..])
    );
    let all: Vec<_> = cache.topics().map(|topic| (&*topic.name, topic.internal)).collect();
    assert_eq!(all, [("__internal", true), ("orders", false)]);
    // The racks of all replicas, without duplicates.
    let racks = ["rack0", "rack1"].map(ByteString::from_static).to_vec();
    assert_eq!(cache.replica_racks("orders").unwrap(), [racks.clone(), racks]);

    for unknown in ["nothing", "order"] {
        assert_eq!(partition_count(cache, unknown), None);
        assert!(cache.leader(unknown, 0).is_none() && cache.replica_racks(unknown).is_none());
    }
    assert!(cache.leader("orders", 2).is_none());
}

#[test]
fn a_leader_that_is_no_broker_is_none() {
    let mut refresher = refresher();
    let orders = topic("orders", id(1), vec![partition(0, -1, 5), partition(1, 9, 5)]);
    learn(&mut refresher, VERSION, response_with(vec![orders]));
    assert!(refresher.cache().leader("orders", 0).is_none());
    assert!(refresher.cache().leader("orders", 1).is_none());
    assert_eq!(partition_count(refresher.cache(), "orders"), Some(2));
}

#[test]
fn an_older_leader_is_not_taken() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    learn_leader(&mut refresher, id(1), 2, 4);
    assert_eq!(leader(&refresher), Some((1, Some(5))));
    learn_leader(&mut refresher, id(1), 3, 5);
    assert_eq!(leader(&refresher), Some((3, Some(5))));
    learn_leader(&mut refresher, id(1), 2, 6);
    assert_eq!(leader(&refresher), Some((2, Some(6))));
}

#[test]
fn a_topic_that_was_created_anew_begins_with_its_own_epochs() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    learn_leader(&mut refresher, id(2), 2, 0);
    assert_eq!(leader(&refresher), Some((2, Some(0))));
    assert_eq!(refresher.cache().topic_name(id(1)), None);
    assert_eq!(refresher.cache().topic_name(id(2)).unwrap(), "orders");
}

#[test]
fn without_ids_epochs_never_go_back() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    learn_leader(&mut refresher, Uuid::ZERO, 2, 0);
    assert_eq!(leader(&refresher), Some((1, Some(5))));
}

#[test]
fn epochs_outlive_an_error() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    let error = ErrorCode::UnknownTopicOrPartition;
    learn(&mut refresher, VERSION, response_with(vec![failed("orders", error)]));
    assert_eq!(leader(&refresher), None);
    assert_eq!(refresher.cache().topic_error("orders"), Some(error));
    assert_eq!(
        refresher.cache().topic_errors().collect::<Vec<_>>(),
        [(&"orders".into(), error)]
    );
    // This broker does not know the newest leader: only its existence is known.
    learn_leader(&mut refresher, id(1), 2, 4);
    assert_eq!(leader(&refresher), None);
    assert_eq!(refresher.cache().topic_error("orders"), None);
    assert_eq!(partition_count(refresher.cache(), "orders"), Some(1));
    learn_leader(&mut refresher, id(1), 2, 5);
    assert_eq!(leader(&refresher), Some((2, Some(5))));
}

#[test]
fn deselected_topics_are_forgotten_with_their_epochs() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    refresher.select(names(&["others"]));
    learn(&mut refresher, VERSION, response_with(vec![]));
    assert_eq!(refresher.cache().seen_epoch("orders", 0), None);
}

#[test]
fn epochs_of_old_brokers_are_not_trusted() {
    let mut refresher = refresher();
    let orders = |epoch| response_with(vec![topic("orders", Uuid::ZERO, vec![partition(0, 1, epoch)])]);
    learn(&mut refresher, 8, orders(5));
    assert_eq!(leader(&refresher), Some((1, None)));
    refresher.request_update(crate::metadata::Refresh::New);
    learn(&mut refresher, 9, orders(4));
    assert_eq!(leader(&refresher), Some((1, Some(4))));
}

#[test]
fn ids_that_do_not_exist_are_kept_as_errors() {
    let mut refresher = refresher();
    refresher.select(TopicSelection::Ids([id(1), id(2)].into()));
    let mut unknown = failed("", ErrorCode::UnknownTopicId);
    unknown.name = None;
    unknown.topic_id = id(2);
    let orders = topic("orders", id(1), vec![partition(0, 1, 0)]);
    learn(&mut refresher, VERSION, response_with(vec![unknown, orders]));
    assert_eq!(refresher.cache().topic_name(id(1)).unwrap(), "orders");
}

#[test]
fn a_hint_is_taken_if_it_is_newer_and_its_leader_can_be_found() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    let before = std::sync::Arc::clone(refresher.cache());
    let new_broker = Broker::new(4, "host4", 9092, None).unwrap();
    for useless in [
        hint(orders(0), 2, 5),
        hint(orders(0), 2, 4),
        hint(orders(0), 4, 6),
        hint(orders(0), -1, 6),
        hint(orders(0), 2, -1),
        hint(orders(1), 2, 6),
        hint(TopicPartition::new("others", 0), 2, 6),
    ] {
        assert!(
            refresher.handle_leaders(std::slice::from_ref(&useless), &[]).is_empty(),
            "{useless:?}"
        );
    }
    assert_eq!(**refresher.cache(), *before);
    assert_eq!(
        refresher.handle_leaders(&[hint(orders(0), 4, 6)], &[new_broker]),
        [orders(0)]
    );
    assert_eq!(leader(&refresher), Some((4, Some(6))));
    assert!(refresher.cache().version > before.version);
    // The broker that serves Metadata may not know the new leader yet.
    learn_leader(&mut refresher, id(1), 1, 5);
    assert_eq!(refresher.cache().seen_epoch("orders", 0), Some(6));
    assert_eq!(leader(&refresher), None, "broker 4 was not in that response");
}

#[test]
fn a_newer_epoch_makes_the_leader_unknown() {
    let mut refresher = refresher();
    learn_leader(&mut refresher, id(1), 1, 5);
    assert!(!refresher.handle_epoch(&orders(0), 5));
    assert!(!refresher.handle_epoch(&orders(7), 9));
    assert_eq!(leader(&refresher), Some((1, Some(5))));
    assert!(refresher.handle_epoch(&orders(0), 6));
    assert_eq!(leader(&refresher), None);
    learn_leader(&mut refresher, id(1), 2, 6);
    assert_eq!(leader(&refresher), Some((2, Some(6))));
}

#[test]
fn a_port_that_cannot_be_is_no_broker() {
    let mut refresher = refresher();
    let mut hostile = response_with(vec![]);
    hostile.brokers[0].port = 70_000;
    hostile.brokers[1].port = -1;
    learn(&mut refresher, VERSION, hostile);
    assert_eq!(
        refresher.cache().brokers().map(|broker| broker.id).collect::<Vec<_>>(),
        [3]
    );
}

#[test]
fn no_buffer_of_a_response_is_kept() {
    let orders = topic("orders", id(1), vec![partition(0, 1, 0)]);
    let response = response_with(vec![orders, failed("bad", ErrorCode::InvalidTopicException)]);
    let encoded = frame::encode_response(&response, VERSION, 1).unwrap().into_bytes();
    let pool = BufferPool::new(1 << 20);
    let mut buffer = pool.take(encoded.len());
    buffer.extend_from_slice(&encoded[frame::LENGTH_SIZE..]);
    let (_, response) = frame::decode_response(&buffer.freeze(), VERSION).unwrap();
    assert_eq!(pool.idle_bytes(), 0);
    let mut refresher = refresher();
    learn(&mut refresher, VERSION, response);
    assert_eq!(partition_count(refresher.cache(), "orders"), Some(1));
    assert_eq!(pool.idle_bytes(), encoded.len());
}
