//! A custom assignor for a group whose members are machines of different sizes. Each member gets a share of the
//! partitions in proportion to its weight: here 9 partitions for weights of 2 and 1, so 6 and 3.
//!
//! `cargo run -p milena --example own_assignor`; the broker is in the example.

use std::{error::Error, time::Duration};

use milena::{
    assignor::{Assignor, ByteString, Bytes, ClusterLayout, GroupAssignment, MemberSubscription},
    prelude::*,
};

#[allow(dead_code, reason = "other examples need more of it")]
mod fleet;

/// Assigns partitions in proportion to the weights of members.
#[derive(Debug)]
struct ByWeight {
    weight: u8,
}

impl Assignor for ByWeight {
    /// All members of the group must have an assignor of this name.
    fn name(&self) -> &str {
        "by-weight"
    }

    /// Each member sends its weight to the leader, which assigns for all.
    fn user_data(&self, _topics: &[ByteString]) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(&[self.weight]))
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let empty = |member: &MemberSubscription| (member.member_id.clone(), Default::default());
        let mut assignment: GroupAssignment = members.iter().map(empty).collect();
        for (topic, layout) in cluster {
            for partition in 0..layout.len() {
                let readers = members.iter().filter(|member| member.topics.contains(topic));
                // The member whose share is the smallest for its weight.
                let next = readers.min_by_key(|member| {
                    let owned = assignment
                        .get(&member.member_id)
                        .map_or(0, |share| share.partitions.len());
                    ((owned + 1) * 1000 / weight(member), member.member_id.clone())
                });
                if let Some(share) = next.and_then(|member| assignment.get_mut(&member.member_id)) {
                    let partition = i32::try_from(partition).unwrap_or_default();
                    share.partitions.push(TopicPartition::new(topic.clone(), partition));
                }
            }
        }
        assignment
    }
}

fn weight(member: &MemberSubscription) -> usize {
    let weight = member.user_data.as_ref().and_then(|data| data.first());
    weight.map_or(1, |weight| usize::from(*weight).max(1))
}

/// Number of partitions of each member, in the order of the weights.
pub async fn shares(weights: &[u8]) -> Result<Vec<usize>, Box<dyn Error>> {
    let broker = fleet::broker();
    broker.create_topic("orders", 9);
    let mut members = vec![];
    for &weight in weights {
        let config = ConsumerConfig::builder(broker.bootstrap_servers())
            .group_id("machines")
            .set("heartbeat.interval.ms", 50);
        let mut member = Consumer::with_assignors(config, vec![Box::new(ByWeight { weight })])?;
        member.subscribe(["orders"])?;
        members.push(member);
    }
    let shares = loop {
        for member in &mut members {
            member.poll(Duration::from_millis(10)).await?;
        }
        let shares: Vec<usize> = members.iter().map(|member| member.assignment().len()).collect();
        if shares.iter().sum::<usize>() == 9 && !shares.contains(&0) {
            break shares;
        }
    };
    for member in members {
        member.close().await?;
    }
    Ok(shares)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let weights = [2, 1];
    for (weight, share) in weights.iter().zip(shares(&weights).await?) {
        println!("weight {weight}: {share} partitions");
    }
    Ok(())
}
