//! DescribeCluster 0–2.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{DescribeClusterRequest, DescribeClusterResponse, describe_cluster_response::DescribeClusterBroker},
};

use super::operations::{OF_CLUSTER, if_asked};
use crate::node::Node;

const BROKERS: i8 = 1;

pub(super) fn handle(node: &Node, request: DescribeClusterRequest) -> DescribeClusterResponse {
    if request.endpoint_type != BROKERS {
        return DescribeClusterResponse {
            error_code: ErrorCode::MismatchedEndpointType.code(),
            error_message: Some("this is a broker, not a controller".into()),
            endpoint_type: BROKERS,
            ..Default::default()
        };
    }
    let config = node.config();
    DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: node.cluster_id.clone().into(),
        controller_id: config.node_id,
        brokers: vec![DescribeClusterBroker {
            broker_id: config.node_id,
            host: node.host.clone().into(),
            port: i32::from(node.port),
            rack: config.rack.clone().map(ByteString::from),
            ..Default::default()
        }],
        cluster_authorized_operations: if_asked(request.include_cluster_authorized_operations, OF_CLUSTER),
        ..Default::default()
    }
}
