//! A service that quotes prices, and a client that asks it: request-reply over topics.
//!
//! `cargo run -p milena --example quotes -- 127.0.0.1:9092` with the topic `quotes.requests`. The reply topic `replies` is
//! created.
//!
//! - The client reads one partition of `replies`, without a group. It fixes its position there before the first request.
//! - The service returns a reply, and the runtime knows from the request where it goes.
//! - An unknown share is an error at once, not a timeout.
//! - Requests whose client has given up are skipped.

use std::{error::Error, time::Duration};

use milena::app::{
    prelude::*,
    request_reply::{RequestError, RequesterError},
};

#[derive(serde::Serialize, serde::Deserialize)]
pub struct QuoteRequest {
    pub share: String,
    pub count: u64,
}

#[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Quote {
    pub share: String,
    pub cents: u64,
}

async fn quote(Event(request): Event<QuoteRequest>) -> Result<Done, Fault> {
    let cents = match request.share.as_str() {
        "ACME" => 1_250,
        "MILENA" => 4_200,
        unknown => {
            // The request is done; its answer is an error.
            return Ok(OutReply::error("unknown_share", &format!("there is no share {unknown}")).into());
        }
    };
    let quote = Quote {
        cents: cents * request.count,
        share: request.share,
    };
    Ok(Done::reply_json(&quote)?)
}

/// The service, not started yet.
pub fn service(bootstrap: &str) -> App {
    App::new(bootstrap)
        .group("quotes")
        .on("quotes.requests", quote, |policy| policy.replies(Replies::default()))
}

/// The client.
pub async fn client(bootstrap: &str) -> Result<Requester, RequesterError> {
    Requester::start(RequesterConfig::new(bootstrap).timeout(Duration::from_secs(10))).await
}

/// Asks for the price of shares.
pub async fn ask(client: &Requester, share: &str, count: u64) -> Result<Quote, RequestError> {
    let request = QuoteRequest {
        share: share.to_owned(),
        count,
    };
    client.request_json("quotes.requests", share, &request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let running = service(&bootstrap).start().await?;
    let client = client(&bootstrap).await?;
    for share in ["ACME", "MILENA", "GHOST"] {
        match ask(&client, share, 10).await {
            Ok(quote) => println!("10 x {}: {} cents", quote.share, quote.cents),
            Err(error) => println!("10 x {share}: {error}"),
        }
    }
    client.close().await;
    running.stop().await?;
    Ok(())
}
