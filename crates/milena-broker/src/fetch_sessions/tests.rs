//! The rules of KIP-227, one by one.

use bytes::Bytes;
use milena_wire::messages::fetch_request::{FetchPartition, ForgottenTopic};

use super::*;

const NAMES: i16 = 12;
const IDS: i16 = 13;
const NOW: i64 = 1_000_000;

/// A request for these partitions of topic `t`, each with an offset.
fn request(session_id: i32, session_epoch: i32, partitions: &[(i32, i64)]) -> FetchRequest {
    let partitions = partitions.iter().map(|(partition, fetch_offset)| FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        ..Default::default()
    });
    let topics = vec![FetchTopic {
        topic: "t".into(),
        partitions: partitions.collect(),
        ..Default::default()
    }];
    FetchRequest {
        session_id,
        session_epoch,
        topics,
        ..Default::default()
    }
}

fn forgetting(mut request: FetchRequest, partitions: &[i32]) -> FetchRequest {
    request.forgotten_topics_data = vec![ForgottenTopic {
        topic: "t".into(),
        partitions: partitions.to_vec(),
        ..Default::default()
    }];
    request
}

/// A row of a partition: its high watermark, and some records or none.
fn row(high_watermark: i64, records: &'static [u8]) -> PartitionData {
    PartitionData {
        high_watermark,
        log_start_offset: 0,
        records: Some(Bytes::from_static(records)),
        ..Default::default()
    }
}

fn partitions(requested: &[PartitionFetch]) -> Vec<(i32, i64)> {
    requested
        .iter()
        .map(|requested| (requested.partition, requested.offset))
        .collect()
}

fn begin(sessions: &mut FetchSessions, request: &FetchRequest) -> SessionFetch {
    sessions.begin(request, NAMES, NOW).unwrap()
}

/// Completes the response with a row from `read` for each partition; returns the partitions that are sent, and the session.
fn finish(
    sessions: &mut FetchSessions,
    accepted: &SessionFetch,
    read: impl Fn(i32) -> PartitionData,
    now_ms: i64,
) -> (Vec<i32>, SessionResult) {
    let mut rows: Vec<_> = accepted
        .requested
        .iter()
        .map(|requested| Some(read(requested.partition)))
        .collect();
    let finished = sessions.finish(accepted.context, &accepted.requested, &mut rows, now_ms);
    let sent = accepted.requested.iter().zip(&rows).filter(|(_, row)| row.is_some());
    (sent.map(|(requested, _)| requested.partition).collect(), finished)
}

/// A session of these partitions, all of them empty and sent once.
fn open(sessions: &mut FetchSessions, of: &[i32], now_ms: i64) -> i32 {
    let of: Vec<_> = of.iter().map(|partition| (*partition, 0)).collect();
    let accepted = begin(sessions, &request(0, 0, &of));
    finish(sessions, &accepted, |_| row(0, b""), now_ms).1.session_id
}

fn error(sessions: &mut FetchSessions, request: &FetchRequest, version: i16) -> ErrorCode {
    sessions.begin(request, version, NOW).unwrap_err()
}

#[test]
fn without_id_and_epoch_there_is_no_session() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let accepted = begin(&mut sessions, &request(0, -1, &[(0, 5), (1, 6)]));
    assert_eq!(partitions(&accepted.requested), [(0, 5), (1, 6)]);
    let (sent, finished) = finish(&mut sessions, &accepted, |_| row(0, b""), NOW);
    assert_eq!(sent, [0, 1], "all partitions, changed or not");
    assert_eq!((finished.error, finished.session_id), (ErrorCode::None, 0));
    assert!(sessions.sessions.is_empty());
}

#[test]
fn epoch_0_begins_a_session_that_starts_with_epoch_1() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0, 1], NOW);
    assert!(id > 0);
    let accepted = begin(&mut sessions, &request(id, 1, &[]));
    assert_eq!(partitions(&accepted.requested), [(0, 0), (1, 0)], "it remembers them");
}

#[test]
fn epoch_0_drops_the_session_it_names() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    let accepted = begin(&mut sessions, &request(id, 0, &[(0, 0)]));
    let (_, finished) = finish(&mut sessions, &accepted, |_| row(0, b""), NOW);
    assert_ne!(finished.session_id, id);
    assert_eq!(
        error(&mut sessions, &request(id, 1, &[]), NAMES),
        ErrorCode::FetchSessionIdNotFound
    );
    assert_eq!((sessions.sessions.len(), sessions.partitions), (1, 1));
}

#[test]
fn epoch_minus_1_closes_the_session_it_names() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    let accepted = begin(&mut sessions, &request(id, -1, &[(3, 0)]));
    assert_eq!(
        (accepted.context, partitions(&accepted.requested)),
        (SessionContext::Sessionless, vec![(3, 0)])
    );
    assert_eq!((sessions.sessions.len(), sessions.partitions), (0, 0));
}

