//! The metrics of a node at one moment.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytestring::ByteString;
use milena_machines::{
    group::{GroupReply, GroupRequest, VisibleTopics},
    transaction::{TransactionReply, TransactionRequest},
};
use milena_wire::{errors::ErrorCode, messages::offset_fetch_request::OffsetFetchRequestGroup};

use super::{PartitionMetrics, listeners::listeners, quotas, text::Text};
use crate::{
    coordinators::{PendingReply, RequestSource},
    handlers::APIS,
    net::Peer,
    node::Node,
    partition::Partition,
    topics::Topic,
};

/// The version of requests to coordinators: the last of OffsetFetch that names topics.
const VERSION: i16 = 9;

/// Renders all metrics in the text format of Prometheus.
pub(super) async fn render(node: &Arc<Node>) -> String {
    let mut text = Text::default();
    requests(node, &mut text);
    network(node, &mut text);
    listeners(node, &mut text);
    let topics: Vec<Arc<Topic>> = node.topics().iter().cloned().collect();
    authorizer(node, &mut text);
    traffic(&topics, &mut text);
    logs(&topics, &mut text);
    groups(node, &mut text).await;
    transactions(node, &mut text).await;
    quotas::render(node, &mut text);
    // Those of the whole process, which may have several brokers.
    text.append(&milena_invariant::to_prometheus());
    text.finish()
}

fn requests(node: &Node, text: &mut Text) {
    const REQUESTS: &str = "kafka_network_requestmetrics_requests_total";
    const ERRORS: &str = "kafka_network_requestmetrics_errors_total";
    const TOTAL_TIME: &str = "kafka_network_requestmetrics_totaltimems";
    let apis = || {
        let apis = APIS.iter().map(|api| api.key);
        apis.filter_map(|key| {
            let metrics = node.metrics.request(key)?;
            let total_time = metrics.total_time.snapshot();
            (total_time.count() > 0).then_some((key, metrics, total_time))
        })
    };
    text.family(REQUESTS, "counter", "Requests that have ended, by API.");
    for (key, _, total_time) in apis() {
        text.sample(REQUESTS, &[("request", &key)], total_time.count());
    }
    text.family(ERRORS, "counter", "Error codes in responses, by API.");
    for (key, metrics, _) in apis() {
        for (error, count) in metrics.errors() {
            text.sample(ERRORS, &[("request", &key), ("error", &error.name())], count);
        }
    }
    let help = "Time from a request to the end of its response, in milliseconds, by API.";
    text.family(TOTAL_TIME, "histogram", help);
    for (key, _, total_time) in apis() {
        text.histogram_ms(TOTAL_TIME, ("request", &key), &total_time);
    }
}

fn network(node: &Node, text: &mut Text) {
    let metrics = &node.metrics;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let closed = load(&metrics.connections_closed);
    let created = load(&metrics.connections_created);
    for (name, help, value) in [
        ("connection_creation_total", "Connections that were accepted.", created),
        ("connection_close_total", "Connections that have ended.", closed),
        (
            "incoming_byte_total",
            "Bytes of requests.",
            load(&metrics.incoming_bytes),
        ),
        (
            "outgoing_byte_total",
            "Bytes of responses.",
            load(&metrics.outgoing_bytes),
        ),
    ] {
        text.single(
            &format!("kafka_server_socket_server_metrics_{name}"),
            "counter",
            help,
            value,
        );
    }
    text.single(
        "milena_connections",
        "gauge",
        "Open connections.",
        created.saturating_sub(closed),
    );
    text.single("kafka_brokers", "gauge", "Brokers of the cluster.", 1);
}

fn authorizer(node: &Node, text: &mut Text) {
    const DECISIONS: &str = "milena_authorizer_decisions_total";
    let Some(authorizer) = &node.authorizer else {
        return;
    };
    let help = "Decisions of the authorizer, by operation, type of the resource and result.";
    text.family(DECISIONS, "counter", help);
    for (operation, resource_type, allowed, denied) in authorizer.counts.all() {
        for (result, count) in [("allowed", allowed), ("denied", denied)] {
            let labels: [(&str, &dyn std::fmt::Display); 3] = [
                ("operation", &operation),
                ("resource_type", &resource_type),
                ("result", &result),
            ];
            text.sample(DECISIONS, &labels, count);
        }
    }
    let count = authorizer.acls().len();
    text.single("milena_authorizer_acls", "gauge", "ACLs of the cluster.", count);
}

