//! Produce at a calm pace while other clients log in with SCRAM, a hundred a second.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use milena_machines::sasl::{
    ClientExchange, ClientStep, Mechanism, NONCE_BYTES, SaltedPassword, ScramLogin, ScramMechanism,
};
use milena_wire::messages::{
    AlterUserScramCredentialsRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
    alter_user_scram_credentials_request::ScramCredentialUpsertion,
};

use super::super::{Scenario, percentile};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const QUIET: &str = "produce at 500/s, p99 ms";
const BESIDE: &str = "the same beside 100 SCRAM log-ins/s, p99 ms";
const TIMES: &str = "p99 beside log-ins, times the quiet one";
const DONE: &str = "SCRAM log-ins, 1/s";

pub const SCENARIO: Scenario = Scenario {
    name: "logins",
    with_kafka: true,
    run,
    bars: &[
        (QUIET, Bar::Shown),
        (BESIDE, Bar::Shown),
        (TIMES, Bar::AtMost(2.0)),
        (DONE, Bar::AtLeast(95.0)),
    ],
};

const USER: &str = "alice";
const PASSWORD: &str = "alice-secret";
const MECHANISM: ScramMechanism = ScramMechanism::Sha256;
const ITERATIONS: u32 = 4096;
const LOG_INS_PER_SECOND: u32 = 100;
const PACE: Duration = Duration::from_millis(2);
const WARM_UP: usize = 2_000;
const COUNT: usize = 5_000;

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let (broker, secured) = Running::start_secured(peer)?;
    let mut producer = Connection::open(&broker.address)?;
    producer.create_topic("calm", 1, &[])?;
    if peer == Peer::Milena {
        add_user(&mut producer)?;
    }
    // Both code paths are warm before the first measurement.
    for _ in 0..200 {
        log_in(&secured.sasl_address, &mut HashMap::new())?;
    }
    produce(&mut producer, WARM_UP)?;
    let quiet = produce(&mut producer, COUNT)?;
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let began = Instant::now();
    let beside = thread::scope(|scope| {
        let logging_in = scope.spawn(|| log_in_often(&secured.sasl_address, &stop, &done));
        let beside = produce(&mut producer, COUNT);
        stop.store(true, Relaxed);
        logging_in.join().expect("no panic")?;
        beside
    })?;
    let rate = done.into_inner() as f64 / began.elapsed().as_secs_f64();
    Ok(vec![
        figure(QUIET, quiet),
        figure(BESIDE, beside),
        figure(TIMES, beside / quiet),
        figure(DONE, rate),
    ])
}

/// The 99th percentile of the time from a record to its acknowledgement.
fn produce(connection: &mut Connection, count: usize) -> Result<f64> {
    let frame = raw::produce_frame("calm", 0, raw::batch(b"", 1_000, 1))?;
    let clock = Instant::now();
    let mut times = vec![];
    for number in 0..count {
        thread::sleep((PACE * number as u32).saturating_sub(clock.elapsed()));
        let sent = Instant::now();
        connection.send(&frame)?;
        connection.receive_ack()?;
        times.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 0.99))
}

fn log_in_often(address: &str, stop: &AtomicBool, done: &AtomicUsize) -> Result<()> {
    let (clock, mut derived) = (Instant::now(), HashMap::new());
    for number in 0.. {
        let due = Duration::from_secs(1) * number / LOG_INS_PER_SECOND;
        thread::sleep(due.saturating_sub(clock.elapsed()));
        if stop.load(Relaxed) {
            break;
        }
        log_in(address, &mut derived)?;
        done.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Logs in on a new connection. A password is derived once for each salt, as clients do.
fn log_in(address: &str, derived: &mut HashMap<Vec<u8>, SaltedPassword>) -> Result<()> {
    let mut connection = Connection::open_for(address, 1 << 16)?;
    let handshake = SaslHandshakeRequest {
        mechanism: Mechanism::Scram(MECHANISM).name().into(),
        ..Default::default()
    };
    let response = connection.call(&handshake, 1)?;
    ensure!(response.error_code == 0, "no SCRAM: error {}", response.error_code);
    let mut exchange = ClientExchange::scram(MECHANISM, USER, ScramLogin::User, [7; NONCE_BYTES])?;
    let mut step = exchange.start()?;
    loop {
        step = match step {
            ClientStep::Send(message) => {
                let request = SaslAuthenticateRequest {
                    auth_bytes: message,
                    ..Default::default()
                };
                let response = connection.call(&request, 1)?;
                ensure!(response.error_code == 0, "{:?}", response.error_message);
                exchange.handle_challenge(&response.auth_bytes)?
            }
            ClientStep::DeriveSaltedPassword { salt, iterations } => {
                let password = derived
                    .entry(salt.to_vec())
                    .or_insert_with(|| SaltedPassword::derive(MECHANISM, PASSWORD.as_bytes(), &salt, iterations));
                exchange.handle_salted_password(password)?
            }
            ClientStep::Done => return Ok(()),
        };
    }
}

fn add_user(connection: &mut Connection) -> Result<()> {
    let salt = Bytes::from_static(b"sixteen bytes...");
    let password = SaltedPassword::derive(MECHANISM, PASSWORD.as_bytes(), &salt, ITERATIONS);
    let request = AlterUserScramCredentialsRequest {
        upsertions: vec![ScramCredentialUpsertion {
            name: USER.into(),
            mechanism: MECHANISM.code(),
            iterations: i32::try_from(ITERATIONS)?,
            salt,
            salted_password: Bytes::copy_from_slice(password.as_bytes()),
            ..Default::default()
        }],
        ..Default::default()
    };
    for result in connection.call(&request, 0)?.results {
        if result.error_code != 0 {
            bail!("the user was refused: {result:?}");
        }
    }
    Ok(())
}
