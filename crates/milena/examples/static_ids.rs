//! Three consumers, of which one is restarted. Without a static id it leaves the group, so its partitions move to the
//! others and back. With `group.instance.id` it keeps its membership: it gets the same partitions again, and the others
//! do not notice.
//!
//! `cargo run -p milena --example static_ids`; the broker is in the example.

use std::error::Error;

mod fleet;

use fleet::Fleet;

const MEMBERS: [&str; 3] = ["anna", "ben", "clara"];
const PARTITIONS: usize = 9;

/// Cost of a restart for the other members.
#[derive(Debug, PartialEq, Eq)]
pub struct Cost {
    /// Number of partitions revoked from them.
    pub stopped: usize,
    /// Number of rebalance callbacks.
    pub changes: usize,
    /// Whether the restarted member has the same partitions again.
    pub same_again: bool,
}

pub async fn restart(with_ids: bool) -> Result<Cost, Box<dyn Error>> {
    let broker = fleet::broker();
    broker.create_topic("orders", i32::try_from(PARTITIONS)?);
    let mut fleet = Fleet::new(&broker, &["orders"], &[("heartbeat.interval.ms", "50")]);
    let own = |name| {
        if with_ids {
            vec![("group.instance.id", name)]
        } else {
            vec![]
        }
    };
    for name in MEMBERS {
        fleet.start(name, &own(name))?;
    }
    fleet.settled(PARTITIONS, 3).await;
    let owned_by_ben = |fleet: &Fleet| {
        let assignments = fleet.assignments.lock().map_err(|error| error.to_string())?;
        Ok::<_, String>(assignments.owned.get("ben").cloned())
    };
    let before = owned_by_ben(&fleet)?;
    fleet.take_counts();
    fleet.stop("ben").await?;
    if !with_ids {
        fleet.settled(PARTITIONS, 2).await;
    }
    fleet.start("ben", &own("ben"))?;
    fleet.settled(PARTITIONS, 3).await;
    let same_again = owned_by_ben(&fleet)? == before;
    let (stopped, changes) = fleet.take_counts();
    fleet.stop_all().await?;
    Ok(Cost {
        stopped,
        // Without the callback of its own first assignment.
        changes: changes - 1,
        same_again,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for with_ids in [false, true] {
        let Cost {
            stopped,
            changes,
            same_again,
        } = restart(with_ids).await?;
        let ids = if with_ids { "with" } else { "without" };
        println!(
            "{ids} ids: {stopped} partitions revoked from the others in {changes} rebalance callbacks; \
             same partitions after the restart: {same_again}"
        );
    }
    Ok(())
}
