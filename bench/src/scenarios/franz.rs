//! Producing through franz-go, by a small program in Go.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Scenario, loaded};
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    programs::build_franz,
    raw::Connection,
};

const RATE: &str = "produce with franz-go, MB/s";
const CPU: &str = "produce with franz-go, broker CPU s/GB";

pub const SCENARIO: Scenario = Scenario {
    name: "franz",
    with_kafka: true,
    run,
    bars: &[(RATE, Bar::TimesKafkaAtLeast(2.0)), (CPU, Bar::Shown)],
};

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let program = tempfile::tempdir()?;
    let program = program.path().join("franz");
    build_franz(&program)?;
    let broker = Running::start(peer)?;
    Connection::open(&broker.address)?.create_topic("franz", 1, &[])?;
    let cost = loaded(&broker, || {
        let output = Command::new(&program)
            .args(["produce", &broker.address, "franz", &scale.bytes().to_string()])
            .output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok((scale.bytes(), String::from_utf8(output.stdout)?.trim().parse()?))
    })?;
    Ok(vec![
        figure(RATE, cost.megabytes_per_second),
        figure(CPU, cost.cpu_seconds_per_gigabyte),
    ])
}
