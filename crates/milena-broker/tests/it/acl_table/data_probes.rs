//! Probes of records, topics and transactions.

use std::time::Instant;

use bytes::Bytes;
use milena_wire::{
    Uuid,
    compression::Codec,
    messages::*,
    records::{Attributes, BatchOptions},
};

use super::bed::{Bed, GROUP, MISSING, PATIENCE, TOPIC, TRANSACTION};
use crate::client::{batch, batch_with, fetch_request, produce_request};

pub fn run(bed: &mut Bed, probe: &str) -> Option<String> {
    let topic = if probe.ends_with("missing") { MISSING } else { TOPIC };
    let topic_id = if probe.ends_with("missing") {
        Uuid::from_bytes([7; 16])
    } else {
        bed.topic_id
    };
    Some(match probe {
        "Produce" | "Produce missing" => bed.codes(&produce_request(topic, 0, batch(&["one"])), 12),
        "Produce id" | "Produce id missing" => {
            let mut request = produce_request("", 0, batch(&["one"]));
            request.topic_data[0].topic_id = topic_id;
            bed.codes(&request, 13)
        }
        "Produce both" => {
            let mut request = produce_request(TOPIC, 0, batch(&["one"]));
            let other = produce_request(MISSING, 0, batch(&["one"]));
            request.topic_data.extend(other.topic_data);
            bed.codes(&request, 12)
        }
        "Produce unacknowledged" => {
            let mut request = produce_request(TOPIC, 0, batch(&["one"]));
            request.acks = 0;
            bed.client.send(&request, 12);
            // The next response shows whether the connection is still there.
            bed.codes(&ApiVersionsRequest::default(), 0)
        }
        "Produce transactional" => produce_transactional(bed),
        "Produce transactional nameless" => {
            let records = transactional_batch((1, 0));
            bed.codes(&produce_request(TOPIC, 0, records), 11)
        }
        "Fetch" | "Fetch missing" => bed.codes(&fetch_request(topic, 0, 0), 12),
        "Fetch id" | "Fetch id missing" => {
            let mut request = fetch_request("", 0, 0);
            request.topics[0].topic_id = topic_id;
            bed.codes(&request, 17)
        }
        "Fetch follower" => {
            let mut request = fetch_request(TOPIC, 0, 0);
            request.replica_id = 77;
            bed.codes(&request, 11)
        }
        "ListOffsets" | "ListOffsets missing" => bed.codes(&list_offsets(topic), 9),
        "OffsetForLeaderEpoch" | "OffsetForLeaderEpoch missing" => bed.codes(&offset_for_leader_epoch(topic), 4),
        "Metadata" | "Metadata missing" => metadata(bed, Some(topic), Uuid::ZERO),
        "Metadata id" | "Metadata id missing" => metadata(bed, None, topic_id),
        "Metadata all" => metadata_all(bed),
        "Metadata creation" => metadata_creation(bed),
        "Metadata operations" => metadata_operations(bed),
        "DescribeTopicPartitions" | "DescribeTopicPartitions missing" => describe_partitions(bed, Some(topic)),
        "DescribeTopicPartitions all" => describe_partitions(bed, None),
        "DeleteRecords" | "DeleteRecords missing" => bed.codes(&delete_records(topic), 2),
        "DescribeProducers" | "DescribeProducers missing" => bed.codes(&describe_producers(topic), 0),
        probe => return transactions(bed, probe),
    })
}

