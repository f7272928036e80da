//! One blocking connection to a broker.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use milena_wire::{
    frame,
    message::{Message, Request},
};

pub struct Connection {
    stream: TcpStream,
    requests: i32,
}

impl Connection {
    pub fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream, requests: 0 }
    }

    /// Sends a request and decodes the response, which must not have trailing bytes.
    pub fn call<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.requests += 1;
        let client = "milena-wire-tests".into();
        let frame = frame::encode_request(request, version, self.requests, Some(&client)).unwrap();
        self.stream.write_all(&frame.into_bytes()).unwrap();

        let what = format!("{} version {version}", R::NAME);
        let mut prefix = [0; frame::LENGTH_SIZE];
        self.stream
            .read_exact(&mut prefix)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut answer = vec![0; frame::frame_length(prefix, 100 << 20).unwrap()];
        self.stream.read_exact(&mut answer).unwrap();
        let answer = Bytes::from(answer);
        let (correlation_id, response) =
            frame::decode_response::<R::Response>(&answer, version).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(correlation_id, self.requests, "{what}");
        let header_size = if R::KEY.response_header_version(version) == 0 {
            4
        } else {
            5
        };
        let read = response.size(version).unwrap();
        assert_eq!(answer.len(), header_size + read, "{what}: bytes were left over");
        response
    }
}
