//! A panic while a request is served is a bug of the broker. It costs the one who asked an error, and nobody anything
//! else.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    message::{Request, Response},
    messages::*,
};

use super::{Handled, outgoing};
use crate::net::{Incoming, Outgoing};

const CODE: i16 = ErrorCode::UnknownServerError.code();

/// Serves a request such that a panic, now or later, becomes an answer; if the API has no place for an error, the end
/// of the connection.
pub(super) fn contained(request: &Incoming, begin: impl FnOnce() -> Handled) -> Handled {
    match catch_unwind(AssertUnwindSafe(begin)) {
        Ok(Handled::Later(answer)) => Handled::Later(Box::pin(Contained {
            request: request.clone(),
            answer,
        })),
        Ok(handled) => handled,
        Err(panic) => match after_panic(request, &*panic) {
            Some(answer) => Handled::Reply(answer),
            None => Handled::Close(format!("{} panicked", request.key)),
        },
    }
}

/// An answer that comes later and may panic on the way.
struct Contained {
    request: Incoming,
    answer: Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>,
}

impl Future for Contained {
    type Output = Option<Outgoing>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.answer.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| Poll::Ready(after_panic(&self.request, &*panic)))
    }
}

/// Tells of the panic, and what to answer.
fn after_panic(request: &Incoming, panic: &(dyn Any + Send)) -> Option<Outgoing> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let panic = text.unwrap_or("without a text");
    tracing::error!(api = %request.key, version = request.version, panic, "a request made the broker panic");
    // Reading the request again must not end what has just been saved.
    catch_unwind(AssertUnwindSafe(|| error_answer(request))).ok().flatten()
}

/// The error in the form of the API: at the top where there is a place for it, else for each thing that was asked for.
fn error_answer(request: &Incoming) -> Option<Outgoing> {
    match request.key {
        ApiKey::Produce => encode(request, produce),
        ApiKey::Fetch => encode(request, fetch),
        ApiKey::ListOffsets => encode(request, list_offsets),
        ApiKey::Metadata => encode(request, metadata),
        ApiKey::CreateTopics => encode(request, create_topics),
        ApiKey::DeleteTopics => encode(request, delete_topics),
        ApiKey::InitProducerId => encode(request, |_: InitProducerIdRequest| {
            Some(InitProducerIdResponse {
                error_code: CODE,
                producer_id: -1,
                producer_epoch: -1,
                ..Default::default()
            })
        }),
        ApiKey::DescribeCluster => encode(request, |_: DescribeClusterRequest| {
            Some(DescribeClusterResponse {
                error_code: CODE,
                ..Default::default()
            })
        }),
        ApiKey::ListConfigResources => encode(request, |_: ListConfigResourcesRequest| {
            Some(ListConfigResourcesResponse {
                error_code: CODE,
                ..Default::default()
            })
        }),
        ApiKey::AlterPartitionReassignments => encode(request, |_: AlterPartitionReassignmentsRequest| {
            Some(AlterPartitionReassignmentsResponse {
                error_code: CODE,
                ..Default::default()
            })
        }),
        ApiKey::ListPartitionReassignments => encode(request, |_: ListPartitionReassignmentsRequest| {
            Some(ListPartitionReassignmentsResponse {
                error_code: CODE,
                ..Default::default()
            })
        }),
        _ => None,
    }
}

fn encode<R, A>(request: &Incoming, answer: impl FnOnce(R) -> Option<A>) -> Option<Outgoing>
where
    R: Request<Response = A>,
    A: Response,
{
    let body = request.body().ok()?;
    outgoing(request, answer(body)?, vec![])
}

