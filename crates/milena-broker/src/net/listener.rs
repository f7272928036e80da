//! Accepting connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::connection;
use crate::node::Node;

/// Sockets that wait for connections, all on one port.
#[derive(Debug)]
pub(crate) struct Listening {
    listeners: Vec<TcpListener>,
    pub(crate) address: SocketAddr,
}

/// Listens on a host and port. A name that has an IPv4 and an IPv6 address gets both, because clients try either first.
pub(crate) async fn bind(host: &str, port: u16) -> io::Result<Listening> {
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let mut addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    addresses.sort();
    addresses.dedup();
    let mut listeners: Vec<TcpListener> = vec![];
    let mut chosen = port;
    for mut address in addresses {
        address.set_port(chosen);
        let listener = TcpListener::bind(address).await?;
        chosen = listener.local_addr()?.port();
        listeners.push(listener);
    }
    let first = listeners.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let address = first.local_addr()?;
    Ok(Listening { listeners, address })
}

/// Serves until told to stop, then ends all connections.
pub(crate) async fn serve(listening: Listening, node: Arc<Node>, mut stop: watch::Receiver<bool>) {
    let mut acceptors = JoinSet::new();
    for listener in listening.listeners {
        acceptors.spawn(accept(listener, Arc::clone(&node)));
    }
    // The sender lives in the broker; its end means the same as a stop.
    let _ = stop.wait_for(|stop| *stop).await;
    acceptors.shutdown().await;
}

async fn accept(listener: TcpListener, node: Arc<Node>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    prepare(&stream);
                    connections.spawn(connection::serve(stream, peer, Arc::clone(&node)));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: others must end first.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
}
