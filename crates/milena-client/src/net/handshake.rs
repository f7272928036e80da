//! The handshake of a connection: ApiVersions, then authentication.

use std::future::poll_fn;

use bytes::Bytes;
use milena_wire::{decode::DecodeError, frame, message::Request, messages::ApiVersionsRequest};
use tokio::io::AsyncWriteExt;

use super::{
    BrokerVersions, ClientSettings,
    auth::Mechanism,
    dial::Transport,
    error::{ConnectError, ReceiveError},
    receive::FrameReader,
    versions::{Negotiation, NegotiationStep},
};

/// A connection that carries one request at a time, until both sides are ready.
pub(super) struct Handshake<'a> {
    transport: &'a mut Transport,
    reader: &'a mut FrameReader,
    settings: &'a ClientSettings,
    correlation_id: i32,
}

/// The outcome of a handshake.
pub(super) struct HandshakeResult {
    pub(super) versions: BrokerVersions,
    /// The last correlation id that was used.
    pub(super) correlation_id: i32,
}

impl<'a> Handshake<'a> {
    pub(super) fn new(transport: &'a mut Transport, reader: &'a mut FrameReader, settings: &'a ClientSettings) -> Self {
        Self {
            transport,
            reader,
            settings,
            correlation_id: 0,
        }
    }

    pub(super) async fn run(mut self, mechanism: Mechanism) -> Result<HandshakeResult, ConnectError> {
        let versions = self.negotiate().await?;
        mechanism.authenticate(&mut self).await?;
        Ok(HandshakeResult {
            versions,
            correlation_id: self.correlation_id,
        })
    }

    /// Sends ApiVersions, again in an older version if the broker asks for that.
    async fn negotiate(&mut self) -> Result<BrokerVersions, ConnectError> {
        let mut negotiation = Negotiation::new();
        loop {
            let response = self.call(&negotiation.request(), negotiation.version()).await?;
            let step = negotiation.handle(&response);
            match step.map_err(malformed::<ApiVersionsRequest>)? {
                NegotiationStep::Done(versions) => return Ok(versions),
                NegotiationStep::Again(next) => negotiation = next,
                NegotiationStep::Refused(error) => return Err(ConnectError::VersionsRefused(error)),
            }
        }
    }

    /// Sends a request and returns the frame of its response, without its length.
    pub(super) async fn call<R: Request>(&mut self, request: &R, version: i16) -> Result<Bytes, ConnectError> {
        self.correlation_id += 1;
        let client_id = Some(&self.settings.client_id);
        let frame = frame::encode_request(request, version, self.correlation_id, client_id);
        let mut frame = frame.map_err(|error| ConnectError::EncodeFailed { api: R::KEY, error })?;
        let sent = self.transport.write_all_buf(&mut frame).await;
        sent.map_err(|error| ConnectError::in_handshake(ReceiveError::from(error)))?;
        let response = poll_fn(|cx| self.reader.poll_frame(cx, self.transport)).await;
        let response = response.map_err(ConnectError::in_handshake)?;
        match frame::correlation_id(&response).map_err(malformed::<R>)? {
            id if id == self.correlation_id => Ok(response),
            _ => Err(ConnectError::WrongCorrelationId),
        }
    }
}

fn malformed<R: Request>(error: DecodeError) -> ConnectError {
    ConnectError::MalformedResponse { api: R::KEY, error }
}