fn produce(request: ProduceRequest) -> Option<ProduceResponse> {
    if request.acks == 0 {
        // Who wants no answer can only be told by the end of the connection.
        return None;
    }
    let topics = request
        .topic_data
        .into_iter()
        .map(|topic| produce_response::TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: topic
                .partition_data
                .iter()
                .map(|partition| produce_response::PartitionProduceResponse {
                    index: partition.index,
                    error_code: CODE,
                    base_offset: -1,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    Some(ProduceResponse {
        responses: topics.collect(),
        ..Default::default()
    })
}

fn fetch(request: FetchRequest) -> Option<FetchResponse> {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| fetch_response::FetchableTopicResponse {
            topic: topic.topic,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .iter()
                .map(|partition| super::fetch::failed(partition.partition, ErrorCode::UnknownServerError))
                .collect(),
            ..Default::default()
        });
    Some(FetchResponse {
        error_code: CODE,
        responses: topics.collect(),
        ..Default::default()
    })
}

fn list_offsets(request: ListOffsetsRequest) -> Option<ListOffsetsResponse> {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| list_offsets_response::ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|partition| list_offsets_response::ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    error_code: CODE,
                    timestamp: -1,
                    offset: -1,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    Some(ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

fn metadata(request: MetadataRequest) -> Option<MetadataResponse> {
    let topics = request.topics.unwrap_or_default().into_iter();
    Some(MetadataResponse {
        topics: topics
            .map(|topic| metadata_response::MetadataResponseTopic {
                error_code: CODE,
                // Before version 12 there is no topic without a name.
                name: Some(topic.name.unwrap_or_default()),
                topic_id: topic.topic_id,
                ..Default::default()
            })
            .collect(),
        error_code: CODE,
        ..Default::default()
    })
}

fn create_topics(request: CreateTopicsRequest) -> Option<CreateTopicsResponse> {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| create_topics_response::CreatableTopicResult {
            name: topic.name,
            error_code: CODE,
            ..Default::default()
        });
    Some(CreateTopicsResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

fn delete_topics(request: DeleteTopicsRequest) -> Option<DeleteTopicsResponse> {
    let named = request.topics.into_iter().map(|topic| (topic.name, topic.topic_id));
    let older = request
        .topic_names
        .into_iter()
        .map(|name| (Some(name), Default::default()));
    let results = named
        .chain(older)
        .map(|(name, topic_id)| delete_topics_response::DeletableTopicResult {
            name,
            topic_id,
            error_code: CODE,
            ..Default::default()
        });
    Some(DeleteTopicsResponse {
        responses: results.collect(),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use milena_wire::frame;

    use super::*;

    fn frame_of<R: Request>(request: &R, version: i16) -> Incoming {
        let bytes = frame::encode_request(request, version, 77, None).unwrap().into_bytes();
        Incoming::parse(bytes.slice(frame::LENGTH_SIZE..), None).unwrap()
    }

    fn decoded<A: Response>(answer: Outgoing, version: i16) -> A {
        let bytes = answer.into_bytes().slice(frame::LENGTH_SIZE..);
        let (correlation_id, response) = frame::decode_response(&bytes, version).unwrap();
        assert_eq!(correlation_id, 77);
        response
    }

    fn panics<R: Request>(request: &R, version: i16) -> Option<R::Response> {
        match contained(&frame_of(request, version), || panic!("as the test wants it")) {
            Handled::Reply(answer) => Some(decoded(answer, version)),
            Handled::Close(_) => None,
            _ => panic!("neither an answer nor the end"),
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
    fn a_panic_is_answered_for_each_thing_that_was_asked_for() {
        for version in 3..=12 {
            let produced = panics(&a_produce(-1), version).unwrap();
            let row = &produced.responses[0].partition_responses[0];
            assert_eq!((row.index, row.error_code), (3, CODE), "version {version}");
        }
        let delete = DeleteTopicsRequest {
            topic_names: vec!["letters".into()],
            ..Default::default()
        };
        assert_eq!(panics(&delete, 5).unwrap().responses[0].error_code, CODE);
        let fetch = FetchRequest {
            topics: vec![fetch_request::FetchTopic {
                partitions: vec![Default::default()],
                ..Default::default()
            }],
            ..Default::default()
        };
        for version in 4..=18 {
            let fetched = panics(&fetch, version).unwrap();
            assert_eq!(fetched.responses[0].partitions[0].error_code, CODE);
            assert_eq!(fetched.error_code, if version < 7 { 0 } else { CODE });
        }
    }

    #[test]
    fn every_answer_can_be_encoded_in_every_version() {
        fn sweep<R: Request + Default>() {
            let versions = R::KEY.broker_versions().unwrap();
            for version in versions.min.max(R::VERSIONS.min)..=versions.max {
                assert!(
                    panics(&R::default(), version).is_some(),
                    "{} version {version}",
                    R::NAME
                );
            }
        }
        sweep::<FetchRequest>();
        sweep::<ListOffsetsRequest>();
        sweep::<MetadataRequest>();
        sweep::<CreateTopicsRequest>();
        sweep::<DeleteTopicsRequest>();
        sweep::<InitProducerIdRequest>();
        sweep::<DescribeClusterRequest>();
        sweep::<ListConfigResourcesRequest>();
        sweep::<AlterPartitionReassignmentsRequest>();
        sweep::<ListPartitionReassignmentsRequest>();
    }

    #[test]
    fn a_panic_ends_the_connection_where_no_answer_could_tell() {
        assert!(panics(&a_produce(0), 9).is_none(), "no answer is wanted");
        assert!(panics(&ApiVersionsRequest::default(), 3).is_none());
    }

    #[tokio::test]
    async fn a_panic_while_waiting_is_answered_too() {
        let request = frame_of(&a_produce(-1), 12);
        let handled = contained(&request, || {
            Handled::Later(Box::pin(async {
                tokio::task::yield_now().await;
                panic!("as the test wants it")
            }))
        });
        let Handled::Later(answer) = handled else {
            panic!("not later");
        };
        let produced: ProduceResponse = decoded(answer.await.unwrap(), 12);
        assert_eq!(produced.responses[0].partition_responses[0].error_code, CODE);
    }
}