fn traffic(topics: &[Arc<Topic>], text: &mut Text) {
    type Counter = fn(&PartitionMetrics) -> &AtomicU64;
    let counters: [(&str, &str, Counter); 3] = [
        ("bytesin_total", "Bytes of appended batches, by topic.", |metrics| {
            &metrics.bytes_in
        }),
        ("bytesout_total", "Bytes of fetched batches, by topic.", |metrics| {
            &metrics.bytes_out
        }),
        ("messagesin_total", "Appended records, by topic.", |metrics| {
            &metrics.messages_in
        }),
    ];
    for (name, help, counter) in counters {
        let name = format!("kafka_server_brokertopicmetrics_{name}");
        text.family(&name, "counter", help);
        for topic in topics {
            let partitions = topic.partitions.iter();
            let sum: u64 = partitions
                .map(|partition| counter(&partition.metrics).load(Ordering::Relaxed))
                .sum();
            text.sample(&name, &[("topic", &topic.name)], sum);
        }
    }
}

fn logs(topics: &[Arc<Topic>], text: &mut Text) {
    text.family("kafka_topic_partitions", "gauge", "Partitions of a topic.");
    for topic in topics {
        text.sample(
            "kafka_topic_partitions",
            &[("topic", &topic.name)],
            topic.partitions.len(),
        );
    }
    let offline = topics.iter().flat_map(|topic| &topic.partitions);
    let offline = offline.filter(|partition| !partition.is_online()).count();
    let partitions: usize = topics.iter().map(|topic| topic.partitions.len()).sum();
    let help = "Partitions of this broker.";
    text.single("kafka_server_replicamanager_partitioncount", "gauge", help, partitions);
    let help = "Partitions whose log cannot be opened.";
    text.single(
        "kafka_server_replicamanager_offlinereplicacount",
        "gauge",
        help,
        offline,
    );
    type Gauge = fn(&Partition) -> i64;
    let gauges: [(&str, &str, Gauge); 5] = [
        ("kafka_log_log_size", "Bytes of a log.", |partition| {
            i64::try_from(partition.log.view().size()).unwrap_or(i64::MAX)
        }),
        ("kafka_log_log_logstartoffset", "First offset of a log.", |partition| {
            partition.log.view().log_start_offset
        }),
        (
            "kafka_log_log_logendoffset",
            "Offset of the next record of a log.",
            |partition| partition.log.view().log_end_offset,
        ),
        (
            "kafka_topic_partition_current_offset",
            "High watermark of a partition.",
            |partition| partition.log.view().high_watermark,
        ),
        (
            "kafka_topic_partition_oldest_offset",
            "First offset of a partition.",
            |partition| partition.log.view().log_start_offset,
        ),
    ];
    for (name, help, gauge) in gauges {
        text.family(name, "gauge", help);
        for partition in topics.iter().flat_map(|topic| &topic.partitions) {
            let labels: [(&str, &dyn std::fmt::Display); 2] =
                [("topic", &partition.topic), ("partition", &partition.index)];
            text.sample(name, &labels, gauge(partition));
        }
    }
}

/// A group with its members and committed offsets.
struct Group {
    id: ByteString,
    kind: ByteString,
    state: ByteString,
    members: usize,
    offsets: Vec<CommittedOffset>,
}

struct CommittedOffset {
    topic: ByteString,
    partition: i32,
    offset: i64,
    /// `None` if the partition no longer exists.
    lag: Option<i64>,
}

async fn groups(node: &Arc<Node>, text: &mut Text) {
    const STATES: &str = "milena_groups";
    const MEMBERS: &str = "kafka_consumergroup_members";
    const OFFSET: &str = "kafka_consumergroup_current_offset";
    const LAG: &str = "kafka_consumergroup_lag";
    let groups = described_groups(node).await;
    let help = "Groups of this broker's coordinator.";
    text.single(
        "kafka_coordinator_group_groupmetadatamanager_numgroups",
        "gauge",
        help,
        groups.len(),
    );
    let mut states: BTreeMap<(&ByteString, &ByteString), usize> = BTreeMap::new();
    for group in &groups {
        *states.entry((&group.kind, &group.state)).or_default() += 1;
    }
    text.family(STATES, "gauge", "Groups by protocol and state.");
    for ((kind, state), count) in states {
        text.sample(STATES, &[("protocol", kind), ("state", state)], count);
    }
    text.family(MEMBERS, "gauge", "Members of a group.");
    for group in &groups {
        text.sample(MEMBERS, &[("consumergroup", &group.id)], group.members);
    }
    let offsets = || {
        groups
            .iter()
            .flat_map(|group| group.offsets.iter().map(move |offset| (group, offset)))
    };
    text.family(OFFSET, "gauge", "Committed offset of a group.");
    for (group, committed) in offsets() {
        text.sample(OFFSET, &committed.labels(&group.id), committed.offset);
    }
    text.family(
        LAG,
        "gauge",
        "Records between the committed offset and the high watermark.",
    );
    for (group, committed) in offsets() {
        if let Some(lag) = committed.lag {
            text.sample(LAG, &committed.labels(&group.id), lag);
        }
    }
}

