//! A proxy before PostgreSQL that cuts and holds connections at a statement.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// Fate of the next connection that sends a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The statement does not arrive.
    Before,
    /// The statement is executed, and its response is lost.
    After,
    /// The statement is executed, and its response waits.
    Hold,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    armed: Mutex<Option<(Cut, &'static str)>>,
    /// A statement was cut or held.
    fired: Notify,
    released: Notify,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            shared: Arc::default(),
        };
        let shared = Arc::clone(&proxy.shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&shared)));
            }
        });
        proxy
    }

    /// Cuts or holds the next connection that sends a statement with this text.
    pub(crate) fn arm(&self, cut: Cut, statement: &'static str) {
        *self.shared.armed.lock().unwrap() = Some((cut, statement));
    }

    pub(crate) async fn fired(&self) {
        self.shared.fired.notified().await;
    }

    /// Lets the held response go on.
    pub(crate) fn release(&self) {
        self.shared.released.notify_one();
    }
}

impl Shared {
    fn take(&self, sent: &[u8]) -> Option<Cut> {
        let mut armed = self.armed.lock().unwrap();
        let (cut, statement) = (*armed)?;
        sent.windows(statement.len())
            .find(|part| *part == statement.as_bytes())?;
        *armed = None;
        Some(cut)
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, shared: Arc<Shared>) {
    let (mut sent, mut received) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut sent) => {
                let Ok(count @ 1..) = read else { return };
                let cut = shared.take(&sent[..count]);
                if cut == Some(Cut::Before) {
                    shared.fired.notify_one();
                    return;
                }
                if server.write_all(&sent[..count]).await.is_err() {
                    return;
                }
                if cut.is_some() {
                    // The response shows that the statement was executed.
                    let Ok(count @ 1..) = server.read(&mut received).await else { return };
                    shared.fired.notify_one();
                    if cut == Some(Cut::After) {
                        return;
                    }
                    shared.released.notified().await;
                    if client.write_all(&received[..count]).await.is_err() {
                        return;
                    }
                }
            }
            read = server.read(&mut received) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&received[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
