//! UnregisterBroker 0. The only broker of a cluster cannot be taken out of it.

use milena_wire::{
    errors::ErrorCode,
    messages::{UnregisterBrokerRequest, UnregisterBrokerResponse},
};

use super::common::{Outcome, RequestContext};

pub(super) fn handle(cx: &RequestContext<'_>, request: UnregisterBrokerRequest) -> Outcome<UnregisterBrokerResponse> {
    let node = cx.node;
    let id = request.broker_id;
    let (error, reason) = if id == node.config().node_id {
        let reason = format!("broker {id} is the only one of this cluster and cannot be unregistered; stop it instead");
        (ErrorCode::InvalidRequest, reason)
    } else {
        let reason = format!("Broker ID {id} is not currently registered");
        (ErrorCode::BrokerIdNotRegistered, reason)
    };
    Outcome::Ready(UnregisterBrokerResponse {
        error_code: error.code(),
        error_message: Some(reason.into()),
        ..Default::default()
    })
}
