//! Garbage on the listener with TLS: damaged and endless handshakes, and plain requests.

use std::sync::Arc;

use milena_security::tls::{ClientTls, TlsOptions, rustls::ClientConnection};

use crate::{attack::Attack, random::Random};

pub async fn send_tls_garbage(attack: Arc<Attack>, mut random: Random) {
    let hello = client_hello();
    while attack.goes_on() {
        let Some(mut stream) = attack.connect_to(attack.peers.tls).await else {
            continue;
        };
        let mut bytes = hello.clone();
        match random.number(0..5) {
            // A frame of Kafka.
            0 => bytes = attack.frames.any(&mut random).to_vec(),
            1 => bytes.truncate(random.number(0..bytes.len())),
            2 => (0..random.number(0..5000)).for_each(|_| bytes.push(random.number(0..256) as u8)),
            _ => {
                for _ in 0..random.number(1..10) {
                    let place = random.number(0..bytes.len());
                    bytes[place] = random.number(0..256) as u8;
                }
            }
        }
        if attack.send(&mut stream, &bytes).await {
            // Some stay and say nothing more.
            tokio::time::sleep(random.millis(1..200)).await;
        }
    }
}

/// The first bytes of a client.
fn client_hello() -> Vec<u8> {
    let options = TlsOptions {
        verify_certificate: false,
        ..TlsOptions::default()
    };
    let config = ClientTls::new(&options).unwrap().config();
    let mut connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut bytes = vec![];
    connection.write_tls(&mut bytes).unwrap();
    bytes
}
