//! DescribeCluster 0–2.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{DescribeClusterRequest, DescribeClusterResponse, describe_cluster_response::DescribeClusterBroker},
};

use super::common::{Outcome, RequestContext};

const BROKERS: i8 = 1;

pub(super) fn handle(cx: &RequestContext<'_>, request: DescribeClusterRequest) -> Outcome<DescribeClusterResponse> {
    let node = cx.node;
    if request.endpoint_type != BROKERS {
        return Outcome::Ready(DescribeClusterResponse {
            error_code: ErrorCode::MismatchedEndpointType.code(),
            error_message: Some("this is a broker, not a controller".into()),
            endpoint_type: BROKERS,
            ..Default::default()
        });
    }
    let config = node.config();
    let (host, port) = cx.advertised();
    Outcome::Ready(DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: node.cluster_id.clone().into(),
        controller_id: config.node_id,
        brokers: vec![DescribeClusterBroker {
            broker_id: config.node_id,
            host,
            port: i32::from(port),
            rack: config.rack.clone().map(ByteString::from),
            ..Default::default()
        }],
        cluster_authorized_operations: cx.cluster_operations(request.include_cluster_authorized_operations),
        ..Default::default()
    })
}
