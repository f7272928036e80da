//! A new connection, from its first byte to the end of its log-in.

use std::{sync::Arc, time::Duration};

use milena_security::tls::{FailureKind as TlsFailureKind, explain_accept, rustls};
use tokio::net::TcpStream;

use super::{
    Peer, Principal,
    endpoint::{Endpoint, EndpointSecurity},
    failures::{ConnectionFailure, FailureKind},
    frames::FrameReader,
    login::{Login, LoginError, LoginIo},
    tls::{HandshakeError, TlsStream},
    transport::Transport,
};
use crate::node::Node;

/// The longest TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// A connection whose requests may be served.
pub(super) struct Established {
    pub(super) transport: Transport,
    /// May hold the beginning of the first request.
    pub(super) frames: FrameReader,
    /// Present on listeners with SASL.
    pub(super) login: Option<Login>,
}

/// Brings a connection to the point where its requests may be served, and sets the principal of the peer. `None` if that
/// failed; the reason has been counted and logged.
pub(super) async fn establish(
    socket: TcpStream,
    peer: &mut Peer,
    endpoint: &Endpoint,
    node: &Arc<Node>,
) -> Option<Established> {
    let security = endpoint.security();
    if security.tls.is_none() && security.sasl.is_none() {
        return Some(Established {
            transport: Transport::Plain(socket),
            frames: FrameReader::small(0),
            login: None,
        });
    }
    let config = node.config();
    let mut place = node.unauthenticated.enter(config.max_unauthenticated_connections);
    let limit = config.login_time_max();
    let steps = Box::pin(authenticate(socket, peer, (endpoint, &security), node));
    let result = tokio::select! {
        result = tokio::time::timeout(limit, steps) => {
            result.unwrap_or_else(|_| Err(LoginError::Timeout(limit).failure()))
        }
        () = place.evicted() => {
            let reason = "too many connections had not logged in (milena.max.unauthenticated.connections); this was the \
                          oldest";
            Err(Some(ConnectionFailure::new(FailureKind::Evicted, reason)))
        }
    };
    match result {
        Ok(established) => Some(established),
        Err(failure) => {
            if let Some(failure) = failure {
                failure.report(peer, endpoint);
            }
            None
        }
    }
}

/// The TLS handshake and the log-in. The error is `None` if the client has just gone.
async fn authenticate(
    socket: TcpStream,
    peer: &mut Peer,
    (endpoint, security): (&Endpoint, &EndpointSecurity),
    node: &Arc<Node>,
) -> Result<Established, Option<ConnectionFailure>> {
    let mut transport = match &security.tls {
        None => Transport::Plain(socket),
        Some((_, tls)) => {
            let stream = handshake(socket, tls.config(), peer, node).await?;
            let is_resumed = stream.session().handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            endpoint.metrics.handshake_done(is_resumed);
            if security.sasl.is_none() {
                peer.principal = principal_of(&stream, security)?;
                endpoint.metrics.authenticated();
            }
            Transport::Tls {
                stream: Box::new(stream),
                buffers: Arc::clone(&node.tls_buffers),
            }
        }
    };
    let Some(sasl) = &security.sasl else {
        return Ok(Established {
            transport,
            frames: FrameReader::small(0),
            login: None,
        });
    };
    let mut frames = FrameReader::small(sasl.receive_size_max);
    let mut login = Login::new(Arc::clone(sasl), node);
    let io = LoginIo {
        node,
        peer,
        transport: &mut transport,
        frames: &mut frames,
    };
    match login.run(None, io).await {
        Ok(session) => {
            tracing::debug!(
                event = "client_logged_in",
                peer = %peer.address,
                listener = %peer.listener,
                principal = %session.principal,
                mechanism = %session.mechanism,
                lifetime_ms = session.lifetime_ms,
                "client logged in"
            );
            peer.principal = Principal::user(session.principal);
            endpoint.metrics.authenticated();
            Ok(Established {
                transport,
                frames,
                login: Some(login),
            })
        }
        Err(error) => {
            transport.close();
            Err(LoginError::failure(&error))
        }
    }
}

async fn handshake(
    socket: TcpStream,
    config: Arc<rustls::ServerConfig>,
    peer: &Peer,
    node: &Node,
) -> Result<TlsStream, Option<ConnectionFailure>> {
    let accept = TlsStream::accept(socket, config, &node.tls_buffers, &node.handshake_turns);
    match tokio::time::timeout(HANDSHAKE_MAX, accept).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(explain(&error, peer)),
        Err(_) => {
            let reason = format!("no TLS handshake within {HANDSHAKE_MAX:?}");
            Err(Some(ConnectionFailure::new(FailureKind::Timeout, reason)))
        }
    }
}

/// The reason of a failed handshake; `None` if the client has just gone, as health checks do.
fn explain(error: &HandshakeError, peer: &Peer) -> Option<ConnectionFailure> {
    if let Some(failure) = ConnectionFailure::sniff_on_tls(&error.first) {
        return Some(failure);
    }
    let explained = explain_accept(&error.source, &peer.address.to_string());
    let kind = match explained.kind {
        TlsFailureKind::Disconnected => return None,
        TlsFailureKind::Authentication => FailureKind::Certificate,
        TlsFailureKind::Protocol => FailureKind::TlsHandshake,
    };
    Some(ConnectionFailure::new(kind, explained.text))
}

/// The principal of a client's certificate; ANONYMOUS without one.
fn principal_of(stream: &TlsStream, security: &EndpointSecurity) -> Result<Principal, Option<ConnectionFailure>> {
    let Some([leaf, ..]) = stream.session().peer_certificates() else {
        return Ok(Principal::ANONYMOUS);
    };
    match security.principal_mapper.name(leaf) {
        Ok(name) => Ok(Principal::user(name.into())),
        Err(error) => Err(Some(ConnectionFailure::new(
            FailureKind::Certificate,
            error.to_string(),
        ))),
    }
}
