//! Sagas that run to their end.

use milena_sql::Dialect;

use super::rig::{Shop, event};

#[tokio::test]
async fn an_order_is_completed_on_postgres() {
    completes(Dialect::Postgres).await;
}

#[tokio::test]
async fn an_order_is_completed_on_sqlite() {
    completes(Dialect::Sqlite).await;
}

async fn completes(dialect: Dialect) {
    let shop = Shop::started(dialect).await;
    shop.order("4711", "good");
    shop.wait_for("orders", "4711", "completed").await;
    shop.assert_balance(1, 0).await;
    assert_eq!(shop.status("payment", "4711").await.as_deref(), Some("done"));
    // The owner does not need the events any more.
    assert_eq!(shop.count("orders", "SELECT count(*) FROM milena_saga_events").await, 0);
    let counts = shop.service("orders").sagas.counts();
    let counts = counts[&("order".to_owned(), "orders".to_owned())];
    assert_eq!((counts.completed, counts.compensated, counts.timeouts), (1, 0, 0));
    let trail = shop.trail("orders", "4711").await;
    assert!(
        trail[0].actor.starts_with("event OrderCreated OrderCreated-4711"),
        "{trail:?}"
    );
    assert!(trail.last().unwrap().action.contains("saga completed"), "{trail:?}");
}

#[tokio::test]
async fn a_declined_card_releases_the_stock_and_cancels_the_order() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let shop = Shop::started(dialect).await;
        shop.order("1", "declined");
        shop.wait_for("orders", "1", "compensated").await;
        shop.assert_balance(0, 1).await;
        assert_eq!(shop.status("inventory", "1").await.as_deref(), Some("compensated"));
        assert_eq!(shop.status("payment", "1").await.as_deref(), Some("failed"));
        assert_eq!(shop.status("shipping", "1").await, None);
        let row = shop.row("orders", "1").await.unwrap();
        assert_eq!(row.reason.as_deref(), Some("step charge failed: card declined"));
        // Events of the saga refer to each other.
        let released = "SELECT count(*) FROM milena_outbox WHERE type = 'InventoryReleased'";
        assert_eq!(shop.count("inventory", released).await, 1);
    }
}

#[tokio::test]
async fn a_failed_step_has_no_effect() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let shop = Shop::new(dialect).await;
        let mut shop = shop;
        for service in ["orders", "inventory"] {
            shop.start(service).await;
        }
        let database = shop.service("inventory").database.clone();
        match &database {
            milena_sql::Database::Postgres(pool) => {
                sqlx::query("UPDATE stock SET free = 0")
                    .execute(pool)
                    .await
                    .map(drop)
                    .unwrap();
            }
            milena_sql::Database::Sqlite(pool) => {
                sqlx::query("UPDATE stock SET free = 0")
                    .execute(pool)
                    .await
                    .map(drop)
                    .unwrap();
            }
        }
        shop.order("1", "good");
        shop.wait_for("orders", "1", "compensated").await;
        assert_eq!(shop.count("inventory", "SELECT count(*) FROM reservations").await, 0);
        let row = shop.row("orders", "1").await.unwrap();
        assert_eq!(row.reason.as_deref(), Some("step reserve failed: out of stock"));
    }
}

#[tokio::test]
async fn a_duplicate_changes_nothing() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let shop = Shop::started(dialect).await;
        for _ in 0..3 {
            shop.order("1", "good");
        }
        // The same event with another id, as of a producer that has no outbox.
        let record = event("OrderCreated", "1", r#"{"card":"good"}"#).header("id", "another");
        shop.publish_record("orders", "1", record);
        shop.wait_for("orders", "1", "completed").await;
        shop.order("2", "good");
        shop.wait_for("orders", "2", "completed").await;
        shop.assert_balance(2, 0).await;
    }
}

#[tokio::test]
async fn many_orders_end_although_services_crash() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let mut shop = Shop::started(dialect).await;
        // A second instance of each: both change the same sagas.
        for service in ["orders", "payment"] {
            shop.start(service).await;
        }
        for order in 0..40 {
            let card = if order % 4 == 0 { "declined" } else { "good" };
            shop.order(&format!("order-{order}"), card);
            if order % 10 == 5 {
                let victim = ["payment", "inventory", "orders", "shipping"][order / 10];
                shop.kill(victim);
                shop.start(victim).await;
            }
        }
        shop.wait_for_count("orders", "SELECT count(*) FROM orders", 40).await;
        shop.assert_balance(30, 10).await;
    }
}