#[test]
fn another_epoch_than_the_next_is_refused_and_changes_nothing() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    for epoch in [2, 7, i32::MAX, -2] {
        let refused = error(&mut sessions, &request(id, epoch, &[(9, 9)]), NAMES);
        assert_eq!(refused, ErrorCode::InvalidFetchSessionEpoch, "{epoch}");
    }
    assert_eq!(
        partitions(&begin(&mut sessions, &request(id, 1, &[])).requested),
        [(0, 0)]
    );
    let again = error(&mut sessions, &request(id, 1, &[]), NAMES);
    assert_eq!(
        again,
        ErrorCode::InvalidFetchSessionEpoch,
        "the epoch moved when it was accepted"
    );
}

#[test]
fn an_unknown_session_is_refused() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    for id in [0, 1, -5] {
        let refused = error(&mut sessions, &request(id, 1, &[]), NAMES);
        assert_eq!(refused, ErrorCode::FetchSessionIdNotFound);
    }
}

#[test]
fn a_session_stays_with_names_or_with_ids() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let by_name = open(&mut sessions, &[0], NOW);
    let refused = error(&mut sessions, &request(by_name, 1, &[]), IDS);
    assert_eq!(refused, ErrorCode::FetchSessionTopicIdError);
    let accepted = sessions.begin(&request(0, 0, &[(0, 0)]), IDS, NOW).unwrap();
    let by_id = finish(&mut sessions, &accepted, |_| row(0, b""), NOW).1.session_id;
    let refused = error(&mut sessions, &request(by_id, 1, &[]), NAMES);
    assert_eq!(refused, ErrorCode::FetchSessionTopicIdError);
    assert!(sessions.begin(&request(by_id, 1, &[]), IDS, NOW).is_ok());
}

#[test]
fn the_epoch_goes_from_the_largest_to_1() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    sessions.sessions.get_mut(&id).unwrap().epoch = i32::MAX;
    let accepted = begin(&mut sessions, &request(id, i32::MAX, &[]));
    assert_eq!(accepted.context, SessionContext::Incremental { id, next_epoch: 1 });
    assert_eq!(
        finish(&mut sessions, &accepted, |_| row(0, b""), NOW).1.error,
        ErrorCode::None
    );
}

#[test]
fn partitions_are_added_changed_and_forgotten() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0, 1, 2], NOW);
    let change = forgetting(request(id, 1, &[(1, 50), (3, 70)]), &[0, 9]);
    let accepted = begin(&mut sessions, &change);
    assert_eq!(partitions(&accepted.requested), [(1, 50), (2, 0), (3, 70)]);
    assert_eq!(sessions.partitions, 3);
    let (sent, _) = finish(&mut sessions, &accepted, |_| row(0, b""), NOW);
    assert_eq!(sent, [3], "a new partition is always sent");
}

#[test]
fn a_session_without_partitions_ends() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    let accepted = begin(&mut sessions, &forgetting(request(id, 1, &[]), &[0]));
    assert_eq!(accepted.context, SessionContext::Sessionless);
    assert_eq!((sessions.sessions.len(), sessions.partitions), (0, 0));
}

#[test]
fn what_the_client_knows_is_left_out() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0, 1, 2, 3], NOW);
    let read = |partition| match partition {
        0 => row(0, b"records"),
        1 => row(5, b""),
        2 => PartitionData {
            log_start_offset: 7,
            ..row(0, b"")
        },
        _ => row(0, b""),
    };
    let accepted = begin(&mut sessions, &request(id, 1, &[]));
    let (sent, finished) = finish(&mut sessions, &accepted, read, NOW);
    assert_eq!((sent, finished.session_id), (vec![0, 1, 2], id));
    let accepted = begin(&mut sessions, &request(id, 2, &[]));
    let (sent, _) = finish(&mut sessions, &accepted, read, NOW);
    assert_eq!(sent, [0], "the others did not change; records are always sent");
}

#[test]
fn an_error_is_always_told_and_so_is_its_end() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    let failed = |_| PartitionData {
        error_code: ErrorCode::UnknownTopicId.code(),
        ..row(-1, b"")
    };
    for epoch in [1, 2] {
        let accepted = begin(&mut sessions, &request(id, epoch, &[]));
        assert_eq!(finish(&mut sessions, &accepted, failed, NOW).0, [0]);
    }
    for (epoch, expected) in [(3, vec![0]), (4, vec![])] {
        let accepted = begin(&mut sessions, &request(id, epoch, &[]));
        assert_eq!(finish(&mut sessions, &accepted, |_| row(0, b""), NOW).0, expected);
    }
}

#[test]
fn where_a_log_diverges_is_told_each_time_it_is_asked_for() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let mut first = request(0, 0, &[(0, 5)]);
    first.topics[0].partitions[0].last_fetched_epoch = 3;
    let accepted = begin(&mut sessions, &first);
    let diverges = |_| {
        let mut row = row(5, b"");
        (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) = (2, 4);
        row
    };
    let (_, finished) = finish(&mut sessions, &accepted, diverges, NOW);
    let accepted = begin(&mut sessions, &request(finished.session_id, 1, &[]));
    assert_eq!(accepted.requested[0].last_fetched_epoch, 3);
    assert_eq!(finish(&mut sessions, &accepted, diverges, NOW).0, [0]);
    let accepted = begin(&mut sessions, &request(finished.session_id, 2, &[]));
    assert!(finish(&mut sessions, &accepted, |_| row(5, b""), NOW).0.is_empty());
}

