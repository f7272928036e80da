//! Requests of a connection that carries one at a time: ApiVersions and authentication.

use std::{future::poll_fn, time::Duration};

use bytes::Bytes;
use milena_wire::{
    decode::DecodeError,
    frame,
    message::{Request, Response},
    messages::ApiVersionsRequest,
};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{
    BrokerVersions, ClientSettings, Endpoint,
    dial::Transport,
    error::{ConnectError, ReceiveError},
    receive::FrameReader,
    versions::{Negotiation, NegotiationStep},
};

/// A connection without requests in flight.
pub(super) struct Handshake<'a> {
    pub(super) transport: &'a mut Transport,
    pub(super) reader: &'a mut FrameReader,
    pub(super) settings: &'a ClientSettings,
    pub(super) broker: &'a Endpoint,
    /// The last correlation id that was used. Nothing else is in flight, so that no other response can come.
    pub(super) correlation_id: &'a mut i32,
}

impl Handshake<'_> {
    /// Sends ApiVersions, again in an older version if the broker asks for that.
    pub(super) async fn negotiate(&mut self) -> Result<BrokerVersions, ConnectError> {
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

    /// Sends a request and returns its response.
    pub(super) async fn request<R: Request>(&mut self, request: &R, version: i16) -> Result<R::Response, ConnectError>
    where
        R::Response: Response,
    {
        let frame = self.call(request, version).await?;
        let decoded = frame::decode_response(&frame, version);
        decoded.map(|(_, response)| response).map_err(malformed::<R>)
    }

    /// Sends a request and returns the frame of its response, without its length.
    async fn call<R: Request>(&mut self, request: &R, version: i16) -> Result<Bytes, ConnectError> {
        let timeout_ms = u64::try_from(self.settings.request_timeout_ms).unwrap_or(0);
        let response = timeout(Duration::from_millis(timeout_ms), self.exchange(request, version)).await;
        response.map_err(|_| ConnectError::HandshakeTimedOut {
            api: R::KEY,
            timeout_ms,
        })?
    }

    async fn exchange<R: Request>(&mut self, request: &R, version: i16) -> Result<Bytes, ConnectError> {
        *self.correlation_id = self.correlation_id.wrapping_add(1);
        let client_id = Some(&self.settings.client_id);
        let frame = frame::encode_request(request, version, *self.correlation_id, client_id);
        let mut frame = frame.map_err(|error| ConnectError::EncodeFailed { api: R::KEY, error })?;
        let sent = async {
            self.transport.write_all_buf(&mut frame).await?;
            self.transport.flush().await
        };
        let failed = |error: ReceiveError| ConnectError::in_handshake(error, self.broker);
        sent.await.map_err(|error| failed(ReceiveError::from(error)))?;
        let response = poll_fn(|cx| self.reader.poll_frame(cx, self.transport)).await;
        let response = response.map_err(failed)?;
        match frame::correlation_id(&response).map_err(malformed::<R>)? {
            id if id == *self.correlation_id => Ok(response),
            _ => Err(ConnectError::WrongCorrelationId),
        }
    }
}

fn malformed<R: Request>(error: DecodeError) -> ConnectError {
    ConnectError::MalformedResponse { api: R::KEY, error }
}
