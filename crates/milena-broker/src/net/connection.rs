//! One connection: requests begin in the order they arrive, and responses leave in that order.
//!
//! A request that must wait, such as a fetch for records or a produce for a sync, does not keep the requests behind it from
//! beginning; their responses wait for its response. After a response with a throttle time, nothing is read, begun or sent
//! until that time is over.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use milena_invariant::violated;
use milena_machines::sasl::RequestVerdict;
use milena_wire::api::ApiKey;
use milena_wire::frame::LENGTH_SIZE;
use tokio::{net::TcpStream, time::Instant};

use super::{
    Peer,
    endpoint::Endpoint,
    establish::{Established, establish},
    failures::ConnectionFailure,
    frames::{FrameReader, ReadFrame, ReadFrameError},
    inbound::InboundRequest,
    login::{Login, LoginError, LoginIo},
    memory::FrameMemory,
    outbound::OutboundResponse,
    transport::Transport,
};
use crate::{
    handlers::{self, BoxFuture, Outcome, RequestContext},
    node::Node,
};

/// Serves a connection until it ends.
pub(super) async fn serve(socket: TcpStream, mut peer: Peer, endpoint: Arc<Endpoint>, node: Arc<Node>) {
    let _open = node.metrics.connection_opened();
    let _open_on_listener = endpoint.metrics.opened();
    let Some(established) = establish(socket, &mut peer, &endpoint, &node).await else {
        return;
    };
    if let Err(reason) = run(established, &node, &peer, &endpoint).await {
        if let CloseReason::WrongProtocol(failure) = &reason {
            failure.report(&peer, &endpoint);
        }
        tracing::debug!(
            event = "connection_closed",
            peer = %peer.address,
            principal = %peer.principal,
            listener = %peer.listener,
            %reason,
            "connection closed"
        );
    }
}

/// The reason why the broker closes a connection.
#[derive(Debug, thiserror::Error)]
enum CloseReason {
    #[error(transparent)]
    Read(#[from] ReadFrameError),
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("idle for {0:?} (connections.max.idle.ms)")]
    Idle(Duration),
    #[error("{0}")]
    WrongProtocol(ConnectionFailure),
    #[error("its session has ended, and it was not renewed (connections.max.reauth.ms)")]
    SessionExpired,
    #[error("its session was not renewed")]
    NotRenewed,
}

async fn run(established: Established, node: &Arc<Node>, peer: &Peer, endpoint: &Endpoint) -> Result<(), CloseReason> {
    let config = node.config();
    let length_max = usize::try_from(config.socket_request_max_bytes).unwrap_or(0);
    let idle_max = Duration::from_millis(u64::try_from(config.connections_max_idle_ms).unwrap_or(u64::MAX));
    let mut frames = established.frames.with_memory(length_max, node.request_memory.clone());
    let mut connection = Connection {
        node,
        peer,
        endpoint,
        pending: VecDeque::new(),
        transport: established.transport,
        login: established.login,
    };
    let pending_max = config.limits.pending_requests;
    let mut throttle_time = Duration::ZERO;
    // One timer for the whole connection. It is not reset with each request, only when it fires: most never do.
    let mut idle_timer = pin!(tokio::time::sleep(idle_max));
    let mut last_active = Instant::now();
    loop {
        if !throttle_time.is_zero() {
            tokio::time::sleep(throttle_time.min(idle_max)).await;
            if throttle_time > idle_max {
                // Its end would not be noticed for as long; as in Kafka, a throttled connection is idle.
                return Err(CloseReason::Idle(idle_max));
            }
        }
        throttle_time = tokio::select! {
            frame = frames.next(&mut connection.transport), if connection.pending.len() < pending_max => {
                let frame = frame.map_err(|error| read_error(error, &frames))?;
                let Some(frame) = frame else { return Ok(()) };
                last_active = Instant::now();
                if connection.may_begin(&frame.bytes)? {
                    connection.begin(frame, last_active).await?
                } else {
                    Box::pin(connection.renew(frame.bytes.clone(), &mut frames)).await?
                }
            }
            response = next_response(&mut connection.pending), if !connection.pending.is_empty() => {
                last_active = Instant::now();
                connection.send_next(response).await?
            }
            () = &mut idle_timer, if connection.pending.is_empty() => {
                if last_active.elapsed() >= idle_max {
                    return Err(CloseReason::Idle(idle_max));
                }
                idle_timer.as_mut().reset(last_active + idle_max);
                Duration::ZERO
            }
        };
    }
}

/// A response that is not sent yet.
struct PendingResponse {
    response: BoxFuture<Option<OutboundResponse>>,
    /// When the request was received.
    received: Instant,
    /// The memory of a large request, which is in use until then.
    _memory: Option<FrameMemory>,
}

struct Connection<'a> {
    node: &'a Arc<Node>,
    peer: &'a Peer,
    endpoint: &'a Endpoint,
    /// Responses that are not sent yet, in the order of their requests.
    pending: VecDeque<PendingResponse>,
    transport: Transport,
    /// Present on listeners with SASL.
    login: Option<Login>,
}

