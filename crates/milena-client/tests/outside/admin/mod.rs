//! The admin client against a real Apache Kafka, checked with Kafka's own tools and clients.

mod groups;
mod moves;
mod security;
mod topics;
mod transactions;

use std::fmt::Debug;

use milena_client::{
    admin::{Admin, Results},
    config::AdminConfig,
};

use crate::{bed::Bed, patience::in_time, programs};

fn admin(bed: &Bed) -> Admin {
    Admin::new(AdminConfig::builder(&bed.address)).unwrap()
}

/// The only result, which must be `Ok`.
fn only<K: Debug, V: Debug>(results: Results<K, V>) -> V {
    let [(_, result)] = <[_; 1]>::try_from(results.into_iter().collect::<Vec<_>>()).unwrap();
    result.unwrap()
}

/// The output of one of Kafka's tools.
async fn tool(bed: &Bed, line: &str) -> String {
    let (address, line) = (bed.address.clone(), line.to_owned());
    let said = tokio::task::spawn_blocking(move || {
        let words: Vec<&str> = line.split_whitespace().collect();
        programs::kafka_tool(&address, words[0], &words[1..], "")
    });
    in_time("a tool of Kafka's", said).await.unwrap()
}

fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}
