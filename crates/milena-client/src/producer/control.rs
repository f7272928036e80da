//! Requests other than Produce: producer ids, transactions, offsets.

use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::{
    member::{CallFailure, CallId},
    produce::{ControlCall, ControlRequest, ControlResponse, Target},
};
use milena_wire::{errors::ErrorCode, message::Request};

use super::{
    drive::failure,
    shared::{ProducerCore, ProducerShared},
};
use crate::{
    coordinator::{Coordinator, CoordinatorEvent, CoordinatorKind, FindCoordinatorError},
    io,
    net::{CallError, Connection, SendOptions, Throttled},
};

/// The feature that selects the transaction protocol.
const TRANSACTION_VERSION: &str = "transaction.version";

impl ProducerShared {
    pub(super) fn drive_control(self: &Arc<Self>, core: &mut ProducerCore, now_ms: i64) {
        while let Some(call) = core.sender.poll_control_request(now_ms) {
            match self.connection_for(core, &call.target) {
                Ok(connection) => self.send_control(&connection, call),
                Err(Some(error)) => core.sender.handle_lookup_refused(now_ms, call.id, error),
                Err(None) => core
                    .sender
                    .handle_control_response(now_ms, call.id, Err(CallFailure::CoordinatorUnknown)),
            }
        }
    }

    /// The connection to the target of a request. Without one, the error code if the coordinator look-up was refused.
    fn connection_for(
        self: &Arc<Self>,
        core: &mut ProducerCore,
        target: &Target,
    ) -> Result<Connection, Option<ErrorCode>> {
        let coordinator = match target {
            Target::AnyBroker => return self.metadata.any_broker().ok_or(None),
            Target::TransactionCoordinator => core.transactions.clone(),
            Target::GroupCoordinator(group) => Some(self.group_coordinator(core, group)),
        };
        let connection = coordinator.and_then(|coordinator| coordinator.connection());
        connection.ok_or_else(|| core.refused_lookups.remove(&key(target)))
    }

    fn group_coordinator(self: &Arc<Self>, core: &mut ProducerCore, group: &ByteString) -> Coordinator {
        if let Some(coordinator) = core.groups.get(group) {
            return coordinator.clone();
        }
        let coordinator = Coordinator::start(self.metadata.clone(), CoordinatorKind::Group, group.clone());
        self.watch(&coordinator, &Target::GroupCoordinator(group.clone()));
        core.groups.insert(group.clone(), coordinator.clone());
        coordinator
    }

    /// Observes the look-ups of a coordinator.
    pub(super) fn watch(self: &Arc<Self>, coordinator: &Coordinator, target: &Target) {
        let (weak, key) = (Arc::downgrade(self), key(target));
        coordinator.on_change(move |event| {
            let Some(shared) = weak.upgrade() else { return };
            if let CoordinatorEvent::Failed(FindCoordinatorError::Refused { code, .. }) = event {
                shared.core().refused_lookups.insert(key.clone(), *code);
            }
            shared.wake();
        });
    }

    pub(super) fn forget_coordinator(&self, core: &ProducerCore, target: &Target) {
        let coordinator = match target {
            Target::AnyBroker => None,
            Target::TransactionCoordinator => core.transactions.as_ref(),
            Target::GroupCoordinator(group) => core.groups.get(group),
        };
        if let Some((coordinator, connection)) = coordinator.and_then(|found| Some((found, found.connection()?))) {
            coordinator.mark_unknown(connection.node_id());
        }
    }

    fn send_control(self: &Arc<Self>, connection: &Connection, call: ControlCall) {
        let options = SendOptions::timeout_ms(call.timeout_ms)
            .version_min(call.version_min)
            .version_max(call.version_max.unwrap_or(i16::MAX));
        let id = call.id;
        match call.request {
            ControlRequest::InitProducerId(request) => {
                self.call(connection, id, request, options, ControlResponse::InitProducerId);
            }
            ControlRequest::AddPartitionsToTxn(request) => {
                self.call(connection, id, request, options, ControlResponse::AddPartitionsToTxn);
            }
            ControlRequest::AddOffsetsToTxn(request) => {
                self.call(connection, id, request, options, ControlResponse::AddOffsetsToTxn);
            }
            ControlRequest::TxnOffsetCommit(request) => {
                self.call(connection, id, request, options, ControlResponse::TxnOffsetCommit);
            }
            ControlRequest::EndTxn(request) => {
                self.call(connection, id, request, options, ControlResponse::EndTxn);
            }
        }
    }

    fn call<R>(
        self: &Arc<Self>,
        connection: &Connection,
        id: CallId,
        request: R,
        options: SendOptions,
        wrap: fn(R::Response) -> ControlResponse,
    ) where
        R: Request + Send + 'static,
        R::Response: Throttled,
    {
        let shared = Arc::clone(self);
        connection.send(request, options, move |result| {
            shared.handle_control(id, result.map(|response| wrap(response.body)));
        });
    }

    fn handle_control(self: &Arc<Self>, id: CallId, result: Result<ControlResponse, CallError>) {
        if let Err(error) = &result {
            tracing::debug!(event = "control_request_failed", %error, "request to a coordinator failed");
        }
        let now_ms = io::now_ms();
        let mut core = self.core();
        self.update_features(&mut core);
        let response = result.map_err(|error| failure(&error));
        core.sender.handle_control_response(now_ms, id, response);
        let next_ms = self.drive_locked(&mut core, now_ms);
        drop(core);
        self.wake_at(next_ms);
    }

    /// Applies the finalized `transaction.version` of the cluster.
    pub(super) fn update_features(&self, core: &mut ProducerCore) {
        let features = self.connections.features();
        let version = features.finalized.get(TRANSACTION_VERSION).copied().unwrap_or(0);
        core.sender.handle_features(version);
    }
}

fn key(target: &Target) -> Option<ByteString> {
    match target {
        Target::GroupCoordinator(group) => Some(group.clone()),
        Target::AnyBroker | Target::TransactionCoordinator => None,
    }
}
