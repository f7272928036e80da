//! Breakers shared by handlers of different delivery guarantees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena_app::{prelude::*, status::BreakerState};
use milena_test::TestKit;

/// A service that can be down, and counts its calls.
#[derive(Clone, Default)]
struct Payments {
    is_down: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

async fn pay(State(payments): State<Payments>) -> Result<(), Fault> {
    payments.calls.fetch_add(1, Ordering::SeqCst);
    if payments.is_down.load(Ordering::SeqCst) {
        return Err("no answer").map_err(Fault::dependency("payments"));
    }
    Ok(())
}

fn breaker(kit: &TestKit) -> (BreakerState, u64) {
    let breakers = kit.running().status().breakers;
    assert_eq!(breakers.len(), 1, "{breakers:?}");
    (breakers[0].state, breakers[0].opened)
}

/// The handler of `opens` opens the breaker; that of `follows` must not call the service either.
async fn one_breaker(opens: &str, follows: &str) {
    let payments = Payments::default();
    payments.is_down.store(true, Ordering::SeqCst);
    let app = App::new("").group("billing").instance("one").state(payments.clone());
    let app = app.breaker("payments", Breaker::default().calls(4).probes(2));
    let app = app.on("orders", pay, |policy| policy.breaker("payments"));
    let app = app.exactly_once("refunds", pay, |policy| policy.breaker("payments"));
    let kit = TestKit::start(app).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        kit.publish(opens, (key, "now")).await;
    }
    // Records that failed before the breaker opened are retried soon; records of the other handler are not tried.
    kit.advance(Duration::from_secs(1)).await;
    assert_eq!(breaker(&kit), (BreakerState::Open, 1));
    let before = payments.calls.load(Ordering::SeqCst);
    for key in ["a", "b", "c", "d", "e", "f"] {
        kit.publish(follows, (key, "now")).await;
    }
    kit.advance(Duration::from_secs(1)).await;
    assert_eq!(
        payments.calls.load(Ordering::SeqCst),
        before,
        "it was called while it was open"
    );
    // The breaker probes, within its limit for both handlers together.
    kit.advance(Duration::from_secs(30)).await;
    assert_eq!(breaker(&kit), (BreakerState::Open, 2));
    let probes = payments.calls.load(Ordering::SeqCst) - before;
    assert!((1..=2).contains(&probes), "{probes} probes");
    payments.is_down.store(false, Ordering::SeqCst);
    kit.advance(Duration::from_secs(70)).await;
    assert_eq!(breaker(&kit), (BreakerState::Closed, 2));
    for counts in kit.running().counts() {
        assert_eq!((counts.success, counts.dead_max_retries), (6, 0), "{counts:?}");
    }
    kit.stop().await;
}

#[tokio::test]
async fn a_breaker_that_opens_at_least_once_is_open_exactly_once() {
    one_breaker("orders", "refunds").await;
}

#[tokio::test]
async fn a_breaker_that_opens_exactly_once_is_open_at_least_once() {
    one_breaker("refunds", "orders").await;
}
