//! One connection: requests are begun in the order they come, and answered in that order too.
//!
//! A request that must wait, as a fetch for records or a produce for a sync, does not keep the ones behind it from being
//! begun; their answers wait their turn. After an answer that tells the client to pause, nothing is read, begun or sent
//! until the pause is over.

use std::{
    collections::VecDeque,
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::{
    net::{TcpStream, tcp::OwnedWriteHalf},
    time::Instant,
};

use super::{
    frames::{FrameReader, ReadFrameError},
    incoming::Incoming,
    outgoing::Outgoing,
};
use crate::{
    handlers::{self, Outcome, RequestContext},
    node::Node,
};

/// Answers that may wait at once; then no more requests are read.
const WAITING_MAX: usize = 64;

type Later = Pin<Box<dyn Future<Output = Option<Outgoing>> + Send>>;

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// As Kafka writes it: `/127.0.0.1`.
    pub(crate) host: ByteString,
    pub(crate) address: SocketAddr,
    software: Arc<Mutex<Software>>,
}

/// The program at the other end, as it named itself in ApiVersions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Software {
    pub(crate) name: ByteString,
    pub(crate) version: ByteString,
}

impl Peer {
    pub(crate) fn software(&self) -> Software {
        self.software.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_software(&self, software: Software) {
        *self.software.lock().unwrap_or_else(PoisonError::into_inner) = software;
    }
}

pub(super) async fn serve(stream: TcpStream, address: SocketAddr, node: Arc<Node>) {
    let peer = Peer {
        host: format!("/{}", address.ip()).into(),
        address,
        software: Arc::default(),
    };
    if let Err(reason) = run(stream, &node, &peer).await {
        tracing::debug!(peer = %address, %reason, "connection closed");
    }
}

#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error(transparent)]
    Read(#[from] ReadFrameError),
    #[error("cannot write: {0}")]
    Write(#[from] std::io::Error),
    #[error("{0}")]
    Refused(String),
    #[error("nothing was said for {0:?}")]
    Idle(Duration),
}

async fn run(stream: TcpStream, node: &Arc<Node>, peer: &Peer) -> Result<(), Closed> {
    let config = node.config();
    let length_max = usize::try_from(config.socket_request_max_bytes).unwrap_or(0);
    let idle = Duration::from_millis(u64::try_from(config.connections_max_idle_ms).unwrap_or(u64::MAX));
    let (reader, mut writer) = stream.into_split();
    let mut frames = FrameReader::new(reader, length_max, node.request_memory.clone());
    let mut waiting: VecDeque<Later> = VecDeque::new();
    let mut pause = Duration::ZERO;
    // One timer for the whole connection. It is not set anew with each request, but when it rings: most never do.
    let mut silence = pin!(tokio::time::sleep(idle));
    let mut heard = Instant::now();
    loop {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        pause = tokio::select! {
            frame = frames.next(), if waiting.len() < WAITING_MAX => {
                let Some(frame) = frame? else { return Ok(()) };
                heard = Instant::now();
                begin(node, peer, frame.bytes.clone(), &mut waiting, &mut writer).await?
            }
            answer = first(&mut waiting), if !waiting.is_empty() => {
                waiting.pop_front();
                let answer = answer.ok_or_else(|| Closed::Refused("a request could not be answered".to_owned()))?;
                heard = Instant::now();
                send(answer, &mut writer).await?
            }
            () = &mut silence, if waiting.is_empty() => {
                if heard.elapsed() >= idle {
                    return Err(Closed::Idle(idle));
                }
                silence.as_mut().reset(heard + idle);
                Duration::ZERO
            }
        };
    }
}

/// Begins a request, and answers it if nothing before it waits. Gives the pause after it.
async fn begin(
    node: &Arc<Node>,
    peer: &Peer,
    frame: Bytes,
    waiting: &mut VecDeque<Later>,
    writer: &mut OwnedWriteHalf,
) -> Result<Duration, Closed> {
    let request = Incoming::parse(frame, node.throttle.clone()).map_err(|error| Closed::Refused(error.to_string()))?;
    let cx = RequestContext {
        node,
        peer,
        request: &request,
    };
    let mut outcome = handlers::handle(&cx);
    if let Outcome::First(begin) = outcome {
        outcome = begin.await;
    }
    match outcome {
        Outcome::Ready(answer) if waiting.is_empty() => return send(answer, writer).await,
        Outcome::Ready(answer) => waiting.push_back(Box::pin(std::future::ready(Some(answer)))),
        Outcome::Later(answer) => waiting.push_back(answer),
        Outcome::NoResponse => return Ok(request.pause_unanswered()),
        // Nothing waits for something that waits.
        Outcome::First(_) => return Err(Closed::Refused("a request could not be begun".to_owned())),
        Outcome::Close(reason) => return Err(Closed::Refused(reason)),
    }
    Ok(Duration::ZERO)
}

/// Sends an answer and gives the pause after it.
async fn send(answer: Outgoing, writer: &mut OwnedWriteHalf) -> Result<Duration, Closed> {
    let pause = answer.pause;
    answer.send(writer).await?;
    Ok(pause)
}

/// The answer that is next in order.
async fn first(waiting: &mut VecDeque<Later>) -> Option<Outgoing> {
    match waiting.front_mut() {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}
