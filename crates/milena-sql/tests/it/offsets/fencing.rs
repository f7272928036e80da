//! Previous owners that still run.

use std::time::Duration;

use milena_app::{
    offset_store::{OffsetStore, OffsetToStore, PartitionToClaim},
    prelude::*,
};
use milena_sql::{Database, offsets::SqlOffsets, sqlx};
use milena_test::messages::{HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest};

use super::rig::{GROUP, Gate, Rig, TOPIC, partition, until, within};
use crate::databases::Home;

fn to_claim(number: i32) -> PartitionToClaim {
    PartitionToClaim {
        partition: partition(number),
        topic_id: None,
    }
}

fn to_store(epoch: i64, offset: i64) -> OffsetToStore {
    OffsetToStore {
        partition: partition(0),
        epoch,
        offset,
        leader_epoch: None,
        metadata: String::new(),
    }
}

#[tokio::test]
async fn a_zombie_commits_nothing_after_its_successor_has_begun() {
    for order in [Order::Partition, Order::Key] {
        let rig = Rig::new(Home::postgres(), 1).await;
        rig.broker.produce(TOPIC, 0, ["wait"]);
        let gate = Gate::new();
        let zombie = rig.app().consumer("client.id", "zombie").state(gate.clone());
        let zombie = rig.orders(zombie, |policy| policy.order(order).timeout(None));
        let zombie = zombie.start().await.unwrap();
        within("the call", gate.arrived.acquire()).await.unwrap().forget();
        // From here on it hears nothing of the group.
        let faults = rig.broker.faults();
        let deaf = [
            faults.on::<HeartbeatRequest>().client_id("zombie").drop_request(),
            faults.on::<JoinGroupRequest>().client_id("zombie").drop_request(),
            faults.on::<OffsetCommitRequest>().client_id("zombie").drop_request(),
        ];
        rig.forget_members();
        // The successor waits for the row of the processed event, which the zombie has inserted.
        let quick = Gate::new();
        quick.open.add_permits(10);
        let successor = rig.orders(rig.app().state(quick), |policy| policy.order(order).timeout(None));
        let successor = successor.start().await.unwrap();
        until("the claim of the successor", || {
            successor
                .status()
                .partitions
                .iter()
                .any(|owned| owned.partition == partition(0))
        })
        .await;
        gate.open.add_permits(10);
        rig.effects_are(1).await;
        rig.stored_is(0, 1).await;
        rig.broker.produce(TOPIC, 0, ["next"]);
        rig.effects_are(2).await;
        until("the fencing of the zombie", || zombie.counts()[0].fenced == 1).await;
        assert_eq!(zombie.counts()[0].success, 0, "its transaction was refused");
        assert_eq!(zombie.counts()[0].failed, 0, "and that is no failure of the handler");
        deaf.iter().for_each(milena_test::Fault::remove);
        zombie.stop().await.unwrap();
        successor.stop().await.unwrap();
        assert_eq!(rig.values().await, ["wait", "next"]);
    }
}

#[tokio::test]
async fn an_owner_that_a_late_claim_has_fenced_claims_again() {
    for home in Home::both() {
        let rig = Rig::new(home, 1).await;
        let running = rig.start(Order::Partition).await;
        rig.broker.produce(TOPIC, 0, ["one"]);
        rig.effects_are(1).await;
        let store = SqlOffsets::new(rig.database.clone());
        let late = store.claim(GROUP, "late", &[to_claim(0)]).await.unwrap();
        assert_eq!(late[0].stored.as_ref().map(|stored| stored.offset), Some(1));
        rig.broker.produce(TOPIC, 0, ["two", "three"]);
        rig.effects_are(3).await;
        assert_eq!(rig.values().await, ["one", "two", "three"]);
        assert_eq!(running.counts()[0].fenced, 1);
        // Now the late one is fenced.
        let fenced = store.commit(GROUP, &[to_store(late[0].epoch, 0)]).await.unwrap();
        assert_eq!(fenced, [partition(0)]);
        rig.stored_is(0, 3).await;
        running.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_claim_waits_for_a_transaction_that_is_about_to_commit() {
    let rig = Rig::new(Home::postgres(), 1).await;
    let store = SqlOffsets::new(rig.database.clone());
    let first = store.claim(GROUP, "first", &[to_claim(0)]).await.unwrap();
    store.commit(GROUP, &[to_store(first[0].epoch, 5)]).await.unwrap();
    let Database::Postgres(pool) = &rig.database else {
        panic!()
    };
    let mut transaction = pool.begin().await.unwrap();
    let locked = sqlx::query("SELECT epoch FROM milena_offsets FOR KEY SHARE");
    locked.execute(&mut *transaction).await.unwrap();
    // Commits of the owner do not wait for its transactions, and these do not wait for each other.
    store.commit(GROUP, &[to_store(first[0].epoch, 6)]).await.unwrap();
    let next = {
        let store = store.clone();
        tokio::spawn(async move { store.claim(GROUP, "next", &[to_claim(0)]).await })
    };
    within("the wait of the claim", async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(!next.is_finished());
    transaction.commit().await.unwrap();
    let claims = within("the claim", next).await.unwrap().unwrap();
    assert_eq!(claims[0].epoch, first[0].epoch + 1);
    assert_eq!(claims[0].stored.as_ref().map(|stored| stored.offset), Some(6));
}

#[tokio::test]
async fn offsets_do_not_go_back_within_an_epoch() {
    for home in Home::both() {
        let rig = Rig::new(home, 1).await;
        let store = SqlOffsets::new(rig.database.clone());
        let claim = store.claim(GROUP, "one", &[to_claim(0)]).await.unwrap().remove(0);
        assert_eq!((claim.epoch, claim.stored), (1, None));
        for offset in [7, 5] {
            let fenced = store.commit(GROUP, &[to_store(1, offset)]).await.unwrap();
            assert!(fenced.is_empty());
        }
        let stored = store
            .claim(GROUP, "two", &[to_claim(0)])
            .await
            .unwrap()
            .remove(0)
            .stored;
        let stored = stored.unwrap();
        // The metadata of the last commit belongs to a lower offset than effects have stored.
        assert_eq!((stored.offset, stored.metadata_offset), (7, 5));
    }
}

#[tokio::test]
async fn partitions_move_between_instances_and_no_effect_happens_twice() {
    for home in Home::both() {
        let rig = Rig::new(home, 6).await;
        let first = rig.start(Order::Key).await;
        let mut number = 0;
        let mut produce = || {
            for partition in 0..6 {
                rig.broker.produce(TOPIC, partition, [format!("{number:05}")]);
                number += 1;
            }
        };
        until("work for the first", || {
            produce();
            first.counts()[0].success > 60
        })
        .await;
        let second = rig.start(Order::Key).await;
        until("work for both", || {
            produce();
            second.counts()[0].success > 60
        })
        .await;
        within("the end of the first", first.stop()).await.unwrap();
        produce();
        let third = rig.start(Order::Key).await;
        produce();
        rig.kill(second);
        produce();
        rig.effects_are(number).await;
        third.stop().await.unwrap();
        let mut values = rig.values().await;
        values.sort();
        values.dedup();
        assert_eq!((values.len(), rig.values().await.len()), (number, number));
    }
}
