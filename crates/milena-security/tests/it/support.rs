//! Fixtures, and handshakes in memory.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    sync::Arc,
};

use milena_security::tls::{
    ClientTls, ServerTls, TlsOptions,
    rustls::{ClientConnection, ConnectionCommon, ServerConnection},
    server_name,
};

pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

pub(crate) fn fixture_text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
}

/// Both ends of a connection after a successful handshake and one message in each direction.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
}

/// The first error on either side.
#[derive(Debug)]
pub(crate) enum Failed {
    Client(io::Error),
    Server(io::Error),
}

pub(crate) fn connect(client: &TlsOptions, server: &TlsOptions, host: &str) -> Result<Connected, Failed> {
    let client = ClientTls::new(client).unwrap();
    let server = ServerTls::new(server).unwrap();
    handshake(&client, &server, host)
}

pub(crate) fn handshake(client: &ClientTls, server: &ServerTls, host: &str) -> Result<Connected, Failed> {
    let name = server_name(host).unwrap();
    let mut client = ClientConnection::new(client.config(), name).unwrap();
    let mut server = ServerConnection::new(server.config()).unwrap();
    client.writer().write_all(b"ping").unwrap();
    server.writer().write_all(b"pong").unwrap();
    let mut is_first_error: Result<(), Failed> = Ok(());
    for _ in 0..10 {
        let moved = transfer(&mut client, &mut server).map_err(Failed::Server);
        // Also after an error: its alert is on the way back.
        let back = transfer(&mut server, &mut client).map_err(Failed::Client);
        let moved = moved.and(back);
        if is_first_error.is_ok() {
            is_first_error = moved;
        }
    }
    is_first_error?;
    for reader in [&mut client.reader() as &mut dyn Read, &mut server.reader()] {
        let mut message = [0; 4];
        reader.read_exact(&mut message).unwrap();
    }
    Ok(Connected { client, server })
}

/// Moves all bytes of one side to the other, which processes them as an asynchronous driver does.
fn transfer<A, B>(from: &mut ConnectionCommon<A>, to: &mut ConnectionCommon<B>) -> io::Result<()> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes)?;
    }
    let mut bytes = &bytes[..];
    while !bytes.is_empty() {
        to.read_tls(&mut bytes)?;
        to.process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    }
    Ok(())
}

/// A configuration as an opaque value, to see whether it was replaced.
pub(crate) fn is_same<T>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other)
}
