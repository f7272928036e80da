//! BoundListener sockets, and the connections that they accept.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytestring::ByteString;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{Peer, connection};
use crate::{config::Listener, node::Node};

/// The sockets of one listener, all on one port.
#[derive(Debug)]
pub(crate) struct BoundListener {
    name: ByteString,
    sockets: Vec<TcpListener>,
    pub(crate) address: SocketAddr,
}

/// Binds a listener, with a backlog of `backlog` connections that are not accepted yet.
///
/// A host name that has an IPv4 and an IPv6 address gets both, because clients try either first.
pub(crate) async fn bind(listener: &Listener, backlog: u32) -> io::Result<BoundListener> {
    let host = match &*listener.host {
        "" => "0.0.0.0",
        host => host,
    };
    let port = listener.port;
    let mut addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    addresses.sort();
    addresses.dedup();
    let mut sockets: Vec<TcpListener> = vec![];
    let mut chosen = port;
    for mut address in addresses {
        address.set_port(chosen);
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // Without this, the port of a broker that has just ended cannot be bound again for a while.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(backlog)?;
        chosen = socket.local_addr()?.port();
        sockets.push(socket);
    }
    let first = sockets.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let address = first.local_addr()?;
    Ok(BoundListener {
        name: listener.name.as_str().into(),
        sockets,
        address,
    })
}

/// Serves until it is stopped, then ends all connections.
pub(crate) async fn serve(listener: BoundListener, node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let mut acceptors = JoinSet::new();
    for socket in listener.sockets {
        acceptors.spawn(accept(socket, listener.name.clone(), Arc::clone(&node)));
    }
    // The sender is in the broker; dropping it stops too.
    let _ = stop.wait_for(|stop| *stop).await;
    acceptors.shutdown().await;
}

async fn accept(socket: TcpListener, listener: ByteString, node: Arc<Node>) {
    let mut connections = JoinSet::new();
    let next = async || {
        node.connections.room(|| node.config()).await;
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
                    let Some(counted) = node.connections.count(address, &node.config()).await else {
                        tracing::info!(
                            event = "connection_refused",
                            peer = %address,
                            "connection refused: its address has reached max.connections.per.ip"
                        );
                        continue;
                    };
                    prepare(&stream);
                    let serving = connection::serve(stream, Peer::new(address, listener.clone()), Arc::clone(&node));
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
