//! Produce and consume with TLS beside the same without it, and full handshakes.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use milena_security::tls::{
    ClientTls, Source, TlsOptions,
    rustls::{ClientConfig, client::Resumption},
};
use milena_wire::messages::ApiVersionsRequest;

use super::super::{Scenario, consume, loaded, produce};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::Connection,
};

const PRODUCE: &str = "TLS produce 1000 B, MB/s";
const PRODUCE_CPU: &str = "TLS produce 1000 B, broker CPU s/GB";
const PRODUCE_PART: &str = "TLS produce, % of plain";
const CONSUME: &str = "TLS consume 1000 B, MB/s";
const CONSUME_CPU: &str = "TLS consume 1000 B, broker CPU s/GB";
const CONSUME_PART: &str = "TLS consume, % of plain";
const HANDSHAKES: &str = "TLS 1.3 handshakes, 1/s";

pub const SCENARIO: Scenario = Scenario {
    name: "tls",
    with_kafka: true,
    run,
    bars: &[
        (PRODUCE, Bar::TimesKafkaAtLeast(1.5)),
        (PRODUCE_CPU, Bar::Shown),
        (PRODUCE_PART, Bar::AtLeast(60.0)),
        (CONSUME, Bar::TimesKafkaAtLeast(1.5)),
        (CONSUME_CPU, Bar::Shown),
        (CONSUME_PART, Bar::AtLeast(60.0)),
        (HANDSHAKES, Bar::TimesKafkaAtLeast(3.0)),
    ],
};

/// Clients that connect at once.
const CONNECTORS: usize = 4;
const WARM_UP: Duration = Duration::from_secs(2);
const HANDSHAKE_TIME: Duration = Duration::from_secs(4);
/// The largest response of a fetch.
const ANSWER_MAX: usize = 64 << 20;

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let (broker, secured) = Running::start_secured(peer)?;
    let config = client(&secured.ca)?;
    let connect = || Connection::open_tls(&secured.tls_address, &config, ANSWER_MAX);
    // The first round warms up the broker, which Java needs.
    let bytes = scale.bytes();
    produce::fill_by(connect()?, &broker, "warm", 1_000, bytes / 4)?;
    let plain = produce::fill(&broker, "plain", 1_000, bytes)?;
    let secure = produce::fill_by(connect()?, &broker, "secure", 1_000, bytes)?;
    consume::read(connect()?, "warm", bytes / 4)?;
    let connection = Connection::open(&broker.address)?;
    let plain_read = loaded(&broker, || consume::read(connection, "plain", bytes))?;
    let connection = connect()?;
    let secure_read = loaded(&broker, || consume::read(connection, "secure", bytes))?;
    let part = |secure: f64, plain: f64| secure / plain * 100.0;
    Ok(vec![
        figure(PRODUCE, secure.megabytes_per_second),
        figure(PRODUCE_CPU, secure.cpu_seconds_per_gigabyte),
        figure(
            PRODUCE_PART,
            part(secure.megabytes_per_second, plain.megabytes_per_second),
        ),
        figure(CONSUME, secure_read.megabytes_per_second),
        figure(CONSUME_CPU, secure_read.cpu_seconds_per_gigabyte),
        figure(
            CONSUME_PART,
            part(secure_read.megabytes_per_second, plain_read.megabytes_per_second),
        ),
        figure(HANDSHAKES, handshakes(&secured.tls_address, &config)?),
    ])
}

fn client(ca: &Path) -> Result<Arc<ClientConfig>> {
    let options = TlsOptions {
        truststore: Some(Source::file(ca)),
        ..TlsOptions::default()
    };
    Ok(ClientTls::new(&options)?.config())
}

/// Full handshakes per second: every connection is new, resumes nothing, and sends one request.
fn handshakes(address: &str, config: &Arc<ClientConfig>) -> Result<f64> {
    let mut config = ClientConfig::clone(config);
    config.resumption = Resumption::disabled();
    let config = Arc::new(config);
    let count = AtomicUsize::new(0);
    let (began, end) = (Instant::now(), WARM_UP + HANDSHAKE_TIME);
    thread::scope(|scope| {
        let connectors = (0..CONNECTORS).map(|_| {
            scope.spawn(|| -> Result<()> {
                while began.elapsed() < end {
                    let mut connection = Connection::open_tls(address, &config, 1 << 16)?;
                    connection.call(&ApiVersionsRequest::default(), 0)?;
                    if (WARM_UP..end).contains(&began.elapsed()) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            })
        });
        let connectors: Vec<_> = connectors.collect();
        let mut ended = connectors
            .into_iter()
            .map(|connector| connector.join().expect("no panic"));
        ended.try_for_each(|outcome| outcome)
    })?;
    Ok(count.into_inner() as f64 / HANDSHAKE_TIME.as_secs_f64())
}
