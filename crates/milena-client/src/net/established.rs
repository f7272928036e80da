//! One socket, from the agreement on versions to its end.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use milena_wire::frame::{self, Frame};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::{Instant, Sleep, timeout},
};

use super::{
    BrokerVersions, CallError,
    call::Call,
    connection::{Common, Link, ParkOutcome, QueuedCall, Role},
    dial::Transport,
    failures::ConnectFailure,
    receive::FrameReader,
    versions::{Negotiation, NegotiationStep},
};
use crate::{
    io::{instant, now_ms},
    reachability::FailureCause,
};

/// Requests without an answer on one connection; more of them wait.
const IN_FLIGHT_MAX: usize = 100;
/// What is done at once, before others on the thread have their turn.
const STEPS_MAX: usize = 64;
/// Parts of frames that are written with one call.
const SLICES_MAX: usize = 16;

/// An answer of less is likely to be waited for by itself; larger ones come in a stream.
const SMALL: usize = 4 << 10;

/// Why a session stands still.
enum ServeStep {
    Ended(ConnectionEnd),
    /// An answer was handled.
    Response,
}

impl ServeStep {
    fn lost(error: &impl std::fmt::Display) -> Self {
        Self::Ended(ConnectionEnd::Lost(ConnectFailure::new(
            FailureCause::Disconnected,
            error.to_string(),
        )))
    }
}

/// Why a session is over.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// Nothing was asked for so long that the socket is better given back.
    Idle,
    /// The client wants no more.
    Closed(CallError),
    Lost(ConnectFailure),
}

#[derive(Debug)]
pub(super) struct EstablishedConnection {
    link: Arc<Link>,
    common: Arc<Common>,
    versions: Arc<BrokerVersions>,
    transport: Transport,
    reader: FrameReader,
    /// Frames that are not yet written.
    out: VecDeque<Frame>,
    in_flight: VecDeque<InFlight>,
    correlation_id: i32,
    /// Nothing may be sent before.
    quiet_until_ms: i64,
    active_ms: i64,
    timer: Pin<Box<Sleep>>,
    /// When the timer fires. It may be too early, as it is moved only to the front; never too late.
    timer_ms: i64,
}

struct InFlight {
    call: Box<dyn Call>,
    correlation_id: i32,
    sent: Instant,
    timeout_ms: i64,
    deadline_ms: i64,
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.call.api(), self.correlation_id)
    }
}

impl EstablishedConnection {
    /// Agrees with the broker on versions.
    pub(super) async fn begin(
        link: Arc<Link>,
        common: Arc<Common>,
        mut transport: Transport,
    ) -> Result<Self, ConnectFailure> {
        let settings = &common.settings;
        let mut reader = FrameReader::new(settings.response_bytes_max, common.buffers.clone());
        let limit = Duration::from_millis(u64::try_from(settings.request_timeout_ms).unwrap_or(0));
        let agreed = timeout(limit, negotiate(&mut transport, &mut reader, &common)).await;
        let agreed = agreed.map_err(|_| {
            let reason = format!("it did not answer ApiVersions within {} ms", limit.as_millis());
            ConnectFailure::new(FailureCause::TimedOut, reason)
        })?;
        let (versions, correlation_id) = agreed?;
        Ok(Self {
            link,
            common,
            versions: Arc::new(versions),
            transport,
            reader,
            out: VecDeque::new(),
            in_flight: VecDeque::new(),
            correlation_id,
            quiet_until_ms: 0,
            active_ms: now_ms(),
            timer: Box::pin(tokio::time::sleep_until(instant(i64::MAX))),
            timer_ms: i64::MAX,
        })
    }

    pub(super) fn versions(&self) -> &Arc<BrokerVersions> {
        &self.versions
    }

    /// Serves requests until the end.
    pub(super) async fn serve(&mut self) -> ConnectionEnd {
        loop {
            match poll_fn(|cx| self.poll_serve(cx)).await {
                ServeStep::Ended(end) => return end,
                // Whoever waits for the answer is on the same threads, and comes before the next request is written.
                ServeStep::Response => tokio::task::yield_now().await,
            }
        }
    }

