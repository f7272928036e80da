//! A client that knows nothing but frames.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use milena_test::TestBroker;
use milena_wire::{frame, message::Request};

pub(crate) struct Wire {
    stream: TcpStream,
}

impl Wire {
    /// A connection to the first node, through the proxy.
    pub(crate) fn connect(broker: &TestBroker) -> Self {
        Self::connect_to(broker.bootstrap_servers().split(',').next().unwrap())
    }

    pub(crate) fn connect_to(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream }
    }

    pub(crate) fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.try_call(request, version).expect("an answer")
    }

    /// `None` if the connection has ended.
    pub(crate) fn try_call<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        self.send(request, version)?;
        self.receive::<R>(version)
    }

    pub(crate) fn send<R: Request>(&mut self, request: &R, version: i16) -> Option<()> {
        let frame = frame::encode_request(request, version, 7, Some(&"wire".into())).unwrap();
        self.stream.write_all(&frame.into_bytes()).ok()
    }

    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> Option<R::Response> {
        let mut prefix = [0; frame::LENGTH_SIZE];
        self.stream.read_exact(&mut prefix).ok()?;
        let mut answer = vec![0; frame::frame_length(prefix, 100 << 20).unwrap()];
        self.stream.read_exact(&mut answer).ok()?;
        let (correlation_id, response) = frame::decode_response(&Bytes::from(answer), version).unwrap();
        assert_eq!(correlation_id, 7);
        Some(response)
    }

    /// Whether the connection is open, and nothing comes through it for a moment.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let read = self.stream.read(&mut [0]);
        self.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Whether the other side has ended the connection.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0]), Ok(1))
    }
}
