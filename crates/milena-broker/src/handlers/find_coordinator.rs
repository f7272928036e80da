//! FindCoordinator 0–6. The coordinator is always this broker.

use bytestring::ByteString;
use milena_machines::authorizer::Operation;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse, find_coordinator_response::Coordinator},
};

use super::common::{Outcome, RequestContext};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
/// The message of a success before version 4, where Kafka writes the name of the error code.
const SUCCESS: &str = "NONE";

pub(super) fn handle(cx: &RequestContext<'_>, request: FindCoordinatorRequest) -> Outcome<FindCoordinatorResponse> {
    let version = cx.request.version;
    let is_share = request.key_type == SHARE && version >= versions::find_coordinator::SHARE_GROUPS;
    if is_share && !cx.authorize_cluster(Operation::ClusterAction) {
        return cx.refuse(&request, ErrorCode::ClusterAuthorizationFailed);
    }
    if version >= versions::find_coordinator::COORDINATORS {
        let keys = request.coordinator_keys.into_iter();
        return Outcome::Ready(FindCoordinatorResponse {
            coordinators: keys.map(|key| find(cx, request.key_type, key)).collect(),
            ..Default::default()
        });
    }
    let found = find(cx, request.key_type, request.key);
    let succeeded = found.error_code == ErrorCode::None.code();
    Outcome::Ready(FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: if succeeded {
            Some(SUCCESS.into())
        } else {
            found.error_message
        },
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    })
}

fn find(cx: &RequestContext<'_>, key_type: i8, key: ByteString) -> Coordinator {
    let rights = match key_type {
        GROUP => cx.check_group(Operation::Describe, &key),
        TRANSACTION => cx.check_transactional_id(Operation::Describe, &key),
        _ => Err(ErrorCode::InvalidRequest),
    };
    if let Err(error) = rights {
        let reason = match error {
            ErrorCode::InvalidRequest => format!("there is no coordinator for keys of type {key_type}"),
            error => error.to_string(),
        };
        return Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: error.code(),
            error_message: Some(reason.into()),
            ..Default::default()
        };
    }
    let (host, port) = cx.advertised();
    Coordinator {
        key,
        node_id: cx.node.config().node_id,
        host,
        port: i32::from(port),
        ..Default::default()
    }
}
