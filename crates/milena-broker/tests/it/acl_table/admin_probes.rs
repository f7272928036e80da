//! Probes of administrators' APIs.

use milena_wire::{Uuid, messages::*};

use super::bed::{Bed, GROUP, MISSING, PRINCIPAL, TOPIC};

const OF_TOPIC: i8 = 2;
const OF_BROKER: i8 = 4;
const OF_LOGGER: i8 = 8;
const OF_METRICS: i8 = 16;
const OF_GROUP: i8 = 32;

pub fn run(bed: &mut Bed, probe: &str) -> Option<String> {
    let topic = if probe.ends_with("missing") { MISSING } else { TOPIC };
    Some(match probe {
        "CreateTopics" => create_topics(bed, MISSING),
        "CreateTopics existing" => create_topics(bed, TOPIC),
        "CreatePartitions" | "CreatePartitions missing" => {
            let request = CreatePartitionsRequest {
                topics: vec![create_partitions_request::CreatePartitionsTopic {
                    name: topic.into(),
                    count: 2,
                    assignments: None,
                    ..Default::default()
                }],
                timeout_ms: 30_000,
                validate_only: true,
                ..Default::default()
            };
            bed.codes(&request, 3)
        }
        "DeleteTopics" => delete_topics(bed, Some(TOPIC), Uuid::ZERO),
        "DeleteTopics missing" => delete_topics(bed, Some(MISSING), Uuid::ZERO),
        "DeleteTopics id" => delete_topics(bed, None, bed.topic_id),
        "DeleteTopics id missing" => delete_topics(bed, None, Uuid::from_bytes([7; 16])),
        "DescribeConfigs topic" => describe_configs(bed, OF_TOPIC, TOPIC),
        "DescribeConfigs topic missing" => describe_configs(bed, OF_TOPIC, MISSING),
        "DescribeConfigs group" => describe_configs(bed, OF_GROUP, GROUP),
        "DescribeConfigs broker" => describe_configs(bed, OF_BROKER, "1"),
        "DescribeConfigs metrics" => describe_configs(bed, OF_METRICS, "all"),
        "IncrementalAlterConfigs topic" => incremental_alter(bed, OF_TOPIC, TOPIC, ("retention.ms", "100000")),
        "IncrementalAlterConfigs topic missing" => {
            incremental_alter(bed, OF_TOPIC, MISSING, ("retention.ms", "100000"))
        }
        "IncrementalAlterConfigs group" => {
            incremental_alter(bed, OF_GROUP, GROUP, ("consumer.session.timeout.ms", "50000"))
        }
        "IncrementalAlterConfigs broker" => incremental_alter(bed, OF_BROKER, "1", ("log.retention.ms", "100000")),
        "IncrementalAlterConfigs metrics" => incremental_alter(bed, OF_METRICS, "all", ("interval.ms", "10000")),
        "IncrementalAlterConfigs logger" => incremental_alter(bed, OF_LOGGER, "1", ("kafka.no.such.logger", "DEBUG")),
        "AlterConfigs topic" => alter(bed, OF_TOPIC, TOPIC, ("retention.ms", "100000")),
        "AlterConfigs topic missing" => alter(bed, OF_TOPIC, MISSING, ("retention.ms", "100000")),
        "AlterConfigs broker" => alter(bed, OF_BROKER, "1", ("log.retention.ms", "100000")),
        probe => return cluster(bed, probe),
    })
}

