//! Every moment at which a request can panic.

use std::panic::resume_unwind;

use milena_wire::{
    frame,
    message::Response,
    messages::{
        EndTxnRequest, EndTxnResponse, JoinGroupRequest, JoinGroupResponse, MetadataRequest, ProduceRequest,
        ProduceResponse, produce_request,
    },
};

use super::*;

const CODE: i16 = ErrorCode::UnknownServerError.code();

fn frame_of<R: Request>(request: &R, version: i16) -> InboundRequest {
    let bytes = frame::encode_request(request, version, 77, None).unwrap().into_bytes();
    InboundRequest::parse(bytes.slice(frame::LENGTH_SIZE..), None).unwrap()
}

fn decoded<R: Response>(response: OutboundResponse, version: i16) -> R {
    let bytes = response.into_bytes().slice(frame::LENGTH_SIZE..);
    let (correlation_id, response) = frame::decode_response(&bytes, version).unwrap();
    assert_eq!(correlation_id, 77);
    response
}

fn contained<R: Request>(
    request: &InboundRequest,
    begin: impl FnOnce() -> Outcome<R::Response>,
) -> Outcome<OutboundResponse>
where
    R::Response: Send + 'static,
{
    contain::<R, R::Response>(request, catch_unwind(AssertUnwindSafe(begin)))
}

fn panics<R: Request>(request: &R, version: i16) -> Option<R::Response>
where
    R::Response: Send + 'static,
{
    match contained::<R>(&frame_of(request, version), || {
        resume_unwind(Box::new("as the test wants it"))
    }) {
        Outcome::Ready(response) => Some(decoded(response, version)),
        Outcome::Close(_) => None,
        _ => panic!("neither a response nor the end"),
    }
}

fn a_produce(acks: i16) -> ProduceRequest {
    let partition = produce_request::PartitionProduceData {
        index: 3,
        records: Some(bytes::Bytes::new()),
        ..Default::default()
    };
    ProduceRequest {
        acks,
        topic_data: vec![produce_request::TopicProduceData {
            name: "letters".into(),
            partition_data: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn a_panic_is_reported_for_each_partition_that_the_request_names() {
    for version in 3..=12 {
        let produced = panics(&a_produce(-1), version).unwrap();
        let row = &produced.responses[0].partition_responses[0];
        assert_eq!((row.index, row.error_code), (3, CODE), "version {version}");
    }
}

#[test]
fn a_panic_ends_the_connection_where_no_response_could_report_it() {
    assert!(panics(&a_produce(0), 9).is_none(), "the client reads no response");
    let all_topics = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    assert!(panics(&all_topics, 12).is_none());
    assert_eq!(panics(&all_topics, 13).unwrap().error_code, CODE);
}

#[tokio::test]
async fn a_panic_while_waiting_is_reported_too() {
    let request = frame_of(&a_produce(-1), 12);
    let handled = contained::<ProduceRequest>(&request, || {
        Outcome::Later(Box::pin(async {
            tokio::task::yield_now().await;
            panic!("as the test wants it")
        }))
    });
    let Outcome::Later(response) = handled else {
        panic!("not later");
    };
    let produced: ProduceResponse = decoded(response.await.unwrap(), 12);
    assert_eq!(produced.responses[0].partition_responses[0].error_code, CODE);
}

#[tokio::test]
async fn a_panic_before_a_request_can_begin_is_reported_too() {
    let request = frame_of(&EndTxnRequest::default(), 4);
    let handled = contained::<EndTxnRequest>(&request, || {
        Outcome::First(Box::pin(async {
            tokio::task::yield_now().await;
            panic!("as the test wants it")
        }))
    });
    let Outcome::First(begin) = handled else {
        panic!("not first");
    };
    let Outcome::Ready(response) = begin.await else {
        panic!("no response");
    };
    assert_eq!(decoded::<EndTxnResponse>(response, 4).error_code, CODE);
}

#[tokio::test]
async fn so_is_one_that_comes_when_it_has_begun_at_last() {
    let request = frame_of(&JoinGroupRequest::default(), 9);
    let later = || Outcome::Later(Box::pin(async { panic!("as the test wants it") }));
    let handled = contained::<JoinGroupRequest>(&request, || Outcome::First(Box::pin(async move { later() })));
    let Outcome::First(begin) = handled else {
        panic!("not first");
    };
    let Outcome::Later(response) = begin.await else {
        panic!("not later");
    };
    let joined: JoinGroupResponse = decoded(response.await.unwrap(), 9);
    assert_eq!(joined.error_code, CODE);
}
