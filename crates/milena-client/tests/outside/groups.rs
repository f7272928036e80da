//! Groups of our consumers and Java's: members join, leave and die.

use std::sync::Arc;

use milena_client::consumer::Leave;
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    bed::{self, Bed},
    ledger::Ledger,
    members::{Java, KINDS, Kind, Ours},
    patience::in_time,
    peer::Peer,
};

const PARTITIONS: usize = 6;

/// The implementation of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Ours,
    Java,
}

/// The first leads a classic group until it leaves. The last one dies.
type Cast = [Who; 3];

enum Member<'a> {
    Ours(Ours),
    Java(Java<'a>),
}

/// The history of one group.
struct Life<'a> {
    bed: &'a Bed,
    kind: Kind,
    topic: String,
    ledger: Arc<Ledger>,
}

impl<'a> Life<'a> {
    async fn join(&self, who: Who, peer: &'a Peer, name: &str) -> (String, Member<'a>) {
        let name = format!("{name}-{}", self.topic);
        let member = match who {
            Who::Ours => {
                let config = self.bed.member(self.kind, &self.topic);
                Member::Ours(Ours::join(&name, config, &self.topic, &self.ledger))
            }
            Who::Java => Member::Java(Java::join(peer, &name, self.kind, &self.topic, &self.ledger).await),
        };
        (name, member)
    }

    async fn leave(&self, name: &str, member: Member<'_>) {
        self.ledger.let_go(name);
        match member {
            Member::Ours(ours) => ours.end(Leave::Default).await,
            Member::Java(java) => java.leave().await,
        }
    }

    async fn settle(&self, what: &str, members: &[&str]) {
        let share = PARTITIONS / members.len();
        let shares: Vec<(&str, usize)> = members.iter().map(|member| (*member, share)).collect();
        let what = format!("{}: {what}", self.topic);
        self.ledger.settle(&what, &shares).await;
    }
}

async fn live(bed: &Bed, kind: Kind, cast: Cast, doomed: &Peer, all_there: &Barrier) {
    let topic = bed.topic(&format!("group-{}", kind.name()), PARTITIONS, "").await;
    let life = Life {
        bed,
        kind,
        topic: topic.clone(),
        ledger: Arc::new(Ledger::default()),
    };
    bed.peer.call(&format!("flow {topic} {PARTITIONS}")).await;
    let (first, first_member) = life.join(cast[0], &bed.peer, "first").await;
    life.settle("one member", &[&first]).await;
    let (second, second_member) = life.join(cast[1], &bed.peer, "second").await;
    life.settle("two members", &[&first, &second]).await;
    let (third, third_member) = life.join(cast[2], doomed, "third").await;
    life.settle("three members", &[&first, &second, &third]).await;

    life.leave(&second, second_member).await;
    life.settle("the second has left", &[&first, &third]).await;
    let (fourth, fourth_member) = life.join(cast[1], &bed.peer, "fourth").await;
    life.settle("the fourth has come", &[&first, &third, &fourth]).await;
    life.leave(&first, first_member).await;
    life.settle("the leader has left", &[&third, &fourth]).await;

    in_time("all groups are there", all_there.wait()).await;
    match third_member {
        Member::Ours(ours) => ours.end(Leave::Remain).await,
        Member::Java(_) => doomed.kill(),
    }
    life.ledger.bury(&third);
    life.settle("the third has died", &[&fourth]).await;
    let end: i64 = bed.peer.call(&format!("still {topic}")).await.parse().unwrap();
    life.ledger.wait_for_all(&topic, PARTITIONS, end).await;
    life.ledger.assert_none_twice(&[&third]);
    life.leave(&fourth, fourth_member).await;
}

/// All kinds of groups at once, because they mostly wait.
async fn live_all(bed: &'static Bed, cast: Cast) {
    let doomed = Arc::new(Peer::start(&bed.address));
    let all_there = Arc::new(Barrier::new(KINDS.len()));
    let mut lives = JoinSet::new();
    for kind in KINDS {
        let (doomed, all_there) = (Arc::clone(&doomed), Arc::clone(&all_there));
        lives.spawn(async move { live(bed, kind, cast, &doomed, &all_there).await });
    }
    while let Some(lived) = lives.join_next().await {
        if let Err(error) = lived {
            panic!("{error}\n{}{}", bed.peer.complaints(), doomed.complaints());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_members_share_a_topic() {
    live_all(bed::kafka(), [Who::Ours, Who::Ours, Who::Ours]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_lead_and_javas_follow() {
    live_all(bed::kafka(), [Who::Ours, Who::Java, Who::Ours]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javas_lead_and_ours_follow() {
    live_all(bed::kafka(), [Who::Java, Who::Ours, Who::Java]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_and_javas_share_a_topic_of_our_broker() {
    live_all(bed::ours(), [Who::Ours, Who::Java, Who::Java]).await;
}
