//! Changes by hand.

use std::time::Duration;

use milena_sql::{
    Dialect,
    saga::command::{self, CommandError, CommandKind, PendingCommand},
};

use super::rig::Shop;

fn by_anna(command: CommandKind, reason: &str) -> PendingCommand {
    PendingCommand {
        command,
        actor: "anna".to_owned(),
        reason: reason.to_owned(),
    }
}

async fn request(shop: &Shop, saga_id: &str, command: CommandKind) -> Result<(), CommandError> {
    let database = &shop.service("orders").database;
    let command = by_anna(command, "ticket 12");
    command::request(database, saga_id, None, &command, shop.clock.now_ms()).await?;
    // The owner looks for commands of others once a second.
    shop.clock.advance(Duration::from_secs(1));
    Ok(())
}

/// A saga whose compensation is never reported.
async fn stuck(dialect: Dialect) -> Shop {
    let mut shop = Shop::new(dialect).await;
    for service in ["orders", "inventory", "payment", "shipping"] {
        shop.start(service).await;
    }
    shop.kill("payment");
    shop.order("1", "declined");
    shop.wait_for("inventory", "1", "done").await;
    shop.kill("inventory");
    shop.start("payment").await;
    shop.wait_for("orders", "1", "compensating").await;
    for asked in 1..=5 {
        let version = shop.row("orders", "1").await.unwrap().version;
        shop.clock.advance(Duration::from_secs(61));
        while shop.row("orders", "1").await.unwrap().version == version {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if shop.status("orders", "1").await.as_deref() == Some("stuck") {
            return shop;
        }
        assert!(asked < 5, "{:?}", shop.row("orders", "1").await);
    }
    shop
}

#[tokio::test]
async fn a_stuck_saga_goes_on_after_a_retry() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let mut shop = stuck(dialect).await;
        let row = shop.row("orders", "1").await.unwrap();
        assert_eq!(row.reason.as_deref(), Some("compensation of step reserve timed out"));
        request(&shop, "1", CommandKind::Retry).await.unwrap();
        shop.wait_for("orders", "1", "compensating").await;
        shop.start("inventory").await;
        shop.wait_for("orders", "1", "compensated").await;
        shop.assert_balance(0, 1).await;
        let trail = shop.trail("orders", "1").await;
        let by_hand: Vec<_> = trail.iter().filter(|line| line.actor == "anna").collect();
        assert_eq!(by_hand[0].action, "retry requested");
        assert!(
            by_hand[1]
                .action
                .starts_with("retry: asked for the compensation of reserve"),
            "{by_hand:?}"
        );
        assert!(by_hand.iter().all(|line| line.reason.as_deref() == Some("ticket 12")));
    }
}

#[tokio::test]
async fn a_stuck_saga_can_be_closed() {
    let shop = stuck(Dialect::Sqlite).await;
    request(&shop, "1", CommandKind::Close).await.unwrap();
    shop.wait_for("orders", "1", "closed").await;
    let error = request(&shop, "1", CommandKind::Close).await.unwrap_err();
    assert!(matches!(error, CommandError::Ended { .. }), "{error}");
    let error = request(&shop, "2", CommandKind::Close).await.unwrap_err();
    assert!(matches!(error, CommandError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn an_operator_cancels_a_running_saga() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let mut shop = Shop::started(dialect).await;
        shop.kill("shipping");
        shop.order("1", "good");
        shop.wait_for("payment", "1", "done").await;
        shop.wait_for("orders", "1", "running").await;
        request(&shop, "1", CommandKind::Compensate).await.unwrap();
        let asked = "SELECT count(*) FROM milena_outbox WHERE type = 'CompensationRequested'";
        shop.wait_for_count("orders", asked, 1).await;
        assert_eq!(
            shop.row("orders", "1").await.unwrap().reason.as_deref(),
            Some("cancelled by hand")
        );
        // The pivot may be performed before the request, or cancelled by it: both are right.
        shop.start("shipping").await;
        let ended = "SELECT count(*) FROM orders";
        shop.wait_for_count("orders", ended, 1).await;
        let completed = shop
            .count("orders", "SELECT count(*) FROM orders WHERE status = 'completed'")
            .await;
        shop.assert_balance(completed, 1 - completed).await;
    }
}

#[tokio::test]
async fn commands_wait_for_the_owner_and_need_a_reason() {
    let mut shop = Shop::new(Dialect::Sqlite).await;
    shop.start("orders").await;
    shop.order("1", "good");
    shop.wait_for("orders", "1", "running").await;
    shop.kill("orders");
    let database = shop.service("orders").database.clone();
    let now_ms = shop.clock.now_ms();
    let nothing = by_anna(CommandKind::Close, " ");
    let error = command::request(&database, "1", None, &nothing, now_ms)
        .await
        .unwrap_err();
    assert!(matches!(error, CommandError::NoReason), "{error}");
    let close = by_anna(CommandKind::Close, "paid by cheque");
    let row = command::request(&database, "1", Some("order"), &close, now_ms)
        .await
        .unwrap();
    let performed = command::performed(&database, &row.key, row.version).await.unwrap();
    assert_eq!(performed, None);
    let other = by_anna(CommandKind::Retry, "what now");
    let error = command::request(&database, "1", None, &other, now_ms)
        .await
        .unwrap_err();
    assert!(matches!(error, CommandError::Pending { .. }), "{error}");
    shop.start("orders").await;
    shop.wait_for("orders", "1", "closed").await;
    let performed = command::performed(&database, &row.key, row.version).await.unwrap();
    assert_eq!(performed.unwrap().status, "closed");
}
