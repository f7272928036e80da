//! One connection, from the handshake to its end.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use milena_wire::frame::{self, Frame};
use tokio::{
    io::AsyncWrite,
    time::{Instant, Sleep},
};

use super::{
    BrokerVersions, CallError,
    auth::{Renewal, Session},
    call::Call,
    connection::{Common, Link, ParkOutcome, QueuedCall, Role},
    dial::Transport,
    error::{ConnectError, DisconnectCause, ReceiveError, ResponseProblem},
    handshake::Handshake,
    lifecycle::while_waiting,
    receive::FrameReader,
};
use crate::io::{instant, now_ms};

/// Most requests in flight on one connection; more wait in the queue.
const IN_FLIGHT_MAX: usize = 100;
/// Most steps in one poll of the task, so that other tasks of the thread can run.
const STEPS_MAX: usize = 64;
/// Most slices in one vectored write.
const SLICES_MAX: usize = 16;

/// Smaller responses are likely to be waited for one by one; larger ones are part of a stream.
const SMALL: usize = 4 << 10;

/// The reason why `poll_serve` returns.
enum ServeStep {
    Ended(ConnectionEnd),
    /// A small response was handled.
    Response,
    /// Nothing is in flight, and the session must be renewed before the next request.
    Renew,
}

impl ServeStep {
    fn lost(cause: DisconnectCause) -> Self {
        Self::Ended(ConnectionEnd::Lost(cause))
    }
}

/// The reason why a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// Nothing was sent for `connections.max.idle.ms`.
    Idle,
    /// The client closed the connection.
    Closed(CallError),
    Lost(DisconnectCause),
}

#[derive(Debug)]
pub(super) struct EstablishedConnection {
    link: Arc<Link>,
    common: Arc<Common>,
    versions: BrokerVersions,
    transport: Transport,
    reader: FrameReader,
    /// Frames that are not completely written.
    out: VecDeque<Frame>,
    in_flight: VecDeque<InFlight>,
    correlation_id: i32,
    session: Session,
    /// Whether requests wait for the session to be renewed.
    is_renewing: bool,
    /// Whether bytes of TLS may wait for the socket.
    is_unflushed: bool,
    /// Whether a response was received, after those of the handshake.
    has_received: bool,
    /// The broker asked the client not to send before this time.
    quiet_until_ms: i64,
    active_ms: i64,
    timer: Pin<Box<Sleep>>,
    /// The deadline of the timer. The timer is only ever moved forward, so it may fire too early, never too late.
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
    /// Runs the handshake over a fresh transport.
    pub(super) async fn begin(
        link: Arc<Link>,
        common: Arc<Common>,
        mut transport: Transport,
    ) -> Result<Self, ConnectError> {
        let settings = &common.settings;
        let mut reader = FrameReader::new(settings.response_bytes_max, common.buffers.clone());
        let mut correlation_id = 0;
        let mut handshake = Handshake {
            transport: &mut transport,
            reader: &mut reader,
            settings,
            broker: &link.endpoint,
            correlation_id: &mut correlation_id,
        };
        let versions = handshake.negotiate().await?;
        let session = match &common.authenticator {
            Some(authenticator) => {
                let session = authenticator.log_in(&mut handshake, &versions).await?;
                for counters in [&link.counters, &common.totals] {
                    counters.authenticated();
                }
                session
            }
            None => Session::default(),
        };
        Ok(Self {
            link,
            common,
            versions,
            transport,
            reader,
            out: VecDeque::new(),
            in_flight: VecDeque::new(),
            correlation_id,
            session,
            is_renewing: false,
            is_unflushed: false,
            has_received: false,
            quiet_until_ms: 0,
            active_ms: now_ms(),
            timer: Box::pin(tokio::time::sleep_until(instant(i64::MAX))),
            timer_ms: i64::MAX,
        })
    }

    pub(super) fn versions(&self) -> &BrokerVersions {
        &self.versions
    }