impl CommittedOffset {
    fn labels<'a>(&'a self, group_id: &'a ByteString) -> [(&'a str, &'a dyn std::fmt::Display); 3] {
        [
            ("consumergroup", group_id),
            ("topic", &self.topic),
            ("partition", &self.partition),
        ]
    }
}

async fn described_groups(node: &Arc<Node>) -> Vec<Group> {
    let peer = Peer::internal();
    let source = RequestSource {
        version: VERSION,
        client_id: &None,
        peer: &peer,
        visible_topics: VisibleTopics::default(),
    };
    let list = GroupRequest::List {
        states: vec![],
        types: vec![],
    };
    let mut groups = vec![];
    // A coordinator that is not available has no metrics; requests and the log report the reason.
    for replies in node.groups.request_all(node, &source, &list).unwrap_or_default() {
        let Ok(GroupReply::List(listed)) = replies.wait().await else {
            continue;
        };
        for group in listed {
            let request = |request| node.groups.request(node, &source, &group.group_id, request);
            let describe = match &*group.group_type {
                "consumer" => GroupRequest::ConsumerDescribe {
                    group_id: group.group_id.clone(),
                },
                _ => GroupRequest::Describe {
                    group_id: group.group_id.clone(),
                },
            };
            let members = match reply(request(describe)).await {
                Some(GroupReply::Describe(group)) => group.members.len(),
                Some(GroupReply::ConsumerDescribe(group)) => group.members.len(),
                _ => 0,
            };
            let fetch = GroupRequest::OffsetFetch {
                group: OffsetFetchRequestGroup {
                    group_id: group.group_id.clone(),
                    topics: None,
                    ..Default::default()
                },
                require_stable: false,
            };
            let offsets = match reply(request(fetch)).await {
                Some(GroupReply::OffsetFetch(group)) => group.topics,
                _ => vec![],
            };
            let offsets = offsets.into_iter().flat_map(|topic| {
                let rows = topic.partitions.into_iter();
                let name = topic.name;
                rows.map(move |row| committed(node, name.clone(), row.partition_index, row.committed_offset))
            });
            groups.push(Group {
                members,
                offsets: offsets.collect(),
                id: group.group_id,
                kind: group.group_type.to_ascii_lowercase().into(),
                state: group.group_state,
            });
        }
    }
    groups
}

fn committed(node: &Node, topic: ByteString, partition: i32, offset: i64) -> CommittedOffset {
    let found = node.topics().by_name(&topic).cloned();
    let found = found.and_then(|topic| topic.partition(partition).cloned());
    CommittedOffset {
        lag: found.map(|partition| (partition.log.view().high_watermark - offset).max(0)),
        topic,
        partition,
        offset,
    }
}

async fn transactions(node: &Arc<Node>, text: &mut Text) {
    const STATES: &str = "milena_transactions";
    let list = TransactionRequest::List {
        states: vec![],
        producer_ids: vec![],
        duration_ms: -1,
        pattern: None,
    };
    let mut states: BTreeMap<ByteString, usize> = BTreeMap::new();
    for replies in node.transactions.request_all(node, VERSION, &list).unwrap_or_default() {
        if let Ok(TransactionReply::List(listed)) = replies.wait().await {
            for transaction in listed {
                *states.entry(transaction.transaction_state).or_default() += 1;
            }
        }
    }
    text.family(STATES, "gauge", "Transactional ids by the state of their transaction.");
    for (state, count) in states {
        text.sample(STATES, &[("state", &state)], count);
    }
}

async fn reply<Reply>(pending: Result<PendingReply<Reply>, ErrorCode>) -> Option<Reply> {
    pending.ok()?.wait().await.ok()
}
