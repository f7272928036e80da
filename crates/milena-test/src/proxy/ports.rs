//! A port of the proxy, open or closed.

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpSocket},
    task::{JoinHandle, JoinSet},
};

use super::{connection, state::State};

const BACKLOG: u32 = 1024;

/// A reserved port: while it is closed, connections to it are refused, but no other process can bind it.
pub(super) struct Port {
    address: SocketAddr,
    held: Held,
}

enum Held {
    /// Bound, without a listener.
    Closed(TcpSocket),
    Open(JoinHandle<()>),
    /// Only while it changes.
    Between,
}

impl Port {
    pub(super) fn bind(address: SocketAddr) -> Self {
        let socket = bind(address);
        let address = socket.local_addr().expect("the address of a socket");
        let held = Held::Closed(socket);
        Self { address, held }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn open(&mut self, state: &Arc<State>, node: usize, upstream: SocketAddr) {
        let Held::Closed(socket) = std::mem::replace(&mut self.held, Held::Between) else {
            panic!("the port is open already");
        };
        // To listen needs the runtime.
        let _entered = state.handle.enter();
        let listener = socket.listen(BACKLOG).expect("a socket that listens");
        let serving = serve(listener, Arc::clone(state), node, upstream);
        self.held = Held::Open(state.handle.spawn(serving));
    }

    /// All of its connections have ended when this returns.
    pub(super) fn close(&mut self, state: &State) {
        let serving = match std::mem::replace(&mut self.held, Held::Between) {
            Held::Open(serving) => serving,
            closed => {
                self.held = closed;
                return;
            }
        };
        let (done, is_done) = mpsc::channel();
        state.handle.spawn(async move {
            serving.abort();
            let _ = serving.await;
            let _ = done.send(());
        });
        let _ = is_done.recv();
        self.held = Held::Closed(bind(self.address));
    }
}

fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    // Connections that have just ended do not keep it from us.
    socket.set_reuseaddr(true).expect("an option of a socket");
    socket
        .bind(address)
        .unwrap_or_else(|error| panic!("cannot have {address}: {error}"));
    socket
}

async fn serve(listener: TcpListener, state: Arc<State>, node: usize, upstream: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((client, _)) => {
                let number = state.count_connection();
                if state.conditions().strike_refuse() {
                    // Closes without sending the rest: the client sees a reset.
                    let _ = client.set_zero_linger();
                    continue;
                }
                let state = Arc::clone(&state);
                connections.spawn(connection::run(client, upstream, state, node, number));
            }
            // Out of file descriptors, most likely: others must end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
