//! Accepting connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
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

/// Listens on a host and port, with room for `backlog` connections that nobody has accepted yet. A name that has an IPv4 and an IPv6 address gets both, because clients try either first.
pub(crate) async fn bind(host: &str, port: u16, backlog: u32) -> io::Result<Listening> {
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let mut addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    addresses.sort();
    addresses.dedup();
    let mut listeners: Vec<TcpListener> = vec![];
    let mut chosen = port;
    for mut address in addresses {
        address.set_port(chosen);
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // As soon as a broker has ended, the next one may have its port.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(backlog)?;
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
    let next = async || {
        node.connections.room(|| node.config()).await;
        listener.accept().await
    };
    loop {
        tokio::select! {
            accepted = next() => match accepted {
                Ok((stream, peer)) => {
                    let Some(counted) = node.connections.count(peer, &node.config()).await else {
                        tracing::info!(%peer, "a connection more than max.connections.per.ip allows is closed");
                        continue;
                    };
                    prepare(&stream);
                    let serving = connection::serve(stream, peer, Arc::clone(&node));
                    connections.spawn(async move {
                        serving.await;
                        drop(counted);
                    });
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
