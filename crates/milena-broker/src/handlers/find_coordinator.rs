//! FindCoordinator 0–6. The coordinator is always this broker.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{FindCoordinatorRequest, FindCoordinatorResponse, find_coordinator_response::Coordinator},
};

use super::common::{Outcome, RequestContext};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// The message of a success before version 4, where Kafka writes the name of the error code.
const SUCCESS: &str = "NONE";

pub(super) fn handle(cx: &RequestContext<'_>, request: FindCoordinatorRequest) -> Outcome<FindCoordinatorResponse> {
    let version = cx.request.version;
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
    if !matches!(key_type, GROUP | TRANSACTION) {
        return Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: ErrorCode::InvalidRequest.code(),
            error_message: Some(format!("there is no coordinator for keys of type {key_type}").into()),
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
