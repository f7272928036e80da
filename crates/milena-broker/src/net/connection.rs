//! One connection: requests begin in the order they arrive, and responses leave in that order.
//!
//! A request that must wait, such as a fetch for records or a produce for a sync, does not keep the requests behind it from
//! beginning; their responses wait for its response. After a response with a throttle time, nothing is read, begun or sent
//! until that time is over.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use milena_invariant::violated;
use milena_wire::frame::LENGTH_SIZE;
use tokio::{
    net::{TcpStream, tcp::OwnedWriteHalf},
    time::Instant,
};

use super::{
    Peer,
    frames::{FrameMemory, FrameReader, ReadFrame, ReadFrameError},
    inbound::InboundRequest,
    outbound::OutboundResponse,
};
use crate::{
    handlers::{self, BoxFuture, Outcome, RequestContext},
    node::Node,
};

pub(super) async fn serve(stream: TcpStream, peer: Peer, node: Arc<Node>) {
    let _open = node.metrics.connection_opened();
    if let Err(reason) = run(stream, &node, &peer).await {
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
}

async fn run(stream: TcpStream, node: &Arc<Node>, peer: &Peer) -> Result<(), CloseReason> {
    let config = node.config();
    let length_max = usize::try_from(config.socket_request_max_bytes).unwrap_or(0);
    let idle_max = Duration::from_millis(u64::try_from(config.connections_max_idle_ms).unwrap_or(u64::MAX));
    let (reader, writer) = stream.into_split();
    let mut frames = FrameReader::new(reader, length_max, node.request_memory.clone());
    let mut connection = Connection {
        node,
        peer,
        pending: VecDeque::new(),
        writer,
    };
    let pending_max = config.limits.pending_requests;
    let mut throttle_time = Duration::ZERO;
    // One timer for the whole connection. It is not reset with each request, only when it fires: most never do.
    let mut idle_timer = pin!(tokio::time::sleep(idle_max));
    let mut last_active = Instant::now();
    loop {
        if !throttle_time.is_zero() {
            tokio::time::sleep(throttle_time).await;
        }
        throttle_time = tokio::select! {
            frame = frames.next(), if connection.pending.len() < pending_max => {
                let Some(frame) = frame? else { return Ok(()) };
                last_active = Instant::now();
                connection.begin(frame, last_active).await?
            }
            response = next_response(&mut connection.pending), if !connection.pending.is_empty() => {
                let received = connection.pending.pop_front().map_or(last_active, |pending| pending.received);
                let response = response.ok_or_else(|| CloseReason::Refused("a request has no response".to_owned()))?;
                last_active = Instant::now();
                connection.send(response, received).await?
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
    /// Responses that are not sent yet, in the order of their requests.
    pending: VecDeque<PendingResponse>,
    writer: OwnedWriteHalf,
}

impl Connection<'_> {
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
            None => response.send(&mut self.writer).await?,
            Some(charge) => charge.network(response.send(&mut self.writer)).await?,
        }
        self.node.metrics.bytes_sent(bytes);
        self.node.metrics.request_ended(key, received.elapsed(), &errors);
        Ok(throttle_time)
    }
}

/// The response that is next in order.
async fn next_response(pending: &mut VecDeque<PendingResponse>) -> Option<OutboundResponse> {
    match pending.front_mut() {
        Some(pending) => (&mut pending.response).await,
        None => std::future::pending().await,
    }
}
