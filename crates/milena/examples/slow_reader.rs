//! Three services read the topic `order-events`: analytics and notifications are fast, machine learning is slow. In one
//! group they share the partitions, so each order reaches one service only, and the orders of the slow one wait. When
//! the slow one leaves, the others get its orders. In three groups each service gets every order at its own pace.
//!
//! `cargo run -p milena --example slow_reader`; the broker is in the example.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena::app::prelude::*;
use milena_test::TestBroker;
use tokio::sync::Semaphore;

pub const ORDERS: usize = 300;
const SERVICES: [&str; 3] = ["analytics", "notifications", "machine learning"];
const SLOW: usize = 2;
const PARTITIONS: i32 = 3;

/// A service: the number of handled orders, and the number that it can handle for now.
pub struct Service {
    handled: AtomicUsize,
    capacity: Semaphore,
}

async fn handle(State(service): State<Arc<Service>>) -> Result<(), Fault> {
    service.capacity.acquire().await?.forget();
    service.handled.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

fn app(bootstrap: &str, group: &str, service: &Arc<Service>) -> App {
    App::new(bootstrap)
        .group(group)
        .state(Arc::clone(service))
        .drain(Duration::from_millis(10))
        // Heartbeats report a rebalance; the example need not wait 3 s for one.
        .consumer("heartbeat.interval.ms", 50)
        .on("order-events", handle, |policy| policy.timeout(None))
}

/// Orders that each service handled: while the slow one is stuck, and at the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub while_stuck: Vec<usize>,
    pub at_end: Vec<usize>,
}

async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Runs the three services, in one group or in a group each. At the end the slow one leaves, or catches up.
pub async fn run(one_group: bool) -> Result<Report, Box<dyn Error>> {
    let broker = TestBroker::start();
    broker.create_topic("order-events", PARTITIONS);
    let service = |name: &&str| {
        let capacity = if *name == SERVICES[SLOW] { 0 } else { ORDERS };
        Arc::new(Service {
            handled: AtomicUsize::new(0),
            capacity: Semaphore::new(capacity),
        })
    };
    let services: Vec<Arc<Service>> = SERVICES.iter().map(service).collect();
    let mut running = vec![];
    for (name, service) in SERVICES.iter().zip(&services) {
        let group = if one_group { "orders" } else { name };
        running.push(app(&broker.bootstrap_servers(), group, service).start().await?);
    }
    let (share, all) = if one_group { (1, ORDERS / 3) } else { (3, ORDERS) };
    until(|| running.iter().all(|app| app.status().partitions.len() == share)).await;
    for partition in 0..PARTITIONS {
        broker.produce("order-events", partition, vec!["an order"; ORDERS / 3]);
    }
    let handled = || -> Vec<usize> {
        services
            .iter()
            .map(|service| service.handled.load(Ordering::SeqCst))
            .collect()
    };
    until(|| handled()[..SLOW] == [all, all]).await;
    let while_stuck = handled();
    if one_group {
        running.remove(SLOW).stop().await?;
        until(|| handled().iter().sum::<usize>() == ORDERS).await;
    } else {
        services[SLOW].capacity.add_permits(ORDERS);
        until(|| handled()[SLOW] == ORDERS).await;
    }
    for app in running {
        app.stop().await?;
    }
    let at_end = handled();
    Ok(Report { while_stuck, at_end })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for (name, one_group) in [("one group", true), ("three groups", false)] {
        let report = run(one_group).await?;
        println!("{name}, {ORDERS} orders:");
        for (number, service) in SERVICES.iter().enumerate() {
            let (stuck, end) = (report.while_stuck[number], report.at_end[number]);
            println!("  {service}: {stuck} handled while the slow service is stuck, {end} at the end");
        }
    }
    Ok(())
}
