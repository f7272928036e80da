//! The error in answers to those who look after a cluster.

use milena_wire::messages::*;

use super::CODE;

pub(super) fn create_topics(request: CreateTopicsRequest) -> Option<CreateTopicsResponse> {
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

pub(super) fn delete_topics(request: DeleteTopicsRequest) -> Option<DeleteTopicsResponse> {
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

pub(super) fn create_partitions(request: CreatePartitionsRequest) -> Option<CreatePartitionsResponse> {
    let topics = request.topics.into_iter();
    let results = topics.map(|topic| create_partitions_response::CreatePartitionsTopicResult {
        name: topic.name,
        error_code: CODE,
        ..Default::default()
    });
    Some(CreatePartitionsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn describe_configs(request: DescribeConfigsRequest) -> Option<DescribeConfigsResponse> {
    let resources = request.resources.into_iter();
    let results = resources.map(|resource| describe_configs_response::DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        error_code: CODE,
        ..Default::default()
    });
    Some(DescribeConfigsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn alter_configs(request: AlterConfigsRequest) -> Option<AlterConfigsResponse> {
    let resources = request.resources.into_iter();
    let responses = resources.map(|resource| alter_configs_response::AlterConfigsResourceResponse {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        error_code: CODE,
        ..Default::default()
    });
    Some(AlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    })
}

pub(super) fn incremental_alter_configs(
    request: IncrementalAlterConfigsRequest,
) -> Option<IncrementalAlterConfigsResponse> {
    let resources = request.resources.into_iter();
    let responses = resources.map(
        |resource| incremental_alter_configs_response::AlterConfigsResourceResponse {
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            error_code: CODE,
            ..Default::default()
        },
    );
    Some(IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..Default::default()
    })
}

pub(super) fn describe_log_dirs(_: DescribeLogDirsRequest) -> Option<DescribeLogDirsResponse> {
    // Before version 3 only a directory can have an error, even if nobody knows which.
    let unknown = describe_log_dirs_response::DescribeLogDirsResult {
        error_code: CODE,
        ..Default::default()
    };
    Some(DescribeLogDirsResponse {
        error_code: CODE,
        results: vec![unknown],
        ..Default::default()
    })
}

pub(super) fn elect_leaders(version: i16, request: ElectLeadersRequest) -> Option<ElectLeadersResponse> {
    use elect_leaders_response::{PartitionResult, ReplicaElectionResult};
    if version >= 1 {
        return Some(ElectLeadersResponse {
            error_code: CODE,
            ..Default::default()
        });
    }
    let topics = request.topic_partitions?.into_iter();
    let results = topics.map(|topic| ReplicaElectionResult {
        topic: topic.topic,
        partition_result: topic
            .partitions
            .iter()
            .map(|partition| PartitionResult {
                partition_id: *partition,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(ElectLeadersResponse {
        replica_election_results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn alter_replica_log_dirs(request: AlterReplicaLogDirsRequest) -> Option<AlterReplicaLogDirsResponse> {
    use alter_replica_log_dirs_response::{AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult};
    let topics = request.dirs.into_iter().flat_map(|dir| dir.topics);
    let results = topics.map(|topic| AlterReplicaLogDirTopicResult {
        topic_name: topic.name,
        partitions: topic
            .partitions
            .iter()
            .map(|partition_index| AlterReplicaLogDirPartitionResult {
                partition_index: *partition_index,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn create_acls(request: CreateAclsRequest) -> Option<CreateAclsResponse> {
    let results = request
        .creations
        .iter()
        .map(|_| create_acls_response::AclCreationResult {
            error_code: CODE,
            ..Default::default()
        });
    Some(CreateAclsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn delete_acls(request: DeleteAclsRequest) -> Option<DeleteAclsResponse> {
    let results = request
        .filters
        .iter()
        .map(|_| delete_acls_response::DeleteAclsFilterResult {
            error_code: CODE,
            ..Default::default()
        });
    Some(DeleteAclsResponse {
        filter_results: results.collect(),
        ..Default::default()
    })
}
