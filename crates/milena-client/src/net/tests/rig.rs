//! Test fixtures: a broker in this process, and a server that follows a script.

use std::{
    future::Future,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use milena_broker::Broker;
use milena_wire::{
    api::ApiKey,
    frame::{self, RequestFrame},
    message::Response,
    messages::{ApiVersionsResponse, FetchRequest, FetchResponse, MetadataRequest, api_versions_response::ApiVersion},
};
use tokio::{net::TcpSocket, runtime::Runtime};

use crate::{
    io::Io,
    net::{ClientSettings, Connection, Connections, Endpoint, Role},
};

/// Long enough for a busy machine; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, future).await })
        .expect("the condition does not hold in time")
}

/// Waits until the condition holds.
pub(crate) fn until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "the condition does not hold in time");
        std::thread::yield_now();
    }
}

pub(crate) fn connections(settings: ClientSettings) -> Connections {
    Connections::new(Io::start().unwrap(), Arc::new(settings))
}

/// A real broker on a port of its own.
pub(crate) struct Running {
    runtime: Runtime,
    broker: Option<Broker>,
    pub(crate) endpoint: Endpoint,
    _dir: tempfile::TempDir,
}

pub(crate) fn broker() -> Running {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut config = milena_broker::config::RawConfig::new();
    config.insert("listeners".to_owned(), "PLAINTEXT://127.0.0.1:0".to_owned());
    config.insert("log.dirs".to_owned(), dir.path().to_str().unwrap().to_owned());
    config.insert("broker.rack".to_owned(), "r1".to_owned());
    let broker = runtime.block_on(Broker::start(config)).unwrap();
    let endpoint = Endpoint::new("127.0.0.1", broker.address().port());
    Running {
        runtime,
        broker: Some(broker),
        endpoint,
        _dir: dir,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(broker) = self.broker.take() {
            self.runtime.block_on(broker.shutdown());
        }
    }
}

/// A reserved port without a listener.
pub(crate) struct ClosedPort {
    socket: TcpSocket,
}

impl ClosedPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self { socket }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::new("127.0.0.1", self.socket.local_addr().unwrap().port())
    }
}

/// A server whose thread follows a script. A panic in the script fails the test.
pub(crate) struct Scripted {
    pub(crate) endpoint: Endpoint,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn scripted(script: impl FnOnce(TcpListener) + Send + 'static) -> Scripted {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port());
    Scripted {
        endpoint,
        thread: Some(std::thread::spawn(move || script(listener))),
    }
}

impl Scripted {
    pub(crate) fn connection(&self, connections: &Connections) -> Connection {
        connections.node(1, Role::Data, &self.endpoint)
    }

    /// Waits for the end of the script.
    pub(crate) fn finish(mut self) {
        if let Err(panic) = self.thread.take().unwrap().join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A connection as the server sees it.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
}

impl Peer {
    /// Accepts a connection without a handshake.
    pub(crate) fn accept(listener: &TcpListener) -> Self {
        listener.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            assert!(begun.elapsed() < PATIENCE, "no connection in time");
            std::thread::yield_now();
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    /// Accepts a connection and completes the handshake with all versions.
    pub(crate) fn agree(listener: &TcpListener) -> Self {
        let mut peer = Self::accept(listener);
        let request = peer.request().unwrap();
        assert_eq!((request.key, request.version), (ApiKey::ApiVersions, 4));
        peer.respond(&request, &all_versions());
        peer
    }

    /// The next request; `None` if the client has closed the connection.
    pub(crate) fn request(&mut self) -> Option<RequestFrame> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix).ok()?;
        let mut body = vec![0; i32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(RequestFrame::parse(body.into()).unwrap())
    }

    pub(crate) fn respond<R: Response>(&mut self, request: &RequestFrame, response: &R) {
        self.send(&encoded(request, response));
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
}

pub(crate) fn encoded<R: Response>(request: &RequestFrame, response: &R) -> Bytes {
    let frame = frame::encode_response(response, request.version, request.correlation_id);
    frame.unwrap().into_bytes()
}

pub(crate) fn all_versions() -> ApiVersionsResponse {
    let known = ApiKey::ALL
        .into_iter()
        .filter_map(|key| Some((key, key.client_versions()?)));
    let api_keys = known.map(|(key, versions)| ApiVersion {
        api_key: key.id(),
        min_version: versions.min,
        max_version: versions.max,
        ..ApiVersion::default()
    });
    ApiVersionsResponse {
        api_keys: api_keys.collect(),
        ..ApiVersionsResponse::default()
    }
}

/// A request that every broker accepts.
pub(crate) fn metadata_request() -> MetadataRequest {
    MetadataRequest {
        topics: Some(vec![]),
        ..MetadataRequest::default()
    }
}

pub(crate) fn fetch() -> FetchRequest {
    FetchRequest::default()
}

/// A Fetch response with `size` bytes of records.
pub(crate) fn fetch_response(size: usize) -> FetchResponse {
    use milena_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    let partition = PartitionData {
        records: Some(vec![7; size].into()),
        ..PartitionData::default()
    };
    let topic = FetchableTopicResponse {
        partitions: vec![partition],
        ..FetchableTopicResponse::default()
    };
    FetchResponse {
        responses: vec![topic],
        ..FetchResponse::default()
    }
}