#[test]
fn a_partition_that_had_records_goes_to_the_end() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0, 1, 2], NOW);
    let accepted = begin(&mut sessions, &request(id, 1, &[]));
    // A partition that only changed keeps its rank.
    let read = |partition| {
        if partition == 0 {
            row(1, b"records")
        } else {
            row(2, b"")
        }
    };
    finish(&mut sessions, &accepted, read, NOW);
    let accepted = begin(&mut sessions, &request(id, 2, &[(0, 1)]));
    assert_eq!(partitions(&accepted.requested), [(1, 0), (2, 0), (0, 1)]);
    let (sent, _) = finish(&mut sessions, &accepted, |_| row(2, b""), NOW);
    assert_eq!(sent, [0]);
}

#[test]
fn an_answer_that_another_request_has_overtaken_is_an_error() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let id = open(&mut sessions, &[0], NOW);
    let slow = begin(&mut sessions, &request(id, 1, &[]));
    let quick = begin(&mut sessions, &request(id, 2, &[]));
    let (sent, finished) = finish(&mut sessions, &slow, |_| row(9, b"records"), NOW);
    assert!(sent.is_empty());
    assert_eq!(
        (finished.error, finished.session_id),
        (ErrorCode::InvalidFetchSessionEpoch, id)
    );
    let (sent, _) = finish(&mut sessions, &quick, |_| row(9, b""), NOW);
    assert_eq!(sent, [0], "a row that was not sent is not part of the client's state");
    let waiting = begin(&mut sessions, &request(id, 3, &[]));
    begin(&mut sessions, &request(id, -1, &[]));
    let (_, finished) = finish(&mut sessions, &waiting, |_| row(9, b""), NOW);
    assert_eq!(finished.error, ErrorCode::FetchSessionIdNotFound);
}

#[test]
fn without_a_slot_a_fetch_has_no_session() {
    let mut none = FetchSessions::new(0, 500_000, 1);
    assert_eq!(open(&mut none, &[0], NOW), 0);
    let mut one = FetchSessions::new(1, 500_000, 1);
    assert!(open(&mut one, &[0], NOW) > 0);
    assert_eq!(
        open(&mut one, &[0, 1, 2], NOW + EVICTION_MS),
        0,
        "a larger one does not push out a young one"
    );
}

#[test]
fn a_session_that_is_idle_for_long_gives_way_to_any() {
    let mut sessions = FetchSessions::new(1, 500_000, 1);
    let idle = open(&mut sessions, &[0, 1, 2], NOW);
    let id = open(&mut sessions, &[0], NOW + EVICTION_MS + 1);
    assert!(id > 0 && id != idle);
    assert_eq!((sessions.sessions.len(), sessions.partitions), (1, 1));
}

#[test]
fn an_old_session_gives_way_to_a_larger_one_only() {
    let mut sessions = FetchSessions::new(2, 500_000, 1);
    let later = NOW + EVICTION_MS + 1;
    for partitions in [&[0, 1][..], &[0, 1, 2]] {
        let id = open(&mut sessions, partitions, NOW);
        sessions.begin(&request(id, 1, &[]), NAMES, later).unwrap();
    }
    assert_eq!(open(&mut sessions, &[0, 1], later), 0, "as large is not larger");
    assert!(open(&mut sessions, &[0, 1, 2], later) > 0);
    assert_eq!(sessions.partitions, 6, "the smaller one is gone");
}

#[test]
fn partitions_of_all_sessions_together_are_bounded() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    sessions.partitions_max = 4;
    let id = open(&mut sessions, &[0, 1], NOW);
    assert_eq!(open(&mut sessions, &[0, 1, 2], NOW), 0);
    let growing = error(&mut sessions, &request(id, 1, &[(2, 0), (3, 0), (4, 0)]), NAMES);
    assert_eq!(growing, ErrorCode::FetchSessionIdNotFound);
    assert_eq!((sessions.sessions.len(), sessions.partitions), (0, 0));
}

#[test]
fn a_session_does_not_keep_the_request_in_memory() {
    let mut sessions = FetchSessions::new(10, 500_000, 1);
    let frame = Bytes::from(vec![b't'; 1000]);
    let mut fetch = request(0, 0, &[(0, 0)]);
    fetch.topics[0].topic = ByteString::try_from(frame.slice(..1)).unwrap();
    let accepted = begin(&mut sessions, &fetch);
    finish(&mut sessions, &accepted, |_| row(0, b""), NOW);
    drop((accepted, fetch));
    assert!(frame.is_unique());
}
