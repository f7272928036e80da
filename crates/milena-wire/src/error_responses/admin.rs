//! Error responses of the APIs of administrators: topics, configs, directories, ACLs, quotas, credentials.

use super::rows;
use crate::{api::versions, errors::ErrorCode, messages::*};

pub(crate) fn create_topics(request: &CreateTopicsRequest, _: i16, error: ErrorCode) -> Option<CreateTopicsResponse> {
    let topic = |topic: &create_topics_request::CreatableTopic| create_topics_response::CreatableTopicResult {
        name: topic.name.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(CreateTopicsResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn delete_topics(request: &DeleteTopicsRequest, _: i16, error: ErrorCode) -> Option<DeleteTopicsResponse> {
    use delete_topics_response::DeletableTopicResult;
    // Before version 6 topics have names only, in a list of their own.
    let mut responses = rows(&request.topic_names, |name| DeletableTopicResult {
        name: Some(name.clone()),
        error_code: error.code(),
        ..Default::default()
    });
    responses.extend(request.topics.iter().map(|topic| DeletableTopicResult {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        error_code: error.code(),
        ..Default::default()
    }));
    Some(DeleteTopicsResponse {
        responses,
        ..Default::default()
    })
}

pub(crate) fn create_partitions(
    request: &CreatePartitionsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<CreatePartitionsResponse> {
    use create_partitions_response::CreatePartitionsTopicResult;
    let result = |topic: &create_partitions_request::CreatePartitionsTopic| CreatePartitionsTopicResult {
        name: topic.name.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(CreatePartitionsResponse {
        results: rows(&request.topics, result),
        ..Default::default()
    })
}

pub(crate) fn describe_configs(
    request: &DescribeConfigsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeConfigsResponse> {
    use describe_configs_response::DescribeConfigsResult;
    let result = |resource: &describe_configs_request::DescribeConfigsResource| DescribeConfigsResult {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(DescribeConfigsResponse {
        results: rows(&request.resources, result),
        ..Default::default()
    })
}

pub(crate) fn alter_configs(request: &AlterConfigsRequest, _: i16, error: ErrorCode) -> Option<AlterConfigsResponse> {
    use alter_configs_response::AlterConfigsResourceResponse;
    let response = |resource: &alter_configs_request::AlterConfigsResource| AlterConfigsResourceResponse {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(AlterConfigsResponse {
        responses: rows(&request.resources, response),
        ..Default::default()
    })
}

pub(crate) fn incremental_alter_configs(
    request: &IncrementalAlterConfigsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<IncrementalAlterConfigsResponse> {
    use incremental_alter_configs_response::AlterConfigsResourceResponse;
    let response = |resource: &incremental_alter_configs_request::AlterConfigsResource| AlterConfigsResourceResponse {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(IncrementalAlterConfigsResponse {
        responses: rows(&request.resources, response),
        ..Default::default()
    })
}

/// Before version 3 only a directory can have an error, so there is one without a name.
pub(crate) fn describe_log_dirs(
    _: &DescribeLogDirsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeLogDirsResponse> {
    let unknown = describe_log_dirs_response::DescribeLogDirsResult {
        error_code: error.code(),
        ..Default::default()
    };
    Some(DescribeLogDirsResponse {
        error_code: error.code(),
        results: vec![unknown],
        ..Default::default()
    })
}

pub(crate) fn elect_leaders(
    request: &ElectLeadersRequest,
    version: i16,
    error: ErrorCode,
) -> Option<ElectLeadersResponse> {
    use elect_leaders_response::{PartitionResult, ReplicaElectionResult};
    if version >= versions::elect_leaders::ELECTION_TYPE {
        return Some(ElectLeadersResponse {
            error_code: error.code(),
            ..Default::default()
        });
    }
    let partition = |index: &i32| PartitionResult {
        partition_id: *index,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &elect_leaders_request::TopicPartitions| ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(ElectLeadersResponse {
        replica_election_results: rows(request.topic_partitions.as_ref()?, topic),
        ..Default::default()
    })
}

pub(crate) fn alter_replica_log_dirs(
    request: &AlterReplicaLogDirsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<AlterReplicaLogDirsResponse> {
    use alter_replica_log_dirs_response::{AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult};
    let partition = |index: &i32| AlterReplicaLogDirPartitionResult {
        partition_index: *index,
        error_code: error.code(),
        ..Default::default()
    };
    let topics = request.dirs.iter().flat_map(|dir| &dir.topics);
    let results = topics.map(|topic| AlterReplicaLogDirTopicResult {
        topic_name: topic.name.clone(),
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    });
    Some(AlterReplicaLogDirsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(crate) fn create_acls(request: &CreateAclsRequest, _: i16, error: ErrorCode) -> Option<CreateAclsResponse> {
    let result = |_: &create_acls_request::AclCreation| create_acls_response::AclCreationResult {
        error_code: error.code(),
        ..Default::default()
    };
    Some(CreateAclsResponse {
        results: rows(&request.creations, result),
        ..Default::default()
    })
}

pub(crate) fn delete_acls(request: &DeleteAclsRequest, _: i16, error: ErrorCode) -> Option<DeleteAclsResponse> {
    let result = |_: &delete_acls_request::DeleteAclsFilter| delete_acls_response::DeleteAclsFilterResult {
        error_code: error.code(),
        ..Default::default()
    };
    Some(DeleteAclsResponse {
        filter_results: rows(&request.filters, result),
        ..Default::default()
    })
}

pub(crate) fn alter_client_quotas(
    request: &AlterClientQuotasRequest,
    _: i16,
    error: ErrorCode,
) -> Option<AlterClientQuotasResponse> {
    use alter_client_quotas_response::{EntityData, EntryData};
    let entity = |entity: &alter_client_quotas_request::EntityData| EntityData {
        entity_type: entity.entity_type.clone(),
        entity_name: entity.entity_name.clone(),
        ..Default::default()
    };
    let entry = |entry: &alter_client_quotas_request::EntryData| EntryData {
        error_code: error.code(),
        entity: rows(&entry.entity, entity),
        ..Default::default()
    };
    Some(AlterClientQuotasResponse {
        entries: rows(&request.entries, entry),
        ..Default::default()
    })
}

pub(crate) fn alter_user_scram_credentials(
    request: &AlterUserScramCredentialsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<AlterUserScramCredentialsResponse> {
    let deletions = request.deletions.iter().map(|deletion| &deletion.name);
    let upsertions = request.upsertions.iter().map(|upsertion| &upsertion.name);
    let results = deletions.chain(upsertions).map(|user| {
        alter_user_scram_credentials_response::AlterUserScramCredentialsResult {
            user: user.clone(),
            error_code: error.code(),
            ..Default::default()
        }
    });
    Some(AlterUserScramCredentialsResponse {
        results: results.collect(),
        ..Default::default()
    })
}
