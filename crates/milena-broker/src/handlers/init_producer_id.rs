//! InitProducerId 0–5, for idempotent producers. Transactional ids are not served yet.

use milena_wire::{
    errors::ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};

use crate::node::Node;

pub(super) fn handle(node: &Node, request: InitProducerIdRequest) -> InitProducerIdResponse {
    let outcome = match request.transactional_id {
        Some(_) => Err(ErrorCode::CoordinatorNotAvailable),
        None => node.new_producer_id().map_err(|refusal| refusal.code),
    };
    match outcome {
        Ok(producer_id) => InitProducerIdResponse {
            producer_id,
            producer_epoch: 0,
            ..Default::default()
        },
        Err(error) => InitProducerIdResponse {
            error_code: error.code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    }
}