    /// Whether a request was sent and has no answer.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Fails what was sent and has no answer.
    pub(super) fn fail_in_flight(self, error: &CallError) {
        self.link.in_flight.store(0, Relaxed);
        let in_flight = self.in_flight;
        // The socket is closed before anybody is told.
        drop(self.transport);
        for sent in in_flight {
            sent.call.fail(error.clone());
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<ServeStep> {
        for _ in 0..STEPS_MAX {
            let now = now_ms();
            self.fill(now);
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(ServeStep::lost(&error));
            }
            match self.reader.poll_frame(cx, &mut self.transport) {
                Poll::Ready(Ok(response)) => {
                    let is_small = response.len() < SMALL;
                    if let Err(end) = self.handle_response(response, now) {
                        return Poll::Ready(ServeStep::Ended(end));
                    }
                    if is_small && self.link.role == Role::Records {
                        return Poll::Ready(ServeStep::Response);
                    }
                    continue;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(ServeStep::lost(&error)),
                Poll::Pending => {}
            }
            let queued_deadline_ms = match self.link.park(cx, self.can_send(now)) {
                ParkOutcome::Work => continue,
                ParkOutcome::Closed(error) => return Poll::Ready(ServeStep::Ended(ConnectionEnd::Closed(error))),
                ParkOutcome::Asleep { deadline_ms } => deadline_ms,
            };
            ready!(self.poll_timer(cx, queued_deadline_ms));
            if let Some(end) = self.handle_timeout(now_ms()) {
                return Poll::Ready(ServeStep::Ended(end));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn can_send(&self, now_ms: i64) -> bool {
        now_ms >= self.quiet_until_ms && self.in_flight.len() < IN_FLIGHT_MAX
    }

    /// Makes frames of requests that wait.
    fn fill(&mut self, now_ms: i64) {
        // A request that cannot be written may be sent again by its handler, and again.
        for _ in 0..IN_FLIGHT_MAX {
            if !self.can_send(now_ms) {
                return;
            }
            let Some(QueuedCall {
                mut call, timeout_ms, ..
            }) = self.link.pop()
            else {
                return;
            };
            self.correlation_id = self.correlation_id.wrapping_add(1);
            let version = self.versions.choose(call.api(), call.versions(), &self.link.endpoint);
            let client_id = &self.common.settings.client_id;
            let frame = version.and_then(|version| call.encode(version, self.correlation_id, client_id));
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => {
                    call.fail(error);
                    continue;
                }
            };
            for counters in [&self.link.counters, &self.common.totals] {
                counters.sent(frame.remaining());
            }
            self.out.push_back(frame);
            if !call.expects_response() {
                call.sent();
                continue;
            }
            self.in_flight.push_back(InFlight {
                call,
                correlation_id: self.correlation_id,
                sent: Instant::now(),
                timeout_ms,
                deadline_ms: now_ms.saturating_add(timeout_ms),
            });
            self.link.in_flight.store(self.in_flight.len(), Relaxed);
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let mut filled = 0;
            for frame in &self.out {
                filled += frame.chunks_vectored(slices.get_mut(filled..).unwrap_or_default());
            }
            let slices = slices.get(..filled).unwrap_or_default();
            let mut written = ready!(Pin::new(&mut self.transport).poll_write_vectored(cx, slices))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.active_ms = now_ms();
            while let Some(frame) = self.out.front_mut() {
                let count = written.min(frame.remaining());
                frame.advance(count);
                written -= count;
                if frame.has_remaining() {
                    break;
                }
                self.out.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn handle_response(&mut self, response: Bytes, now_ms: i64) -> Result<(), ConnectionEnd> {
        self.active_ms = now_ms;
        let lost = |why: String| {
            Err(ConnectionEnd::Lost(ConnectFailure::new(
                FailureCause::WrongProtocol,
                why,
            )))
        };
        let Some(request) = self.in_flight.pop_front() else {
            return lost("it sent an answer that nobody had asked for".to_owned());
        };
        self.link.in_flight.store(self.in_flight.len(), Relaxed);
        let correlation_id = frame::correlation_id(&response);
        if correlation_id != Ok(request.correlation_id) {
            let error = CallError::MalformedResponse {
                address: self.link.endpoint.clone(),
                api: request.call.api(),
                why: match correlation_id {
                    Ok(id) => format!(
                        "it is for request {id}, but the next is that for {}",
                        request.correlation_id
                    ),
                    Err(error) => error.to_string(),
                },
            };
            let why = error.to_string();
            request.call.fail(error);
            return lost(why);
        }
        let latency_us = u64::try_from(request.sent.elapsed().as_micros()).unwrap_or(u64::MAX);
        for counters in [&self.link.counters, &self.common.totals] {
            counters.received(response.len() + frame::LENGTH_SIZE, latency_us);
        }
        match request.call.complete(response, latency_us, &self.link.endpoint) {
            Ok(0) => Ok(()),
            Ok(quiet_ms) => {
                for counters in [&self.link.counters, &self.common.totals] {
                    counters.throttled(quiet_ms.unsigned_abs());
                }
                self.quiet_until_ms = self.quiet_until_ms.max(now_ms.saturating_add(quiet_ms));
                Ok(())
            }
            Err(error) => lost(error.to_string()),
        }
    }

    /// Ready when something may be due.
    fn poll_timer(&mut self, cx: &mut Context<'_>, queued_deadline_ms: Option<i64>) -> Poll<()> {
        let due_ms = self.due_ms(queued_deadline_ms);
        if due_ms < self.timer_ms {
            self.timer_ms = due_ms;
            self.timer.as_mut().reset(instant(due_ms));
        }
        ready!(self.timer.as_mut().poll(cx));
        self.timer_ms = i64::MAX;
        Poll::Ready(())
    }

    fn due_ms(&self, queued_deadline_ms: Option<i64>) -> i64 {
        let sent = self.in_flight.iter().map(|sent| sent.deadline_ms).min();
        let quiet = queued_deadline_ms
            .and(Some(self.quiet_until_ms))
            .filter(|&until| until > now_ms());
        let due = sent.into_iter().chain(queued_deadline_ms).chain(quiet);
        due.min().unwrap_or(i64::MAX).min(self.idle_until_ms())
    }

    fn idle_until_ms(&self) -> i64 {
        match self.common.settings.connections_max_idle_ms {
            idle_ms if idle_ms < 0 || !self.in_flight.is_empty() => i64::MAX,
            idle_ms => self.active_ms.saturating_add(idle_ms),
        }
    }

    fn handle_timeout(&mut self, now_ms: i64) -> Option<ConnectionEnd> {
        self.link.expire(now_ms);
        if self.in_flight.iter().any(|sent| sent.deadline_ms <= now_ms) {
            return Some(self.fail_late(now_ms));
        }
        (self.idle_until_ms() <= now_ms).then_some(ConnectionEnd::Idle)
    }

    /// An answer that comes too late would stand in the way of all others, so the connection ends. Those whose time is
    /// over are told so.
    fn fail_late(&mut self, now_ms: i64) -> ConnectionEnd {
        let in_flight = std::mem::take(&mut self.in_flight);
        let (late, others): (VecDeque<_>, _) = in_flight.into_iter().partition(|sent| sent.deadline_ms <= now_ms);
        self.in_flight = others;
        let mut why = String::new();
        for sent in late {
            let error = self.link.timed_out(sent.call.api(), sent.timeout_ms);
            why = error.to_string();
            sent.call.fail(error);
        }
        ConnectionEnd::Lost(ConnectFailure::new(FailureCause::RequestTimedOut, why))
    }
}

/// Asks until both sides know what the other speaks. Gives that, and the last correlation id.
async fn negotiate(
    transport: &mut Transport,
    reader: &mut FrameReader,
    common: &Common,
) -> Result<(BrokerVersions, i32), ConnectFailure> {
    let wrong = |reason| ConnectFailure::new(FailureCause::WrongProtocol, reason);
    let mut negotiation = Negotiation::new();
    let mut correlation_id = 0;
    loop {
        correlation_id += 1;
        let client_id = Some(&common.settings.client_id);
        let request = frame::encode_request(&negotiation.request(), negotiation.version(), correlation_id, client_id);
        let mut request = request.map_err(|error| wrong(error.to_string()))?;
        transport
            .write_all_buf(&mut request)
            .await
            .map_err(|error| ConnectFailure::of_handshake(&error.into()))?;
        let response = poll_fn(|cx| reader.poll_frame(cx, transport)).await;
        let response = response.map_err(|error| ConnectFailure::of_handshake(&error))?;
        let unreadable = |error| wrong(format!("its answer to ApiVersions cannot be read: {error}"));
        if frame::correlation_id(&response).map_err(unreadable)? != correlation_id {
            let reason = "it does not speak Kafka's protocol: the first answer is not for the first request";
            return Err(wrong(reason.to_owned()));
        }
        match negotiation.handle(&response).map_err(unreadable)? {
            NegotiationStep::Done(versions) => return Ok((versions, correlation_id)),
            NegotiationStep::Again(next) => negotiation = next,
            NegotiationStep::Refused(error) => return Err(wrong(format!("it refused to say what it speaks: {error}"))),
        }
    }
}
