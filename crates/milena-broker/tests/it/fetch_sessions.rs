//! Fetch sessions on the wire: a consumer names its partitions once, and gets the rows that changed.

use milena_wire::{Uuid, errors::ErrorCode, messages::*};

use crate::{
    client::{Client, batch, fetch_request, values},
    running::start,
};

/// The first fetch of a session: partitions 0 and 1 of a topic from their start.
fn full(topic: &str) -> FetchRequest {
    let mut request = fetch_request(topic, 0, 0);
    let mut second = request.topics[0].partitions[0].clone();
    second.partition = 1;
    request.topics[0].partitions.push(second);
    request.session_epoch = 0;
    request
}

/// A later one that changes nothing.
fn next(session_id: i32, session_epoch: i32) -> FetchRequest {
    FetchRequest {
        session_id,
        session_epoch,
        topics: vec![],
        ..fetch_request("", 0, 0)
    }
}

/// The partitions of a response with the number of records of each.
fn counts(response: &FetchResponse) -> Vec<(i32, usize)> {
    assert_eq!(response.error_code, 0, "{response:?}");
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| {
            (
                partition.partition_index,
                values(partition.records.as_ref().unwrap()).len(),
            )
        })
        .collect()
}

fn delete_topic(client: &mut Client, name: &str) {
    let request = DeleteTopicsRequest {
        topics: vec![delete_topics_request::DeleteTopicState {
            name: Some(name.into()),
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&request, 6).responses[0].error_code, 0);
}

#[test]
fn a_session_tells_everything_first_and_then_what_changes() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    let first = client.call(&full("letters"), 12);
    let id = first.session_id;
    assert!(id > 0);
    assert_eq!(counts(&first), [(0, 0), (1, 0)]);
    assert_eq!(counts(&client.call(&next(id, 1), 12)), []);
    client.produce("letters", 1, batch(&["a", "b"]));
    let changed = client.call(&next(id, 2), 12);
    assert_eq!((counts(&changed), changed.session_id), (vec![(1, 2)], id));
    // The client says that it has them; the other partition is as it was.
    let mut read_on = next(id, 3);
    read_on.topics = fetch_request("letters", 1, 2).topics;
    assert_eq!(counts(&client.call(&read_on, 12)), []);
    let mut forgets = next(id, 4);
    forgets.forgotten_topics_data = vec![fetch_request::ForgottenTopic {
        topic: "letters".into(),
        partitions: vec![0],
        ..Default::default()
    }];
    client.produce("letters", 0, batch(&["unheard"]));
    assert_eq!(counts(&client.call(&forgets, 12)), []);
    let wrong = client.call(&next(id, 4), 12);
    assert_eq!(wrong.error_code, ErrorCode::InvalidFetchSessionEpoch.code());
    client.call(&next(id, -1), 12);
    let closed = client.call(&next(id, 5), 12);
    assert_eq!(closed.error_code, ErrorCode::FetchSessionIdNotFound.code());
    broker.shutdown();
}

#[test]
fn a_fetch_of_a_session_waits_for_records_and_brings_only_those() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    let id = client.call(&full("letters"), 12).session_id;
    let mut waits = next(id, 1);
    waits.max_wait_ms = 50_000;
    client.send(&waits, 12);
    broker.client().produce("letters", 0, batch(&["wakes it"]));
    assert_eq!(counts(&client.receive::<FetchRequest>(12)), [(0, 1)]);
    // A timeout without changes is an empty response of the same session.
    let mut waits = next(id, 2);
    waits.max_wait_ms = 1;
    waits.topics = fetch_request("letters", 0, 1).topics;
    let nothing = client.call(&waits, 12);
    assert_eq!((counts(&nothing), nothing.session_id), (vec![], id));
}

#[test]
fn a_waiting_fetch_whose_session_moved_on_gets_an_error_and_tells_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    let id = client.call(&full("letters"), 12).session_id;
    let mut waits = next(id, 1);
    waits.max_wait_ms = 50_000;
    client.send(&waits, 12);
    // The same client on another connection, as after a broken one.
    let mut other = broker.client();
    while other.call(&next(id, 2), 12).error_code != 0 {}
    other.produce("letters", 0, batch(&["for the other"]));
    let overtaken = client.receive::<FetchRequest>(12);
    assert_eq!(overtaken.error_code, ErrorCode::InvalidFetchSessionEpoch.code());
    assert!(overtaken.responses.is_empty());
    assert_eq!(counts(&other.call(&next(id, 3), 12)), [(0, 1)]);
}

#[test]
fn a_topic_id_that_nobody_knows_stays_in_the_session_and_is_always_told() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let id = client.create_topic("letters", 2, &[]);
    let mut request = full("");
    request.topics[0].topic_id = id;
    let mut unknown = request.topics[0].clone();
    unknown.topic_id = Uuid::from_bytes([7; 16]);
    unknown.partitions.truncate(1);
    request.topics.push(unknown);
    let first = client.call(&request, 17);
    let session = first.session_id;
    assert_eq!(first.responses.len(), 2);
    let again = client.call(&next(session, 1), 17);
    assert_eq!(again.responses.len(), 1);
    assert_eq!(
        (again.responses[0].topic_id, again.responses[0].partitions[0].error_code),
        (Uuid::from_bytes([7; 16]), ErrorCode::UnknownTopicId.code())
    );
    let by_name = client.call(&next(session, 2), 12);
    assert_eq!(by_name.error_code, ErrorCode::FetchSessionTopicIdError.code());
    // A partition that never existed is no reason to respond at once, but the deletion of a topic is.
    let mut waits = next(session, 2);
    waits.max_wait_ms = 50_000;
    client.send(&waits, 17);
    let mut other = broker.client();
    delete_topic(&mut other, "letters");
    let ended = client.receive::<FetchRequest>(17);
    let errors = ended.responses.iter().flat_map(|topic| &topic.partitions);
    assert!(
        errors
            .clone()
            .all(|row| row.error_code == ErrorCode::UnknownTopicId.code())
    );
    assert_eq!(errors.count(), 3);
}

#[test]
fn without_slots_every_fetch_is_a_full_one() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("max.incremental.fetch.session.cache.slots", "0")]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    let response = client.call(&full("letters"), 12);
    assert_eq!((counts(&response), response.session_id), (vec![(0, 0), (1, 0)], 0));
}
