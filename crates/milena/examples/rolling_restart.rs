//! A rolling restart: 20 members of a group on 100 partitions are stopped and started again, one after the other. With
//! the eager protocol all partitions stop whenever a member leaves or joins. The cooperative protocol and the consumer
//! protocol stop only the partitions that move.
//!
//! `cargo run -p milena --example rolling_restart`; the broker is in the example.

use std::error::Error;

mod fleet;

use fleet::Fleet;

/// Settings of each protocol.
pub const PROTOCOLS: [(&str, &[(&str, &str)]); 3] = [
    (
        "eager",
        &[
            ("partition.assignment.strategy", "sticky"),
            ("heartbeat.interval.ms", "50"),
        ],
    ),
    (
        "cooperative",
        &[
            ("partition.assignment.strategy", "cooperative-sticky"),
            ("heartbeat.interval.ms", "50"),
        ],
    ),
    ("broker-driven", &[("group.protocol", "consumer")]),
];

/// Restarts each member. Returns how often a partition was revoked from a member that kept running.
pub async fn roll(
    settings: &[(&'static str, &'static str)],
    members: usize,
    partitions: usize,
) -> Result<usize, Box<dyn Error>> {
    let broker = fleet::broker();
    broker.create_topic("orders", i32::try_from(partitions)?);
    let mut fleet = Fleet::new(&broker, &["orders"], settings);
    let names: Vec<String> = (0..members).map(|number| format!("member-{number:02}")).collect();
    for name in &names {
        fleet.start(name, &[])?;
    }
    fleet.settled(partitions, members).await;
    fleet.take_counts();
    for name in &names {
        fleet.stop(name).await?;
        fleet.settled(partitions, members - 1).await;
        fleet.start(name, &[])?;
        fleet.settled(partitions, members).await;
    }
    let (stopped, _) = fleet.take_counts();
    fleet.stop_all().await?;
    Ok(stopped)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("20 members on 100 partitions are restarted, one after the other.");
    for (name, settings) in PROTOCOLS {
        let stopped = roll(settings, 20, 100).await?;
        println!("{name:>14}: {stopped} revocations from members that kept running");
    }
    Ok(())
}
