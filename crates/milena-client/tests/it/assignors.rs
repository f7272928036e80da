//! Groups with a custom assignor.

use std::time::Duration;

use milena_client::{
    config::ConsumerConfig,
    consumer::{
        Consumer, TopicPartition,
        assignor::{Assignor, ByteString, Bytes, ClusterLayout, GroupAssignment, MemberSubscription},
    },
};

use crate::broker::TestBroker;

const SHORT: Duration = Duration::from_millis(20);

/// Assigns everything to the member with the highest rank, which is sent in the user data.
#[derive(Debug)]
struct HighestRank(u8);

impl Assignor for HighestRank {
    fn name(&self) -> &str {
        "highest-rank"
    }

    fn user_data(&self, _topics: &[ByteString]) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(&[self.0]))
    }

    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
        let empty = |member: &MemberSubscription| (member.member_id.clone(), Default::default());
        let mut assignment: GroupAssignment = members.iter().map(empty).collect();
        let highest = members.iter().max_by_key(|member| member.user_data.clone()).unwrap();
        let share = assignment.get_mut(&highest.member_id).unwrap();
        for topic in &highest.topics {
            let count = i32::try_from(cluster[topic].len()).unwrap();
            let partitions = (0..count).map(|partition| TopicPartition::new(topic.clone(), partition));
            share.partitions.extend(partitions);
        }
        assignment
    }
}

fn member(broker: &TestBroker, rank: u8) -> Consumer {
    let config = ConsumerConfig::builder(broker.address())
        .group_id("ranked")
        .set("heartbeat.interval.ms", 50);
    let mut consumer = Consumer::with_assignors(config, vec![Box::new(HighestRank(rank))]).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    consumer
}

async fn settle(members: &mut [&mut Consumer], expected: &[usize]) {
    loop {
        for consumer in members.iter_mut() {
            consumer.poll(SHORT).await.unwrap();
        }
        let counts: Vec<usize> = members.iter().map(|consumer| consumer.assignment().len()).collect();
        if counts == expected {
            return;
        }
    }
}

#[tokio::test]
async fn an_assignor_of_ones_own_shares_the_partitions_of_a_group() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 5);
    let mut low = member(&broker, 1);
    settle(&mut [&mut low], &[5]).await;
    // The first member stays the leader, and receives the rank of the second.
    let mut high = member(&broker, 2);
    settle(&mut [&mut low, &mut high], &[0, 5]).await;
    high.close().await.unwrap();
    settle(&mut [&mut low], &[5]).await;
    low.close().await.unwrap();
}
