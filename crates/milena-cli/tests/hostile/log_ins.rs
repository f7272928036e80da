//! Attacks on the listener with log-ins: frames before and after it, and floods of wrong passwords.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use milena_machines::sasl::Mechanism;
use milena_wire::{
    frame::{self, LENGTH_SIZE},
    message::Request,
    messages::{SaslAuthenticateRequest, SaslHandshakeRequest},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    attack::Attack,
    random::Random,
    subject::{PASSWORD, USER},
};

/// Time of a log-in, which waits after a failure.
const LOG_IN_TIME: Duration = Duration::from_secs(10);

/// Damaged frames of clients that have not logged in.
pub async fn send_without_log_in(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        if let Some(stream) = attack.connect_to(attack.peers.sasl).await {
            attack.send_many(stream, &mut random).await;
        }
    }
}

/// Damaged frames of a client that has logged in.
pub async fn send_logged_in(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect_to(attack.peers.sasl).await else {
            continue;
        };
        let token = format!("\0{USER}\0{PASSWORD}");
        let logged_in = log_in(&mut stream, "PLAIN", token.into()).await;
        assert!(logged_in || !attack.goes_on(), "the right password was refused");
        attack.send_many(stream, &mut random).await;
    }
}

/// Wrong passwords, tokens of the wrong form, and log-ins that stop half-way.
pub async fn guess_passwords(attack: Arc<Attack>, mut random: Random) {
    while attack.goes_on() {
        let Some(mut stream) = attack.connect_to(attack.peers.sasl).await else {
            continue;
        };
        let mechanism = Mechanism::ALL[random.number(0..Mechanism::ALL.len())];
        let number = random.number(0..1000);
        let token: Bytes = match random.number(0..6) {
            0 => format!("\0{USER}\0wrong-{number}").into(),
            1 => format!("\0user-{number}\0{PASSWORD}").into(),
            2 => format!("n,,n={USER},r=nonce{number}").into(),
            3 => format!("n,,n=user-{number},r=nonce").into(),
            4 => format!("n,,\x01auth=Bearer {number}\x01\x01").into(),
            _ => (0..number).map(|_| random.number(0..256) as u8).collect(),
        };
        log_in(&mut stream, mechanism.name(), token).await;
        // A message that follows none, or an answer to a challenge that is none.
        let again = SaslAuthenticateRequest {
            auth_bytes: format!("c=biws,r=nonce{number},p=AAAA").into(),
            ..Default::default()
        };
        call(&mut stream, &again, 2).await;
    }
}

/// Returns whether the broker took the token.
async fn log_in(stream: &mut TcpStream, mechanism: &str, token: Bytes) -> bool {
    let handshake = SaslHandshakeRequest {
        mechanism: mechanism.into(),
    };
    if call(stream, &handshake, 1).await.is_none() {
        return false;
    }
    let authenticate = SaslAuthenticateRequest {
        auth_bytes: token,
        ..Default::default()
    };
    let response = call(stream, &authenticate, 2).await;
    response.is_some_and(|response| response.error_code == 0)
}

async fn call<R: Request>(stream: &mut TcpStream, request: &R, version: i16) -> Option<R::Response> {
    let exchange = async {
        let frame = frame::encode_request(request, version, 1, None).unwrap().into_bytes();
        stream.write_all(&frame).await.ok()?;
        let mut prefix = [0; LENGTH_SIZE];
        stream.read_exact(&mut prefix).await.ok()?;
        let mut response = vec![0; frame::frame_length(prefix, 1 << 20).unwrap()];
        stream.read_exact(&mut response).await.ok()?;
        Some(
            frame::decode_response::<R::Response>(&response.into(), version)
                .unwrap()
                .1,
        )
    };
    timeout(LOG_IN_TIME, exchange).await.ok().flatten()
}
