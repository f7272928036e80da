//! Requests and responses as they travel.

use bytes::{Buf, Bytes};
use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    frame::{self, Frame, RequestFrame, RequestFrameError},
    message::Message,
    messages::{
        ApiVersionsRequest, ApiVersionsResponse, FetchResponse, HeartbeatRequest, ProduceRequest, ProduceResponse,
        fetch_response, produce_request,
    },
};

/// The bytes after the length, which must be right.
fn unframe(frame: Frame) -> Bytes {
    let mut bytes = frame.into_bytes();
    let length = frame::frame_length(bytes.split_to(4)[..].try_into().unwrap(), 1 << 20).unwrap();
    assert_eq!(length, bytes.len());
    bytes
}

#[test]
fn a_request_arrives_as_it_was_sent() {
    let client: ByteString = "client".into();
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: 7,
        member_id: "m".into(),
        ..HeartbeatRequest::default()
    };
    // Version 3 has the old header, 4 the flexible one.
    for version in [3, 4] {
        let frame = frame::encode_request(&request, version, 42, Some(&client)).unwrap();
        let parsed = RequestFrame::parse(unframe(frame)).unwrap();
        assert_eq!(
            (parsed.key, parsed.version, parsed.correlation_id),
            (ApiKey::Heartbeat, version, 42)
        );
        assert_eq!(parsed.client_id.as_ref(), Some(&client));
        assert_eq!(parsed.body::<HeartbeatRequest>(), Ok(request.clone()));
    }
}

#[test]
fn the_answer_to_api_versions_never_has_a_flexible_header() {
    let frame = unframe(frame::encode_response(&ApiVersionsResponse::default(), 4, 9).unwrap());
    assert_eq!(&frame[..4], [0, 0, 0, 9]);
    assert_eq!(frame.slice(4..), ApiVersionsResponse::default().encode(4).unwrap());
    assert_eq!(frame::correlation_id(&frame), Ok(9));
    assert_eq!(
        frame::decode_response(&frame, 4),
        Ok((9, ApiVersionsResponse::default()))
    );
}

#[test]
fn a_version_from_the_future_still_has_a_readable_header() {
    let mut frame = unframe(frame::encode_request(&ApiVersionsRequest::default(), 4, 1, None).unwrap()).to_vec();
    frame[3] = 99;
    let parsed = RequestFrame::parse(frame.into()).unwrap();
    assert_eq!(
        (parsed.key, parsed.version, parsed.correlation_id),
        (ApiKey::ApiVersions, 99, 1)
    );
    assert!(parsed.body::<ApiVersionsRequest>().is_err());
}

#[test]
fn an_unknown_api_is_named() {
    let error = RequestFrame::parse(Bytes::from_static(&[0, 4, 0, 1, 0, 0, 0, 5, 0xff, 0xff])).unwrap_err();
    let expected = RequestFrameError::UnknownApi {
        api_key: 4,
        version: 1,
        correlation_id: 5,
    };
    assert_eq!(error, expected);
}

fn produce(records: &Bytes) -> ProduceRequest {
    let partition = |index| produce_request::PartitionProduceData {
        index,
        records: Some(records.clone()),
        ..Default::default()
    };
    ProduceRequest {
        acks: -1,
        topic_data: vec![produce_request::TopicProduceData {
            name: "topic".into(),
            partition_data: vec![partition(0), partition(1)],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn large_records_are_passed_along_by_reference() {
    let records = Bytes::from(vec![7; 100_000]);
    let frame = frame::encode_request(&produce(&records), 12, 1, None).unwrap();
    let shared = frame
        .segments()
        .filter(|segment| segment.as_ptr() == records.as_ptr())
        .count();
    assert_eq!(shared, 2);
    let joined = unframe(frame.clone());
    let body: ProduceRequest = RequestFrame::parse(joined.clone()).unwrap().body().unwrap();
    assert_eq!(body, produce(&records));

    // Read in odd pieces, as a socket takes it, the frame is the same.
    let mut rest = frame;
    let mut pieces = vec![];
    while rest.has_remaining() {
        let step = rest.chunk().len().min(777);
        pieces.extend_from_slice(&rest.chunk()[..step]);
        rest.advance(step);
    }
    assert_eq!(&pieces[4..], &joined[..]);
}

#[test]
fn one_allocation_holds_a_frame() {
    let records = Bytes::from(vec![7; 500]);
    let request = produce(&records);
    let allocated = allocation_counter::measure(|| drop(request.encode(12)));
    assert_eq!(allocated.count_total, 1);
}

#[test]
fn decoded_fields_share_the_frame() {
    let records = Bytes::from(vec![7; 50_000]);
    let response = FetchResponse {
        responses: vec![fetch_response::FetchableTopicResponse {
            topic: "topic".into(),
            partitions: vec![fetch_response::PartitionData {
                records: Some(records),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let bytes = response.encode(12).unwrap();
    // The first clone of a buffer allocates its reference count, which is not to be measured here.
    let _shared = bytes.clone();
    let mut decoded = None;
    let allocated = allocation_counter::measure(|| decoded = FetchResponse::decode(&bytes, 12).ok());
    assert_eq!(decoded, Some(response));
    assert_eq!(allocated.count_total, 2, "one array of topics, one of partitions");
}

#[test]
fn bytes_after_a_message_are_ignored_in_frames_and_refused_alone() {
    let mut body = ProduceResponse::default().encode(3).unwrap().to_vec();
    body.push(0);
    let body = Bytes::from(body);
    assert!(ProduceResponse::decode(&body, 3).is_err());
    let frame: Bytes = [&[0, 0, 0, 1], &body[..]].concat().into();
    assert_eq!(frame::decode_response(&frame, 3), Ok((1, ProduceResponse::default())));
}