    /// Serves requests until the connection ends.
    pub(super) async fn serve(&mut self) -> ConnectionEnd {
        loop {
            match poll_fn(|cx| self.poll_serve(cx)).await {
                ServeStep::Ended(end) => return end,
                // The task that waits for the response runs on the same runtime; it may send before the next request is
                // written.
                ServeStep::Response => tokio::task::yield_now().await,
                ServeStep::Renew => {
                    let link = Arc::clone(&self.link);
                    // Requests wait meanwhile; only their own time can end.
                    match while_waiting(&link, self.renew()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(cause)) => return ConnectionEnd::Lost(cause),
                        Err(closed) => return ConnectionEnd::Closed(closed),
                    }
                }
            }
        }
    }

    /// Renews the session. Nothing is in flight.
    async fn renew(&mut self) -> Result<(), DisconnectCause> {
        let Some(authenticator) = &self.common.authenticator else {
            return Ok(());
        };
        let started_ms = now_ms();
        let mut handshake = Handshake {
            transport: &mut self.transport,
            reader: &mut self.reader,
            settings: &self.common.settings,
            broker: &self.link.endpoint,
            correlation_id: &mut self.correlation_id,
        };
        let renewal = authenticator.renew(&mut handshake, &self.versions, &self.session).await;
        self.is_renewing = false;
        self.active_ms = now_ms();
        let counters = [&self.link.counters, &self.common.totals];
        match renewal {
            Ok(Renewal::Renewed(session)) => {
                let ms = u64::try_from(self.active_ms.saturating_sub(started_ms)).unwrap_or(0);
                counters.iter().for_each(|counters| counters.reauthenticated(ms));
                tracing::debug!(
                    event = "reauthenticated",
                    node = self.link.node_id,
                    ms,
                    "session renewed"
                );
                self.session = session;
                Ok(())
            }
            Ok(Renewal::NoToken(error)) => {
                tracing::warn!(
                    event = "session_not_renewed",
                    node = self.link.node_id,
                    "the session cannot be renewed: {error}; the broker may close the connection"
                );
                self.session.renew_at_ms = None;
                Ok(())
            }
            Ok(Renewal::OtherIdentity) => Err(DisconnectCause::IdentityChanged),
            Err(error) => {
                counters.iter().for_each(|counters| counters.reauthentication_failed());
                Err(DisconnectCause::Reauthentication(error.to_string()))
            }
        }
    }

    pub(super) fn has_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Fails all requests in flight.
    pub(super) fn fail_in_flight(self, error: &CallError) {
        self.link.in_flight.store(0, Relaxed);
        let in_flight = self.in_flight;
        // The socket is closed before the callbacks run.
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
                return Poll::Ready(ServeStep::lost(DisconnectCause::Send(error.into())));
            }
            if self.is_renewing && self.in_flight.is_empty() && self.out.is_empty() && !self.is_unflushed {
                return Poll::Ready(ServeStep::Renew);
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
                Poll::Ready(Err(error)) => return Poll::Ready(ServeStep::lost(self.explain_loss(error))),
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
        now_ms >= self.quiet_until_ms && self.in_flight.len() < IN_FLIGHT_MAX && !self.is_renewing
    }

    /// A session is renewed before a request, not by a timer: idle connections cost nothing.
    fn is_renewal_due(&self, now_ms: i64) -> bool {
        let is_due = self.session.renew_at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        is_due && now_ms >= self.quiet_until_ms && self.link.has_waiting()
    }

    fn explain_loss(&self, error: ReceiveError) -> DisconnectCause {
        let has_sasl = self.common.authenticator.is_some();
        let is_first = !self.has_received && !self.in_flight.is_empty() && !has_sasl;
        match error {
            ReceiveError::Eof if is_first => DisconnectCause::ClosedAtFirstRequest,
            error => error.into(),
        }
    }

    /// Encodes queued requests.
    fn fill(&mut self, now_ms: i64) {
        self.is_renewing |= self.is_renewal_due(now_ms);
        // Bounded, because the callback of a request that cannot be encoded may send it again.
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
            self.is_unflushed = true;
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
        if self.is_unflushed {
            ready!(Pin::new(&mut self.transport).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn handle_response(&mut self, response: Bytes, now_ms: i64) -> Result<(), ConnectionEnd> {
        self.active_ms = now_ms;
        self.has_received = true;
        let Some(request) = self.in_flight.pop_front() else {
            return Err(ConnectionEnd::Lost(DisconnectCause::UnexpectedResponse));
        };
        self.link.in_flight.store(self.in_flight.len(), Relaxed);
        let problem = match frame::correlation_id(&response) {
            Ok(id) if id == request.correlation_id => None,
            Ok(received) => Some(ResponseProblem::WrongCorrelationId {
                expected: request.correlation_id,
                received,
            }),
            Err(error) => Some(ResponseProblem::Decode(error)),
        };
        if let Some(problem) = problem {
            let api = request.call.api();
            request.call.fail(CallError::MalformedResponse {
                address: self.link.endpoint.clone(),
                api,
                problem: problem.clone(),
            });
            return Err(ConnectionEnd::Lost(DisconnectCause::MalformedResponse { api, problem }));
        }
        let latency_us = u64::try_from(request.sent.elapsed().as_micros()).unwrap_or(u64::MAX);
        for counters in [&self.link.counters, &self.common.totals] {
            counters.received(response.len() + frame::LENGTH_SIZE, latency_us);
        }
        let api = request.call.api();
        match request.call.complete(response, latency_us, &self.link.endpoint) {
            Ok(0) => Ok(()),
            Ok(quiet_ms) => {
                for counters in [&self.link.counters, &self.common.totals] {
                    counters.throttled(quiet_ms.unsigned_abs());
                }
                self.quiet_until_ms = self.quiet_until_ms.max(now_ms.saturating_add(quiet_ms));
                Ok(())
            }
            Err(problem) => Err(ConnectionEnd::Lost(DisconnectCause::MalformedResponse { api, problem })),
        }
    }

    /// Ready when a deadline may have passed.
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
        if let Some(cause) = self.fail_late(now_ms) {
            return Some(ConnectionEnd::Lost(cause));
        }
        (self.idle_until_ms() <= now_ms).then_some(ConnectionEnd::Idle)
    }

    /// Fails the requests whose time is over. A late response would block all that follow, so the connection ends then.
    fn fail_late(&mut self, now_ms: i64) -> Option<DisconnectCause> {
        if self.in_flight.iter().all(|sent| sent.deadline_ms > now_ms) {
            return None;
        }
        let in_flight = std::mem::take(&mut self.in_flight);
        let (late, others): (VecDeque<_>, _) = in_flight.into_iter().partition(|sent| sent.deadline_ms <= now_ms);
        self.in_flight = others;
        let mut cause = None;
        for sent in late {
            let (api, timeout_ms) = (sent.call.api(), sent.timeout_ms);
            cause = Some(DisconnectCause::RequestTimedOut { api, timeout_ms });
            sent.call.fail(self.link.timed_out(api, timeout_ms));
        }
        cause
    }
}
