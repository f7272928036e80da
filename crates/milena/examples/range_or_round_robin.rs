//! Assignments of two topics with four partitions each to three members. `range` assigns each topic separately, so the
//! first member gets the extra partition of every topic; equal partition numbers stay together, which joins need.
//! `roundrobin` assigns all partitions in turn, and members differ by at most one.
//!
//! `cargo run -p milena --example range_or_round_robin`; the broker is in the example.

use std::{collections::BTreeMap, error::Error};

#[allow(dead_code, reason = "other examples need more of it")]
mod fleet;

use fleet::Fleet;

const MEMBERS: [&str; 3] = ["anna", "ben", "clara"];

/// Partitions of each member.
pub async fn assigned(strategy: &str) -> Result<BTreeMap<String, Vec<String>>, Box<dyn Error>> {
    let broker = fleet::broker();
    let topics = ["orders", "payments"];
    for topic in topics {
        broker.create_topic(topic, 4);
    }
    let settings = [
        ("partition.assignment.strategy", strategy),
        ("heartbeat.interval.ms", "50"),
    ];
    let mut fleet = Fleet::new(&broker, &topics, &settings);
    for name in MEMBERS {
        fleet.start(name, &[])?;
    }
    let owned = loop {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let assignments = fleet.assignments.lock().map_err(|error| error.to_string())?;
        let has_each = MEMBERS
            .iter()
            .all(|name| assignments.owned.get(*name).is_some_and(|owned| !owned.is_empty()));
        if has_each && assignments.owned.values().map(|owned| owned.len()).sum::<usize>() == 8 {
            let shown = assignments.owned.iter().map(|(name, owned)| {
                let names = owned.iter().map(ToString::to_string);
                (name.clone(), names.collect())
            });
            break shown.collect();
        }
    };
    fleet.stop_all().await?;
    Ok(owned)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for strategy in ["range", "roundrobin"] {
        println!("{strategy}:");
        for (member, partitions) in assigned(strategy).await? {
            println!("  {member:<6} {}", partitions.join(" "));
        }
    }
    Ok(())
}