fn transactions(bed: &mut Bed, probe: &str) -> Option<String> {
    Some(match probe {
        "InitProducerId" => bed.codes(&InitProducerIdRequest::default_without_id(), 4),
        "InitProducerId transactional" => {
            bed.begin_transaction();
            let request = InitProducerIdRequest {
                transactional_id: Some(TRANSACTION.into()),
                transaction_timeout_ms: 60_000,
                ..Default::default()
            };
            bed.codes(&request, 4)
        }
        "AddPartitionsToTxn" => add_partitions(bed, &[TOPIC]),
        "AddPartitionsToTxn missing" => add_partitions(bed, &[MISSING]),
        "AddPartitionsToTxn both" => add_partitions(bed, &[TOPIC, MISSING]),
        "AddPartitionsToTxn internal" => add_partitions(bed, &["__consumer_offsets"]),
        "AddPartitionsToTxn broker" => add_partitions_as_broker(bed),
        "AddOffsetsToTxn" => {
            let (producer_id, producer_epoch) = bed.begin_transaction();
            let request = AddOffsetsToTxnRequest {
                transactional_id: TRANSACTION.into(),
                producer_id,
                producer_epoch,
                group_id: GROUP.into(),
                ..Default::default()
            };
            bed.codes(&request, 3)
        }
        "TxnOffsetCommit" => txn_offset_commit(bed, TOPIC),
        "TxnOffsetCommit missing" => txn_offset_commit(bed, MISSING),
        "EndTxn" => end_txn(bed),
        "WriteTxnMarkers" => bed.codes(&write_txn_markers(), 1),
        "DescribeTransactions" => describe_transactions(bed),
        "ListTransactions" => {
            let producer = bed.begin_transaction();
            add_as_admin(bed, producer, TOPIC);
            let count = |response: &ListTransactionsResponse| {
                let ids = response.transaction_states.iter().map(|state| &*state.transactional_id);
                format!("listed={}", ids.filter(|id| *id == TRANSACTION).count())
            };
            bed.codes_and(&ListTransactionsRequest::default(), 0, count)
        }
        _ => return None,
    })
}

/// Requests whose defaults are not valid.
trait WithoutId {
    fn default_without_id() -> Self;
}

impl WithoutId for InitProducerIdRequest {
    fn default_without_id() -> Self {
        Self {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            ..Default::default()
        }
    }
}

fn transactional_batch((producer_id, producer_epoch): (i64, i16)) -> Bytes {
    let options = BatchOptions {
        producer_id,
        producer_epoch,
        base_sequence: 0,
        attributes: Attributes::default().with_transactional(true),
        ..BatchOptions::default()
    };
    batch_with(&["one"], Codec::None, options)
}

fn produce_transactional(bed: &mut Bed) -> String {
    let producer = bed.begin_transaction();
    add_as_admin(bed, producer, TOPIC);
    let mut request = produce_request(TOPIC, 0, transactional_batch(producer));
    request.transactional_id = Some(TRANSACTION.into());
    bed.codes(&request, 11)
}

fn add_request((producer_id, producer_epoch): (i64, i16), topics: &[&str]) -> AddPartitionsToTxnRequest {
    let topic = |name: &&str| add_partitions_to_txn_request::AddPartitionsToTxnTopic {
        name: (*name).into(),
        partitions: vec![0],
        ..Default::default()
    };
    AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: TRANSACTION.into(),
        v3_and_below_producer_id: producer_id,
        v3_and_below_producer_epoch: producer_epoch,
        v3_and_below_topics: topics.iter().map(topic).collect(),
        ..Default::default()
    }
}

fn add_as_admin(bed: &mut Bed, producer: (i64, i16), topic: &str) {
    let request = add_request(producer, &[topic]);
    loop {
        let added = bed.ask(&request, 3);
        match added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code {
            0 => return,
            // The previous transaction is still ending.
            51 => {}
            _ => panic!("{added:?}"),
        }
    }
}

fn add_partitions(bed: &mut Bed, topics: &[&str]) -> String {
    let producer = bed.begin_transaction();
    bed.codes(&add_request(producer, topics), 3)
}

