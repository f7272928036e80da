//! A mail server that is down: without a breaker every mail is tried again and again; with one, a few are, and the others
//! wait in their topic.
//!
//! `cargo run -p milena --example mail_storm -- 127.0.0.1:9092` with the topic `mails`.

use std::{error::Error, sync::Arc};

use milena::app::prelude::*;

/// Sends a mail; `false` if the server does not answer.
pub type Send = Arc<dyn Fn(&str) -> bool + std::marker::Send + Sync>;

async fn mail(Value(text): Value<String>, State(send): State<Send>) -> Result<(), Fault> {
    if send(&text) {
        Ok(())
    } else {
        Err(Fault::dependency("smtp")("the mail server does not answer"))
    }
}

pub fn app(bootstrap: &str, send: Send, with_breaker: bool) -> App {
    let app = App::new(bootstrap)
        .group("mailers")
        .state(send)
        .breaker("smtp", Breaker::default());
    app.on("mails", mail, |policy| {
        let policy = policy.concurrency(10);
        if with_breaker { policy.breaker("smtp") } else { policy }
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let print = |text: &str| {
        println!("mail: {text}");
        true
    };
    app(&bootstrap, Arc::new(print), true)
        .run_until(shutdown_signal())
        .await?;
    Ok(())
}
