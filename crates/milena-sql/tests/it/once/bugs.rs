//! The two known mistakes of idempotent handlers, to show that the tests would find them.
//!
//! A note in a transaction of its own, before the effect, loses effects: a call that fails in between is a duplicate when
//! it is repeated. The same after the effect doubles them.

use std::{collections::BTreeMap, time::Duration};

use milena_app::prelude::*;
use milena_sql::{
    Database,
    once::{SqliteTx, fault},
};
use milena_test::TestKit;
use sqlx::{Sqlite, SqlitePool};

use super::shop::{Script, Shop, Step, effects, opened};
use crate::databases::Home;

async fn right(Value(name): Value<String>, mut tx: SqliteTx, State(script): State<Script>) -> Result<(), Fault> {
    Sqlite::add(&mut tx, &name).await.map_err(fault)?;
    script.next(&name).await
}

async fn note(pool: &SqlitePool, cx: &Cx) -> Result<bool, sqlx::Error> {
    let note = sqlx::query(
        "INSERT INTO milena_processed_events (consumer_group, handler, event_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    );
    let note = note.bind(cx.group()).bind(cx.handler()).bind(cx.event_id());
    Ok(note.execute(pool).await?.rows_affected() > 0)
}

async fn is_noted(pool: &SqlitePool, cx: &Cx) -> Result<bool, sqlx::Error> {
    let found = sqlx::query("SELECT 1 FROM milena_processed_events WHERE event_id = $1").bind(cx.event_id());
    Ok(found.fetch_optional(pool).await?.is_some())
}

async fn add(pool: &SqlitePool, name: &str) -> Result<(), sqlx::Error> {
    Sqlite::add(&mut *pool.acquire().await?, name).await
}

/// The mistake that loses: the note is committed before the effect.
async fn noted_before(
    Value(name): Value<String>,
    State(pool): State<SqlitePool>,
    State(script): State<Script>,
    cx: Cx,
) -> Result<Done, Fault> {
    if !note(&pool, &cx).await? {
        return Ok(Done::Duplicate);
    }
    script.next(&name).await?;
    add(&pool, &name).await?;
    Ok(Done::Ok)
}

/// The mistake that doubles: the note is committed after the effect.
async fn noted_after(
    Value(name): Value<String>,
    State(pool): State<SqlitePool>,
    State(script): State<Script>,
    cx: Cx,
) -> Result<Done, Fault> {
    if is_noted(&pool, &cx).await? {
        return Ok(Done::Duplicate);
    }
    add(&pool, &name).await?;
    script.next(&name).await?;
    note(&pool, &cx).await?;
    Ok(Done::Ok)
}

/// Events that had no effect, and those that had several.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    lost: usize,
    doubled: usize,
}

const EVENTS: usize = 30;

/// Handles events whose calls fail in ways that a seed determines, and compares their effects with them.
async fn judged<A: 'static>(handler: impl milena_app::handler::Handler<A>, seed: u64) -> Verdict {
    let home = Home::sqlite();
    let database = opened(&home).await;
    let Database::Sqlite(pool) = &database else {
        panic!("a SQLite")
    };
    let mut state = seed;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut script = Script::default();
    for event in 0..EVENTS {
        let failures = (0..random() % 4).map(|_| if random() % 2 == 0 { Step::Fail } else { Step::Panic });
        let failures: Vec<Step> = failures.collect();
        script = script.with(&event.to_string(), failures);
    }
    let app = App::new("").group("billing").state(pool.clone()).state(script.clone());
    let kit = TestKit::start(app.on("orders", handler, |policy| policy)).await;
    for event in 0..EVENTS {
        let event = event.to_string();
        kit.publish("orders", (event.as_str(), event.as_str())).await;
    }
    kit.advance(Duration::from_secs(60)).await;
    kit.stop().await;
    let mut counts: BTreeMap<String, usize> = (0..EVENTS).map(|event| (event.to_string(), 0)).collect();
    for name in effects(&database).await {
        *counts.get_mut(&name).expect("no effect is invented") += 1;
    }
    Verdict {
        lost: counts.values().filter(|count| **count == 0).count(),
        doubled: counts.values().filter(|count| **count > 1).count(),
    }
}

#[tokio::test]
async fn the_known_mistakes_are_found_and_a_tx_makes_none() {
    for seed in 1..4 {
        let verdict = judged(right, seed).await;
        assert_eq!(verdict, Verdict { lost: 0, doubled: 0 }, "seed {seed}");
        let verdict = judged(noted_before, seed).await;
        assert!(verdict.lost > 0 && verdict.doubled == 0, "seed {seed}: {verdict:?}");
        let verdict = judged(noted_after, seed).await;
        assert!(verdict.doubled > 0 && verdict.lost == 0, "seed {seed}: {verdict:?}");
    }
}
