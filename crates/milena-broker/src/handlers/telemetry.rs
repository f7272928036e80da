//! GetTelemetrySubscriptions and PushTelemetry 0 (KIP-714), of a broker with a receiver of client metrics.

use milena_wire::{
    Uuid,
    compression::{Codec, DecompressError, Decompressor},
    errors::ErrorCode,
    messages::{
        GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse, PushTelemetryRequest,
        PushTelemetryResponse,
    },
};

use super::common::{Outcome, RequestContext};
use crate::{
    node::random_uuid,
    telemetry::{Push, Subscription, TelemetryClient, TelemetryPush},
};

/// The codecs that clients may use, the best first.
const CODECS: [Codec; 4] = [Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy];
/// An id that Kafka never gives to a client, besides zero.
const RESERVED: Uuid = Uuid::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

pub(super) fn subscriptions(
    cx: &RequestContext<'_>,
    request: GetTelemetrySubscriptionsRequest,
) -> Outcome<GetTelemetrySubscriptionsResponse> {
    let instance_id = match request.client_instance_id {
        id if id.is_zero() => random_uuid(),
        id => id,
    };
    let node = cx.node;
    let config = node.config();
    let client = client(cx, instance_id);
    let response = match node.telemetry().subscribe(&config, &client, node.now_ms()) {
        Ok(Subscription {
            id,
            metrics,
            interval_ms,
        }) => GetTelemetrySubscriptionsResponse {
            client_instance_id: instance_id,
            subscription_id: id,
            accepted_compression_types: CODECS.iter().map(|codec| codec.id().cast_signed()).collect(),
            push_interval_ms: interval_ms,
            telemetry_max_bytes: config.telemetry_max_bytes,
            delta_temporality: true,
            requested_metrics: metrics,
            ..Default::default()
        },
        Err(error) => GetTelemetrySubscriptionsResponse {
            error_code: error.code(),
            ..Default::default()
        },
    };
    Outcome::Ready(response)
}

pub(super) fn push(cx: &RequestContext<'_>, request: PushTelemetryRequest) -> Outcome<PushTelemetryResponse> {
    let error = accept(cx, &request).err().unwrap_or(ErrorCode::None);
    Outcome::Ready(PushTelemetryResponse {
        error_code: error.code(),
        ..Default::default()
    })
}

fn accept(cx: &RequestContext<'_>, request: &PushTelemetryRequest) -> Result<(), ErrorCode> {
    let node = cx.node;
    let id = request.client_instance_id;
    if id.is_zero() || id == RESERVED {
        return Err(ErrorCode::InvalidRequest);
    }
    let config = node.config();
    let client = client(cx, id);
    let push = Push {
        subscription_id: request.subscription_id,
        terminating: request.terminating,
        compression_type: request.compression_type,
        size: request.metrics.len(),
    };
    let codec = node.telemetry().push(&config, &client, push, node.now_ms())?;
    let mut metrics = vec![];
    let limit = usize::try_from(config.telemetry_max_bytes).unwrap_or(0);
    if !request.metrics.is_empty() {
        let read = Decompressor::new().decompress(codec, &request.metrics, &mut metrics, limit);
        read.map_err(|error| match error {
            DecompressError::TooLarge { .. } => ErrorCode::TelemetryTooLarge,
            _ => ErrorCode::InvalidRecord,
        })?;
    }
    tracing::debug!(
        event = "telemetry_pushed",
        client_instance_id = %id,
        client_id = %client.client_id,
        software = %client.software_name,
        bytes = metrics.len(),
        terminating = request.terminating,
        "client pushed metrics"
    );
    if let Some(receiver) = &node.telemetry_receiver {
        receiver.receive(&TelemetryPush {
            client: &client,
            terminating: request.terminating,
            metrics: &metrics,
        });
    }
    Ok(())
}

fn client(cx: &RequestContext<'_>, instance_id: Uuid) -> TelemetryClient {
    let software = cx.peer.software();
    TelemetryClient {
        instance_id,
        client_id: cx.request.client_id.clone().unwrap_or_default(),
        software_name: software.name,
        software_version: software.version,
        source_address: cx.peer.address.ip().to_string(),
        source_port: cx.peer.address.port(),
    }
}
