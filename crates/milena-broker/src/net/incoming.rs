//! A request on its way in, and how its answer is made.

use std::{ops::Deref, sync::Arc, time::Duration};

use bytes::Bytes;
use milena_log::FileSlice;
use milena_wire::{
    encode::EncodeError,
    frame::{self, RequestFrame, RequestFrameError},
    message::Response,
};

use super::Outgoing;
use crate::throttle::{Spent, Throttle};

/// The frame of a request, and who says for how long its client must pause after the answer.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    pub(crate) frame: RequestFrame,
    throttle: Option<Arc<dyn Throttle>>,
}

impl Incoming {
    pub(crate) fn parse(frame: Bytes, throttle: Option<Arc<dyn Throttle>>) -> Result<Self, RequestFrameError> {
        let frame = RequestFrame::parse(frame)?;
        Ok(Self { frame, throttle })
    }

    /// The answer as it is sent. Every answer is made here, so every one can tell its client of a pause.
    pub(crate) fn response<R: Response>(&self, mut message: R, files: Vec<FileSlice>) -> Result<Outgoing, EncodeError> {
        let pause = match &self.throttle {
            None => Duration::ZERO,
            Some(throttle) => self.pause(&**throttle, message.size(self.version)?),
        };
        if !pause.is_zero() {
            message.set_throttle_time_ms(whole_ms(pause));
        }
        let frame = frame::encode_response(&message, self.version, self.correlation_id)?;
        Ok(Outgoing::new(frame, files, pause))
    }

    /// The pause after a request that wants no answer.
    pub(crate) fn pause_unanswered(&self) -> Duration {
        let throttle = self.throttle.as_deref();
        throttle.map_or(Duration::ZERO, |throttle| self.pause(throttle, 0))
    }

    fn pause(&self, throttle: &dyn Throttle, response_bytes: usize) -> Duration {
        throttle.pause(&Spent {
            api: self.key,
            client_id: self.client_id.as_deref(),
            request_bytes: self.size(),
            response_bytes,
        })
    }
}

impl Deref for Incoming {
    type Target = RequestFrame;

    fn deref(&self) -> &RequestFrame {
        &self.frame
    }
}

/// Rounded up: a client that comes back too early would only wait for the broker.
fn whole_ms(pause: Duration) -> i32 {
    i32::try_from(pause.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
