//! Timers of sagas. The clock stands still, so nothing is due by chance.

use std::time::Duration;

use milena_sql::Dialect;

use super::rig::Shop;

const MINUTE: Duration = Duration::from_secs(61);

#[tokio::test]
async fn a_step_that_does_not_report_is_compensated() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let mut shop = Shop::new(dialect).await;
        for service in ["orders", "inventory"] {
            shop.start(service).await;
        }
        // Two instances of the owner: one of them performs the timer.
        shop.start("orders").await;
        shop.order("1", "good");
        let awaited = "SELECT count(*) FROM milena_saga_events WHERE event_type = 'InventoryReserved'";
        shop.wait_for_count("orders", awaited, 1).await;
        shop.clock.advance(MINUTE);
        // The pivot comes first: it is not known whether it was performed.
        let asked = "SELECT count(*) FROM milena_outbox WHERE type = 'CompensationRequested'";
        shop.wait_for_count("orders", asked, 1).await;
        let row = shop.row("orders", "1").await.unwrap();
        assert_eq!(row.reason.as_deref(), Some("step charge timed out"), "{row:?}");
        // The services come late: they cancel their steps, and refuse or undo the actions.
        shop.start("shipping").await;
        shop.start("payment").await;
        shop.wait_for("orders", "1", "compensated").await;
        shop.assert_balance(0, 1).await;
        let timeouts = |place: usize| {
            let _ = place;
            shop.service("orders").sagas.counts()[&("order".to_owned(), "orders".to_owned())].timeouts
        };
        assert_eq!(timeouts(0), 1);
        assert!(
            shop.service("orders").instances[0]
                .to_prometheus()
                .contains("milena_saga_timeouts_total")
        );
    }
}

#[tokio::test]
async fn timers_survive_a_crash_of_the_owner() {
    let mut shop = Shop::new(Dialect::Sqlite).await;
    shop.start("orders").await;
    shop.order("1", "good");
    shop.wait_for("orders", "1", "running").await;
    shop.kill("orders");
    shop.clock.advance(MINUTE);
    shop.start("orders").await;
    let asked = "SELECT count(*) FROM milena_outbox WHERE type = 'CompensationRequested'";
    shop.wait_for_count("orders", asked, 1).await;
    let row = shop.row("orders", "1").await.unwrap();
    assert_eq!(row.reason.as_deref(), Some("step reserve timed out"));
}

#[tokio::test]
async fn a_pivot_that_was_performed_refuses_the_cancellation() {
    let mut shop = Shop::new(Dialect::Postgres).await;
    for service in ["inventory", "payment", "shipping"] {
        shop.start(service).await;
    }
    shop.order("1", "good");
    shop.wait_for("shipping", "1", "done").await;
    // The owner sees the request of the customer before the shipment, or after it: the shipment wins.
    shop.publish("orders", "OrderCancelRequested", "1", "{}");
    shop.start("orders").await;
    shop.wait_for("orders", "1", "completed").await;
    shop.assert_balance(1, 0).await;
}
