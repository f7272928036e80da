//! Sockets of listeners, and the connections that they accept.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::Handle,
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::{Peer, connection, endpoint::Endpoint};
use crate::{config::Listener, node::Node};

/// The sockets of one listener, all on one port.
#[derive(Debug)]
pub(crate) struct BoundListener {
    sockets: Vec<TcpListener>,
    pub(crate) address: SocketAddr,
    /// Whether other machines can reach it.
    pub(crate) is_exposed: bool,
}

/// Whether other machines can reach an address.
pub(crate) fn is_exposed(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// The addresses of a listener.
///
/// A host name that has an IPv4 and an IPv6 address gets both, because clients try either first.
pub(crate) async fn resolve(listener: &Listener) -> io::Result<Vec<SocketAddr>> {
    let host = match &*listener.host {
        "" => "0.0.0.0",
        host => host,
    };
    let mut addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, listener.port)).await?.collect();
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}

/// Binds addresses on one port, with a backlog of `backlog` connections that are not accepted yet.
pub(crate) fn bind(addresses: &[SocketAddr], backlog: u32) -> io::Result<BoundListener> {
    let mut sockets: Vec<TcpListener> = vec![];
    let mut chosen = None;
    for mut address in addresses.iter().copied() {
        // The system may have chosen the port of the first one.
        if let Some(port) = chosen {
            address.set_port(port);
        }
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // Without this, the port of a broker that has just ended cannot be bound again for a while.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(backlog)?;
        chosen = Some(socket.local_addr()?.port());
        sockets.push(socket);
    }
    let first = sockets.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let address = first.local_addr()?;
    Ok(BoundListener {
        sockets,
        address,
        is_exposed: addresses.iter().any(is_exposed),
    })
}

/// The TLS handshakes that may use the processor at once: half of the workers, so that the others serve connections.
pub(crate) fn handshake_turns() -> Semaphore {
    let workers = Handle::try_current().map_or(1, |handle| handle.metrics().num_workers());
    Semaphore::new((workers / 2).max(1))
}

/// Serves until it is stopped, then ends all connections.
pub(crate) async fn serve(listeners: Vec<BoundListener>, node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let mut acceptors = JoinSet::new();
    for (listener, endpoint) in listeners.into_iter().zip(node.endpoints.iter()) {
        for socket in listener.sockets {
            acceptors.spawn(accept(socket, Arc::clone(endpoint), Arc::clone(&node)));
        }
    }
    // The sender is in the broker; dropping it stops too.
    let _ = stop.wait_for(|stop| *stop).await;
    acceptors.shutdown().await;
}

async fn accept(socket: TcpListener, endpoint: Arc<Endpoint>, node: Arc<Node>) {
    let mut connections = JoinSet::new();
    let listener = &endpoint.name;
    let next = async || {
        node.connections.room(listener, || node.config()).await;
        socket.accept().await
    };
    loop {
        tokio::select! {
            accepted = next() => match accepted {
                Ok((stream, address)) => {
                    if let Err(hold) = node.quotas.check_connection(address.ip()) {
                        connections.spawn(hold_and_close(stream, hold));
                        continue;
                    }
                    let Some(counted) = node.connections.count(address, listener, &node.config()).await else {
                        endpoint.metrics.refused();
                        tracing::info!(
                            event = "connection_refused",
                            peer = %address,
                            %listener,
                            "connection refused: its address has reached max.connections.per.ip"
                        );
                        continue;
                    };
                    prepare(&stream);
                    let peer = Peer::new(address, listener.clone());
                    let serving = connection::serve(stream, peer, Arc::clone(&endpoint), Arc::clone(&node));
                    connections.spawn(async move {
                        serving.await;
                        drop(counted);
                    });
                }
                Err(error) => {
                    // Most likely out of file descriptors: other connections must end first.
                    tracing::warn!(event = "accept_failed", %error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Holds a connection of an address that makes too many, so that it makes fewer; nothing is read from it.
async fn hold_and_close(stream: TcpStream, hold: Duration) {
    tracing::debug!(
        event = "connection_rate_exceeded",
        hold_ms = hold.as_millis() as u64,
        "connection held and closed: its address exceeds connection_creation_rate"
    );
    tokio::time::sleep(hold).await;
    drop(stream);
}

fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(event = "nodelay_failed", %error, "cannot set TCP_NODELAY");
    }
}
