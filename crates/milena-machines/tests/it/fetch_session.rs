//! The client's half of fetch sessions.

use milena_machines::{
    TopicPartition,
    fetch::{FetchSession, SessionError, SessionPartition},
};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        FetchRequest, FetchResponse,
        fetch_response::{FetchableTopicResponse, PartitionData},
    },
};

fn id(topic: u8) -> Uuid {
    Uuid::from_bytes([topic; 16])
}

fn wanted(topic: u8, partition: i32, offset: i64) -> SessionPartition<()> {
    SessionPartition {
        partition: TopicPartition::new(format!("topic{topic}"), partition),
        topic_id: Some(id(topic)),
        offset,
        leader_epoch: 1,
        last_fetched_epoch: -1,
        max_bytes: 1_000,
        tag: (),
    }
}

/// The content of a request: session, epoch, partitions with their offsets, forgotten partitions.
type Said = (i32, i32, Vec<(u8, i32, i64)>, Vec<(u8, i32)>);

fn build(session: &mut FetchSession<()>, partitions: &[SessionPartition<()>]) -> Said {
    let mut request = FetchRequest::default();
    session.build(partitions.to_vec(), &mut request);
    let topic = |id: Uuid| id.as_bytes()[0];
    let topics = request.topics.iter().flat_map(|asked| {
        let partitions = asked.partitions.iter();
        partitions.map(move |partition| (topic(asked.topic_id), partition.partition, partition.fetch_offset))
    });
    let forgotten = request.forgotten_topics_data.iter().flat_map(|gone| {
        let partitions = gone.partitions.iter();
        partitions.map(move |partition| (topic(gone.topic_id), *partition))
    });
    (
        request.session_id,
        request.session_epoch,
        topics.collect(),
        forgotten.collect(),
    )
}

fn response(session_id: i32, partitions: &[(u8, i32)]) -> FetchResponse {
    let topic = |(topic, partition): &(u8, i32)| FetchableTopicResponse {
        topic_id: id(*topic),
        partitions: vec![PartitionData {
            partition_index: *partition,
            ..Default::default()
        }],
        ..Default::default()
    };
    FetchResponse {
        session_id,
        responses: partitions.iter().map(topic).collect(),
        ..Default::default()
    }
}

#[test]
fn only_what_changes_is_said() {
    let mut session = FetchSession::default();
    let all = [wanted(1, 0, 5), wanted(1, 1, 6), wanted(2, 0, 7)];
    let said = build(&mut session, &all);
    assert_eq!(said, (0, 0, vec![(1, 0, 5), (1, 1, 6), (2, 0, 7)], vec![]));
    session
        .handle_response(&response(9, &[(1, 0), (1, 1), (2, 0)]))
        .unwrap();

    assert_eq!(build(&mut session, &all), (9, 1, vec![], vec![]));
    session.handle_response(&response(9, &[])).unwrap();

    let moved = [wanted(1, 0, 50), wanted(2, 0, 7), wanted(3, 0, 0)];
    assert_eq!(
        build(&mut session, &moved),
        (9, 2, vec![(1, 0, 50), (3, 0, 0)], vec![(1, 1)])
    );
}

#[test]
fn a_topic_made_anew_is_forgotten_by_its_old_id() {
    let mut session = FetchSession::default();
    build(&mut session, &[wanted(1, 0, 5)]);
    session.handle_response(&response(9, &[(1, 0)])).unwrap();
    let anew = SessionPartition {
        topic_id: Some(id(8)),
        ..wanted(1, 0, 0)
    };
    assert_eq!(build(&mut session, &[anew]), (9, 1, vec![(8, 0, 0)], vec![(1, 0)]));
}

#[test]
fn a_broker_without_sessions_gets_full_requests() {
    let mut session = FetchSession::default();
    let all = [wanted(1, 0, 5)];
    for _ in 0..3 {
        assert_eq!(build(&mut session, &all), (0, 0, vec![(1, 0, 5)], vec![]));
        session.handle_response(&response(0, &[(1, 0)])).unwrap();
    }
}

#[test]
fn after_trouble_the_session_begins_anew_and_the_old_one_is_let_go() {
    let opened = || {
        let mut session = FetchSession::default();
        build(&mut session, &[wanted(1, 0, 5)]);
        session.handle_response(&response(9, &[(1, 0)])).unwrap();
        build(&mut session, &[wanted(1, 0, 6)]);
        session
    };
    let refused = |code: ErrorCode| FetchResponse {
        error_code: code.code(),
        ..Default::default()
    };
    let full = |id| (id, 0, vec![(1, 0, 6)], vec![]);

    let mut session = opened();
    let code = ErrorCode::FetchSessionIdNotFound;
    assert_eq!(
        session.handle_response(&refused(code)),
        Err(SessionError::Refused { code })
    );
    assert_eq!(build(&mut session, &[wanted(1, 0, 6)]), full(0));

    let mut session = opened();
    let code = ErrorCode::InvalidFetchSessionEpoch;
    assert_eq!(
        session.handle_response(&refused(code)),
        Err(SessionError::Refused { code })
    );
    assert_eq!(build(&mut session, &[wanted(1, 0, 6)]), full(9));

    let mut session = opened();
    session.handle_failure();
    assert_eq!(build(&mut session, &[wanted(1, 0, 6)]), full(9));

    let mut session = opened();
    let problem = session.handle_response(&response(9, &[(4, 2)])).unwrap_err();
    assert!(matches!(&problem, SessionError::NotRequested { .. }), "{problem}");
    assert_eq!(build(&mut session, &[wanted(1, 0, 6)]), full(9));
}

#[test]
fn without_every_id_names_are_used_in_a_session_of_their_own() {
    let mut session = FetchSession::default();
    build(&mut session, &[wanted(1, 0, 5)]);
    session.handle_response(&response(9, &[(1, 0)])).unwrap();
    let nameless = SessionPartition {
        topic_id: None,
        ..wanted(2, 0, 1)
    };
    let mut request = FetchRequest::default();
    session.build(vec![wanted(1, 0, 5), nameless], &mut request);
    assert_eq!((request.session_id, request.session_epoch), (9, 0));
    assert_eq!(request.topics.len(), 2);
    let asked = session.requested(&"topic2".into(), Uuid::default(), 0).unwrap();
    assert_eq!(asked.offset, 1);
    assert!(session.requested(&"topic3".into(), Uuid::default(), 0).is_none());
}

#[test]
fn closing_tells_the_broker_only_if_it_has_a_session() {
    let mut session = FetchSession::default();
    assert!(session.close().is_none());
    build(&mut session, &[wanted(1, 0, 5)]);
    session.handle_response(&response(9, &[(1, 0)])).unwrap();
    let request = session.close().unwrap();
    assert_eq!((request.session_id, request.session_epoch), (9, -1));
    assert!(session.close().is_none());
}