/// The version of brokers, which only verifies.
fn add_partitions_as_broker(bed: &mut Bed) -> String {
    let producer = bed.begin_transaction();
    add_as_admin(bed, producer, TOPIC);
    let request = add_request(producer, &[TOPIC]);
    let transaction = add_partitions_to_txn_request::AddPartitionsToTxnTransaction {
        transactional_id: TRANSACTION.into(),
        producer_id: producer.0,
        producer_epoch: producer.1,
        verify_only: true,
        topics: request.v3_and_below_topics,
        ..Default::default()
    };
    let request = AddPartitionsToTxnRequest {
        transactions: vec![transaction],
        ..Default::default()
    };
    bed.codes(&request, 4)
}

fn txn_offset_commit(bed: &mut Bed, topic: &str) -> String {
    let (producer_id, producer_epoch) = bed.begin_transaction();
    let request = AddOffsetsToTxnRequest {
        transactional_id: TRANSACTION.into(),
        producer_id,
        producer_epoch,
        group_id: GROUP.into(),
        ..Default::default()
    };
    while bed.ask(&request, 3).error_code == 51 {}
    let partition = txn_offset_commit_request::TxnOffsetCommitRequestPartition {
        committed_offset: 1,
        ..Default::default()
    };
    let request = TxnOffsetCommitRequest {
        transactional_id: TRANSACTION.into(),
        group_id: GROUP.into(),
        producer_id,
        producer_epoch,
        topics: vec![txn_offset_commit_request::TxnOffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    };
    bed.codes(&request, 3)
}

fn end_txn(bed: &mut Bed) -> String {
    let producer = bed.begin_transaction();
    add_as_admin(bed, producer, TOPIC);
    let request = EndTxnRequest {
        transactional_id: TRANSACTION.into(),
        producer_id: producer.0,
        producer_epoch: producer.1,
        committed: true,
        ..Default::default()
    };
    bed.codes(&request, 3)
}

fn write_txn_markers() -> WriteTxnMarkersRequest {
    let marker = write_txn_markers_request::WritableTxnMarker {
        producer_id: 999_999,
        topics: vec![write_txn_markers_request::WritableTxnMarkerTopic {
            name: MISSING.into(),
            partition_indexes: vec![0],
            ..Default::default()
        }],
        ..Default::default()
    };
    WriteTxnMarkersRequest {
        markers: vec![marker],
        ..Default::default()
    }
}

fn describe_transactions(bed: &mut Bed) -> String {
    let producer = bed.begin_transaction();
    add_as_admin(bed, producer, TOPIC);
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![TRANSACTION.into()],
        ..Default::default()
    };
    bed.codes_and(&request, 0, |response| {
        let topics = response.transaction_states.iter().map(|state| state.topics.len());
        format!("topics={}", topics.sum::<usize>())
    })
}

