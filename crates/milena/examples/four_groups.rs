//! Four groups on one topic: each sees every order, at its own pace. The mails are slow, and the other groups do not
//! wait for them.
//!
//! `cargo run -p milena --example four_groups -- 127.0.0.1:9092` with the topic `orders`.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex},
};

use milena::app::prelude::*;
use tokio::sync::Semaphore;

/// Orders that each group has seen.
pub type Seen = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

/// Number of mails that the server accepts for now.
pub type MailServer = Arc<Semaphore>;

async fn note(Value(order): Value<String>, cx: Cx, State(seen): State<Seen>) -> Result<(), Fault> {
    let mut seen = seen.lock().map_err(|error| Fault::fatal(error.to_string()))?;
    seen.entry(cx.group().to_owned()).or_default().push(order);
    Ok(())
}

async fn mail(order: Value<String>, cx: Cx, seen: State<Seen>, State(server): State<MailServer>) -> Result<(), Fault> {
    server.acquire().await.map_err(Fault::dependency("mails"))?.forget();
    note(order, cx, seen).await
}

pub fn apps(bootstrap: &str, seen: &Seen, server: &MailServer) -> Vec<App> {
    let app = |group| App::new(bootstrap).group(group).state(Arc::clone(seen));
    let mut apps: Vec<App> = ["billing", "shipping", "statistics"]
        .into_iter()
        .map(|group| app(group).on("orders", note, |policy| policy))
        .collect();
    let mails = app("mails").state(Arc::clone(server));
    apps.push(mails.on("orders", mail, |policy| policy.timeout(None)));
    apps
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let (seen, server) = (Seen::default(), Arc::new(Semaphore::new(10)));
    let mut running = vec![];
    for app in apps(&bootstrap, &seen, &server) {
        running.push(app.start().await?);
    }
    shutdown_signal().await;
    for app in running {
        app.stop().await?;
    }
    println!("{:?}", seen.lock());
    Ok(())
}
