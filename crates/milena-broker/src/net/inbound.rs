//! A request that was received, and its response.

use std::{ops::Deref, sync::Arc, time::Duration};

use bytes::Bytes;
use milena_wire::{
    encode::EncodeError,
    frame::{self, RequestFrame, RequestFrameError},
    message::Response,
};

use super::{OutboundResponse, Peer};
use crate::{
    handlers::{FileResponse, HandlerThrottle},
    quotas::{Charge, Quotas, Work},
    throttle::{RequestCost, Throttle},
};

/// The frame of a request, and the throttle that decides about the throttle time of its response.
#[derive(Debug, Clone)]
pub(crate) struct InboundRequest {
    pub(crate) frame: RequestFrame,
    throttle: Option<Arc<dyn Throttle>>,
    /// `None` if there are no quotas.
    charge: Option<Charge>,
}

impl InboundRequest {
    pub(crate) fn parse(frame: Bytes, throttle: Option<Arc<dyn Throttle>>) -> Result<Self, RequestFrameError> {
        let frame = RequestFrame::parse(frame)?;
        Ok(Self {
            frame,
            throttle,
            charge: None,
        })
    }

    /// Charges the request to the quotas of its peer.
    pub(crate) fn charged_to(mut self, peer: &Peer, quotas: &Arc<Quotas>) -> Self {
        self.charge = Charge::new(quotas, &peer.principal.name, self.frame.client_id.as_ref());
        self
    }

    pub(crate) fn charge(&self) -> Option<&Charge> {
        self.charge.as_ref()
    }

    /// Begins to measure work for this request.
    pub(crate) fn work(&self) -> Option<Work<'_>> {
        self.charge.as_ref().map(Charge::work)
    }

    /// A request before the log-in, which no throttle applies to.
    pub(super) fn unthrottled(frame: RequestFrame) -> Self {
        Self {
            frame,
            throttle: None,
            charge: None,
        }
    }

    /// Encodes the response. All responses are encoded here, so all can have a throttle time.
    pub(crate) fn response<R: Response>(&self, response: FileResponse<R>) -> Result<OutboundResponse, EncodeError> {
        let FileResponse {
            mut message,
            files,
            throttle,
        } = response;
        let mut throttle_time = self.charge_response(throttle);
        if let Some(throttle) = &self.throttle {
            throttle_time = throttle_time.max(self.throttle_time(&**throttle, message.size(self.version)?));
        }
        if !throttle_time.is_zero() {
            message.set_throttle_time_ms(whole_ms(throttle_time));
        }
        let mut errors = vec![];
        message.for_each_error(&mut |code| errors.push(code));
        let frame = frame::encode_response(&message, self.version, self.correlation_id)?;
        Ok(OutboundResponse {
            key: self.key,
            frame,
            files,
            throttle_time,
            errors,
            charge: self.charge.clone(),
        })
    }

    /// The throttle time after a request whose client expects no response.
    pub(crate) fn throttle_time_without_response(&self) -> Duration {
        let throttle = self.throttle.as_deref();
        let asked = throttle.map_or(Duration::ZERO, |throttle| self.throttle_time(throttle, 0));
        let charge = self.charge.as_ref();
        asked.max(charge.map_or(Duration::ZERO, |charge| charge.without_response(self.key, self.size())))
    }

    fn charge_response(&self, throttle: HandlerThrottle) -> Duration {
        match (throttle, &self.charge) {
            (HandlerThrottle::All(throttle_time), _) | (HandlerThrottle::Besides(throttle_time), None) => throttle_time,
            (HandlerThrottle::Besides(already), Some(charge)) => charge.response(self.key, self.size(), already),
        }
    }

    fn throttle_time(&self, throttle: &dyn Throttle, response_bytes: usize) -> Duration {
        throttle.throttle_time(&RequestCost {
            api: self.key,
            client_id: self.client_id.as_deref(),
            request_bytes: self.size(),
            response_bytes,
        })
    }
}

impl Deref for InboundRequest {
    type Target = RequestFrame;

    fn deref(&self) -> &RequestFrame {
        &self.frame
    }
}

/// Rounds up: a client that sends again too early would only wait for the broker.
fn whole_ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