impl Connection<'_> {
    /// Whether a request may begin; if not, it is the start of a renewal of the session.
    fn may_begin(&mut self, frame: &Bytes) -> Result<bool, CloseReason> {
        let Some(login) = &mut self.login else {
            return Ok(true);
        };
        let key = frame.first_chunk().map(|id| i16::from_be_bytes(*id));
        // A request of an unknown API is refused where it is parsed.
        let Some(key) = key.and_then(ApiKey::from_id) else {
            return Ok(true);
        };
        match login.verdict(key) {
            RequestVerdict::Serve => Ok(true),
            RequestVerdict::Reauthenticate => Ok(false),
            RequestVerdict::Expired => {
                self.endpoint.metrics.session_expired();
                Err(CloseReason::SessionExpired)
            }
        }
    }

    /// Renews the session (KIP-368), after the responses to all requests before. Returns their throttle time.
    async fn renew(&mut self, frame: Bytes, frames: &mut FrameReader) -> Result<Duration, CloseReason> {
        let mut throttle_time = Duration::ZERO;
        while !self.pending.is_empty() {
            let response = next_response(&mut self.pending).await;
            throttle_time = throttle_time.max(self.send_next(response).await?);
        }
        let Some(login) = &mut self.login else {
            return Ok(throttle_time);
        };
        let io = LoginIo {
            node: self.node,
            peer: self.peer,
            transport: &mut self.transport,
            frames,
        };
        let limit = self.node.config().login_time_max();
        let renewed = match tokio::time::timeout(limit, login.run(Some(frame), io)).await {
            Ok(renewed) => renewed,
            Err(_) => Err(LoginError::Timeout(limit)),
        };
        match renewed {
            Ok(session) => {
                self.endpoint.metrics.reauthenticated();
                tracing::debug!(
                    event = "client_logged_in_again",
                    peer = %self.peer.address,
                    principal = %self.peer.principal,
                    lifetime_ms = session.lifetime_ms,
                    "client renewed its session"
                );
                Ok(throttle_time)
            }
            Err(error) => {
                if let Some(failure) = error.failure() {
                    self.endpoint.metrics.reauthentication_failed();
                    failure.report(self.peer, self.endpoint);
                }
                self.transport.close();
                Err(CloseReason::NotRenewed)
            }
        }
    }

    /// Sends the response to the oldest pending request, and returns its throttle time.
    async fn send_next(&mut self, response: Option<OutboundResponse>) -> Result<Duration, CloseReason> {
        let received = self
            .pending
            .pop_front()
            .map_or_else(Instant::now, |pending| pending.received);
        let response = response.ok_or_else(|| CloseReason::Refused("a request has no response".to_owned()))?;
        self.send(response, received).await
    }

    /// Begins a request, and sends its response if it is ready and none before it is pending. Returns the throttle time.
    async fn begin(&mut self, frame: ReadFrame, received: Instant) -> Result<Duration, CloseReason> {
        self.node.metrics.bytes_received(LENGTH_SIZE + frame.bytes.len());
        let request = InboundRequest::parse(frame.bytes.clone(), self.node.throttle.clone())
            .map_err(|error| CloseReason::Refused(error.to_string()))?
            .charged_to(self.peer, &self.node.quotas);
        let mut outcome = handlers::handle(&RequestContext {
            node: self.node,
            peer: self.peer,
            request: &request,
        });
        if let Outcome::First(begin) = outcome {
            outcome = begin.await;
        }
        let response: BoxFuture<Option<OutboundResponse>> = match outcome {
            Outcome::Ready(response) if self.pending.is_empty() => return self.send(response, received).await,
            Outcome::Ready(response) => Box::pin(std::future::ready(Some(response))),
            Outcome::Later(response) => response,
            Outcome::NoResponse => {
                self.node.metrics.request_ended(request.key, received.elapsed(), &[]);
                return Ok(request.throttle_time_without_response());
            }
            Outcome::First(_) => {
                violated!("a_request_is_deferred_once");
                return Err(CloseReason::Refused("a request was deferred twice".to_owned()));
            }
            Outcome::Close(reason) => return Err(CloseReason::Refused(reason)),
        };
        self.pending.push_back(PendingResponse {
            response,
            received,
            _memory: frame.kept_memory(),
        });
        Ok(Duration::ZERO)
    }

    /// Sends a response and returns its throttle time.
    async fn send(&mut self, mut response: OutboundResponse, received: Instant) -> Result<Duration, CloseReason> {
        let (key, throttle_time, bytes) = (response.key, response.throttle_time, response.size());
        let errors = std::mem::take(&mut response.errors);
        match response.charge.take() {
            None => self.transport.send(response).await?,
            Some(charge) => charge.network(self.transport.send(response)).await?,
        }
        self.node.metrics.bytes_sent(bytes);
        self.node.metrics.request_ended(key, received.elapsed(), &errors);
        Ok(throttle_time)
    }
}

/// The reason why a frame could not be read, with a hint if the client speaks another protocol.
fn read_error(error: ReadFrameError, frames: &FrameReader) -> CloseReason {
    match ConnectionFailure::sniff(frames.head()) {
        Some(failure) if matches!(error, ReadFrameError::Frame(_)) => CloseReason::WrongProtocol(failure),
        _ => CloseReason::Read(error),
    }
}

/// The response that is next in order.
async fn next_response(pending: &mut VecDeque<PendingResponse>) -> Option<OutboundResponse> {
    match pending.front_mut() {
        Some(pending) => (&mut pending.response).await,
        None => std::future::pending().await,
    }
}
