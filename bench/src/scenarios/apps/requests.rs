//! Request-reply beside Spring's `ReplyingKafkaTemplate` and `@KafkaListener`, on the same broker.

use anyhow::Result;

use crate::{
    Scale,
    apps::requests::{Part, Service, Side, ask, topics},
    figures::{Bar, Figure, figure, median},
    peers::{Peer, Running},
    programs::Programs,
    raw::Connection,
    scenarios::Scenario,
};

const P50: &str = "request-reply, p50, ms";
const P99: &str = "request-reply, p99, ms";
const RATE: &str = "request-reply, 64 in flight, requests/s";
const PENDING: &str = "50,000 pending requests, MB";
const SPRING_P50: &str = "Spring's request-reply, p50, ms";
const SPRING_P99: &str = "Spring's request-reply, p99, ms";
const SPRING_RATE: &str = "Spring's, 64 in flight, requests/s";
const RATIO: &str = "request-reply, requests/s, ours / Spring's";

pub const SCENARIO: Scenario = Scenario {
    name: "requests",
    with_kafka: true,
    run,
    bars: &[
        (P50, Bar::AtMost(1.0)),
        (P99, Bar::Shown),
        (RATE, Bar::Shown),
        (PENDING, Bar::AtMost(50.0)),
        (SPRING_P50, Bar::Shown),
        (SPRING_P99, Bar::Shown),
        (SPRING_RATE, Bar::Shown),
        (RATIO, Bar::AtLeast(1.0)),
    ],
};

fn run(peer: Peer, _: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let programs = Programs::build_spring()?;
    let address = &broker.address;
    Connection::open(address)?.create_topics(&topics(), 1, &[])?;
    let mut figures = vec![];
    let mut rates = vec![];
    for (side, names) in [
        (Side::Ours, [P50, P99, RATE]),
        (Side::Spring, [SPRING_P50, SPRING_P99, SPRING_RATE]),
    ] {
        let service = Service::start(side, address, &programs)?;
        let measured = ask(side, Part::Ask, address, &programs)?;
        drop(service);
        let mut times: Vec<f64> = measured.times.iter().map(|(_, nanos)| *nanos as f64 / 1e6).collect();
        times.sort_by(f64::total_cmp);
        let rate = measured.records / measured.seconds;
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN);
        figures.extend([
            figure(names[0], median(&times)),
            figure(names[1], p99),
            figure(names[2], rate),
        ]);
        rates.push(rate);
    }
    figures.push(figure(RATIO, rates[0] / rates[1]));
    let pending = ask(Side::Ours, Part::Pend, address, &programs)?;
    figures.push(figure(PENDING, pending.bytes / 1e6));
    Ok(figures)
}