#[expect(clippy::too_many_lines, reason = "a list: one request for each probe")]
fn cluster(bed: &mut Bed, probe: &str) -> Option<String> {
    Some(match probe {
        "ListConfigResources" => bed.codes(&ListConfigResourcesRequest::default(), 1),
        "DescribeClientQuotas" => bed.codes(&DescribeClientQuotasRequest::default(), 1),
        "AlterClientQuotas" => {
            let entry = alter_client_quotas_request::EntryData {
                entity: vec![alter_client_quotas_request::EntityData {
                    entity_type: "user".into(),
                    entity_name: Some("unknown".into()),
                    ..Default::default()
                }],
                ops: vec![alter_client_quotas_request::OpData {
                    key: "producer_byte_rate".into(),
                    value: 1000.0,
                    ..Default::default()
                }],
                ..Default::default()
            };
            let request = AlterClientQuotasRequest {
                entries: vec![entry],
                validate_only: true,
                ..Default::default()
            };
            bed.codes(&request, 1)
        }
        "DescribeUserScramCredentials" => bed.codes(&DescribeUserScramCredentialsRequest::default(), 0),
        "AlterUserScramCredentials" => {
            let deletion = alter_user_scram_credentials_request::ScramCredentialDeletion {
                name: "unknown".into(),
                mechanism: 1,
                ..Default::default()
            };
            let request = AlterUserScramCredentialsRequest {
                deletions: vec![deletion],
                ..Default::default()
            };
            bed.codes(&request, 0)
        }
        "DescribeAcls" => describe_acls(bed),
        "CreateAcls" => create_acls(bed),
        "DeleteAcls" => delete_acls(bed),
        "DescribeLogDirs" => {
            let request = DescribeLogDirsRequest {
                topics: None,
                ..Default::default()
            };
            bed.codes_and(&request, 4, |response| format!("dirs={}", response.results.len()))
        }
        "AlterReplicaLogDirs" => {
            let dir = alter_replica_log_dirs_request::AlterReplicaLogDir {
                path: "/no/such/directory".into(),
                topics: vec![alter_replica_log_dirs_request::AlterReplicaLogDirTopic {
                    name: TOPIC.into(),
                    partitions: vec![0],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let request = AlterReplicaLogDirsRequest {
                dirs: vec![dir],
                ..Default::default()
            };
            bed.codes(&request, 2)
        }
        "DescribeQuorum" => {
            let topic = describe_quorum_request::TopicData {
                topic_name: "__cluster_metadata".into(),
                partitions: vec![describe_quorum_request::PartitionData::default()],
                ..Default::default()
            };
            let request = DescribeQuorumRequest {
                topics: vec![topic],
                ..Default::default()
            };
            bed.codes(&request, 1)
        }
        "ListPartitionReassignments" => bed.codes(&ListPartitionReassignmentsRequest::default(), 0),
        "AlterPartitionReassignments" => {
            let topic = alter_partition_reassignments_request::ReassignableTopic {
                name: MISSING.into(),
                partitions: vec![alter_partition_reassignments_request::ReassignablePartition {
                    replicas: Some(vec![1]),
                    ..Default::default()
                }],
                ..Default::default()
            };
            let request = AlterPartitionReassignmentsRequest {
                topics: vec![topic],
                ..Default::default()
            };
            bed.codes(&request, 0)
        }
        "ElectLeaders" => {
            let topic = elect_leaders_request::TopicPartitions {
                topic: TOPIC.into(),
                partitions: vec![0],
                ..Default::default()
            };
            let request = ElectLeadersRequest {
                topic_partitions: Some(vec![topic]),
                ..Default::default()
            };
            bed.codes(&request, 2)
        }
        "UnregisterBroker" => {
            let request = UnregisterBrokerRequest {
                broker_id: 77,
                ..Default::default()
            };
            bed.codes(&request, 0)
        }
        "UpdateFeatures" => {
            let feature = update_features_request::FeatureUpdateKey {
                feature: "no.such.feature".into(),
                max_version_level: 1,
                upgrade_type: 1,
                ..Default::default()
            };
            let request = UpdateFeaturesRequest {
                feature_updates: vec![feature],
                validate_only: true,
                ..Default::default()
            };
            bed.codes(&request, 2)
        }
        "DescribeCluster" => {
            let request = DescribeClusterRequest {
                include_cluster_authorized_operations: true,
                ..Default::default()
            };
            bed.codes_and(&request, 1, |response| {
                let operations = response.cluster_authorized_operations;
                format!("operations={operations} brokers={}", response.brokers.len())
            })
        }
        _ => return None,
    })
}

/// Also the error code of the settings, and the number of partitions.
fn create_topics(bed: &mut Bed, topic: &'static str) -> String {
    let request = CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: topic.into(),
            num_partitions: 3,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 30_000,
        validate_only: true,
        ..Default::default()
    };
    bed.codes_and(&request, 7, |response| {
        let topic = &response.topics[0];
        let configs = topic.configs.as_ref().map_or(0, Vec::len);
        format!(
            "configs={} code={} partitions={}",
            configs > 0,
            topic.topic_config_error_code,
            topic.num_partitions
        )
    })
}

/// Also whether the response has the name and the id of the topic.
fn delete_topics(bed: &mut Bed, name: Option<&'static str>, topic_id: Uuid) -> String {
    let request = DeleteTopicsRequest {
        topics: vec![delete_topics_request::DeleteTopicState {
            name: name.map(Into::into),
            topic_id,
            ..Default::default()
        }],
        timeout_ms: 30_000,
        ..Default::default()
    };
    bed.codes_and(&request, 6, |response| {
        let topic = &response.responses[0];
        format!("name={} id={}", topic.name.is_some(), !topic.topic_id.is_zero())
    })
}

fn describe_configs(bed: &mut Bed, resource_type: i8, name: &'static str) -> String {
    let request = DescribeConfigsRequest {
        resources: vec![describe_configs_request::DescribeConfigsResource {
            resource_type,
            resource_name: name.into(),
            configuration_keys: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    bed.codes_and(&request, 4, |response| {
        format!("configs={}", !response.results[0].configs.is_empty())
    })
}

fn incremental_alter(
    bed: &mut Bed,
    resource_type: i8,
    name: &'static str,
    config: (&'static str, &'static str),
) -> String {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs_request::AlterConfigsResource {
            resource_type,
            resource_name: name.into(),
            configs: vec![incremental_alter_configs_request::AlterableConfig {
                name: config.0.into(),
                value: Some(config.1.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        validate_only: true,
        ..Default::default()
    };
    bed.codes(&request, 1)
}

fn alter(bed: &mut Bed, resource_type: i8, name: &'static str, config: (&'static str, &'static str)) -> String {
    let request = AlterConfigsRequest {
        resources: vec![alter_configs_request::AlterConfigsResource {
            resource_type,
            resource_name: name.into(),
            configs: vec![alter_configs_request::AlterableConfig {
                name: config.0.into(),
                value: Some(config.1.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        validate_only: true,
        ..Default::default()
    };
    bed.codes(&request, 2)
}

fn describe_acls(bed: &mut Bed) -> String {
    let request = DescribeAclsRequest {
        resource_type_filter: 1,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: Some(PRINCIPAL.into()),
        host_filter: None,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    bed.codes_and(&request, 3, |response| {
        let acls = response.resources.iter().map(|resource| resource.acls.len());
        format!("acls={}", acls.sum::<usize>())
    })
}

fn create_acls(bed: &mut Bed) -> String {
    let valid = create_acls_request::AclCreation {
        resource_type: 2,
        resource_name: "another".into(),
        resource_pattern_type: 3,
        principal: "User:unknown".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
        ..Default::default()
    };
    let invalid = create_acls_request::AclCreation {
        principal: "unknown".into(),
        ..valid.clone()
    };
    let request = CreateAclsRequest {
        creations: vec![valid, invalid],
        ..Default::default()
    };
    bed.codes(&request, 3)
}

fn delete_acls(bed: &mut Bed) -> String {
    let filter = delete_acls_request::DeleteAclsFilter {
        resource_type_filter: 2,
        resource_name_filter: Some("another".into()),
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    let request = DeleteAclsRequest {
        filters: vec![filter],
        ..Default::default()
    };
    bed.codes(&request, 3)
}
