//! A retry storm: 500 mails, and a mail server that is down for half an hour. Retries alone call the server 50,000
//! times and end in 500 dead letters. A circuit breaker calls it a few dozen times, and all mails are sent when the
//! server is back.
//!
//! `cargo run -p milena --example mail_storm`; the broker is in the example, and half an hour passes at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena::app::prelude::*;
use milena_test::{TestBroker, TestKit};

pub const MAILS: usize = 500;
const OUTAGE: Duration = Duration::from_secs(30 * 60);

/// A mail server that counts calls and sent mails.
#[derive(Default)]
pub struct MailServer {
    is_up: AtomicBool,
    calls: AtomicUsize,
    sent: AtomicUsize,
}

impl MailServer {
    fn send(&self, _mail: &str) -> Result<(), &'static str> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if !self.is_up.load(Ordering::SeqCst) {
            return Err("the mail server does not respond");
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

async fn mail(Value(mail): Value<String>, State(server): State<Arc<MailServer>>) -> Result<(), Fault> {
    server.send(&mail).map_err(Fault::dependency("smtp"))
}

/// The mailer. Each mail is tried every 18 seconds, up to 100 times.
pub fn app(bootstrap: &str, server: Arc<MailServer>, with_breaker: bool) -> App {
    let wait = Duration::from_secs(18);
    let retry = Retry::exponential(wait, wait).jitter_percent(0).attempts(100);
    App::new(bootstrap)
        .group("mailers")
        .state(server)
        .on("mails", mail, |policy| {
            let policy = policy.concurrency(10).retry(retry.elapsed_max(None));
            if with_breaker { policy.breaker("smtp") } else { policy }
        })
}

/// Result of an outage.
#[derive(Debug)]
pub struct Report {
    pub calls_while_down: usize,
    pub sent_when_back: usize,
    pub dead_letters: usize,
}

/// Half an hour without a mail server, then five minutes with one.
pub async fn outage(with_breaker: bool) -> Report {
    let broker = TestBroker::start();
    broker.create_topic("mails", 1);
    broker.produce("mails", 0, (0..MAILS).map(|number| format!("mail {number}")));
    let server = Arc::new(MailServer::default());
    let kit = TestKit::start_on(broker, app("", Arc::clone(&server), with_breaker)).await;
    kit.advance(OUTAGE).await;
    let calls_while_down = server.calls.load(Ordering::SeqCst);
    server.is_up.store(true, Ordering::SeqCst);
    kit.advance(Duration::from_secs(5 * 60)).await;
    let dead_letters = kit.records("mails.dlq").await.len();
    kit.stop().await;
    Report {
        calls_while_down,
        sent_when_back: server.sent.load(Ordering::SeqCst),
        dead_letters,
    }
}

#[tokio::main]
async fn main() {
    for (name, with_breaker) in [("without a breaker", false), ("with a breaker", true)] {
        let report = outage(with_breaker).await;
        println!(
            "{name}: {} calls for {MAILS} mails in 30 minutes; then {} mails sent, {} dead letters",
            report.calls_while_down, report.sent_when_back, report.dead_letters
        );
    }
}