fn list_offsets(topic: &str) -> ListOffsetsRequest {
    let partition = list_offsets_request::ListOffsetsPartition {
        timestamp: -1,
        ..Default::default()
    };
    ListOffsetsRequest {
        replica_id: -1,
        topics: vec![list_offsets_request::ListOffsetsTopic {
            name: topic.into(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn offset_for_leader_epoch(topic: &str) -> OffsetForLeaderEpochRequest {
    OffsetForLeaderEpochRequest {
        replica_id: -1,
        topics: vec![offset_for_leader_epoch_request::OffsetForLeaderTopic {
            topic: topic.into(),
            partitions: vec![offset_for_leader_epoch_request::OffsetForLeaderPartition {
                current_leader_epoch: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn metadata_request(name: Option<&'static str>, topic_id: Uuid) -> MetadataRequest {
    MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic {
            name: name.map(Into::into),
            topic_id,
            ..Default::default()
        }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    }
}

/// Also whether the response has the name and the id of the topic.
fn metadata(bed: &mut Bed, name: Option<&'static str>, topic_id: Uuid) -> String {
    bed.codes_and(&metadata_request(name, topic_id), 12, |response| {
        let topic = &response.topics[0];
        let (name, id) = (topic.name.is_some(), !topic.topic_id.is_zero());
        format!("name={name} id={id} brokers={}", response.brokers.len())
    })
}

fn metadata_all(bed: &mut Bed) -> String {
    let request = MetadataRequest {
        topics: None,
        ..Default::default()
    };
    bed.codes_and(&request, 12, |response| {
        let is_listed = response.topics.iter().any(|topic| topic.name.as_deref() == Some(TOPIC));
        format!("listed={is_listed}")
    })
}

/// Whether a missing topic may be created. Kafka's first response does not have it yet.
fn metadata_creation(bed: &mut Bed) -> String {
    let request = MetadataRequest {
        allow_auto_topic_creation: true,
        ..metadata_request(Some(MISSING), Uuid::ZERO)
    };
    let Some(response) = bed.respond(&request, 12) else {
        return "closed".to_owned();
    };
    match response.topics[0].error_code {
        0 | 3 | 5 => {
            bed.delete_created();
            "created".to_owned()
        }
        code => code.to_string(),
    }
}

fn metadata_operations(bed: &mut Bed) -> String {
    let request = MetadataRequest {
        include_cluster_authorized_operations: true,
        include_topic_authorized_operations: true,
        ..metadata_request(Some(TOPIC), Uuid::ZERO)
    };
    bed.codes_and(&request, 10, |response| {
        let topic = response.topics[0].topic_authorized_operations;
        format!("cluster={} topic={topic}", response.cluster_authorized_operations)
    })
}

impl Bed {
    /// The administrator deletes a topic that a probe has created, when it is there.
    fn delete_created(&mut self) {
        let request = DeleteTopicsRequest {
            topics: vec![delete_topics_request::DeleteTopicState {
                name: Some(MISSING.into()),
                ..Default::default()
            }],
            timeout_ms: 30_000,
            ..Default::default()
        };
        let began = Instant::now();
        while self.ask(&request, 6).responses[0].error_code != 0 {
            assert!(began.elapsed() < PATIENCE, "the topic was not created");
        }
        // Until no broker has it any more.
        let request = metadata_request(Some(MISSING), Uuid::ZERO);
        while self.ask(&request, 12).topics[0].error_code == 0 {
            assert!(began.elapsed() < PATIENCE, "the topic was not deleted");
        }
    }
}

fn describe_partitions(bed: &mut Bed, topic: Option<&str>) -> String {
    let topic = topic.map(|name| describe_topic_partitions_request::TopicRequest {
        name: name.into(),
        ..Default::default()
    });
    let request = DescribeTopicPartitionsRequest {
        topics: topic.into_iter().collect(),
        response_partition_limit: 2_000,
        ..Default::default()
    };
    let is_list = request.topics.is_empty();
    bed.codes_and(&request, 0, |response| {
        let topic = response
            .topics
            .iter()
            .find(|topic| topic.name.as_deref() == Some(TOPIC));
        match (is_list, topic, response.topics.first()) {
            (true, topic, _) => format!("listed={}", topic.is_some()),
            (false, _, Some(topic)) => {
                let operations = topic.topic_authorized_operations;
                format!("id={} operations={operations}", !topic.topic_id.is_zero())
            }
            (false, _, None) => "nothing".to_owned(),
        }
    })
}

fn delete_records(topic: &str) -> DeleteRecordsRequest {
    DeleteRecordsRequest {
        topics: vec![delete_records_request::DeleteRecordsTopic {
            name: topic.into(),
            partitions: vec![delete_records_request::DeleteRecordsPartition::default()],
            ..Default::default()
        }],
        timeout_ms: 30_000,
        ..Default::default()
    }
}

fn describe_producers(topic: &str) -> DescribeProducersRequest {
    DescribeProducersRequest {
        topics: vec![describe_producers_request::TopicRequest {
            name: topic.into(),
            partition_indexes: vec![0],
            ..Default::default()
        }],
        ..Default::default()
    }
}
