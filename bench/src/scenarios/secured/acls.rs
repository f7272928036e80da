//! Small fetches with and without an authorizer. Both brokers run at once, in turns, so that the machine is the same.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use milena_wire::messages::{CreateAclsRequest, create_acls_request::AclCreation};

use super::super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::{self, Connection},
};

const RATE: &str = "fetches with 10,000 ACLs, 1/s";
const PART: &str = "fetches with ACLs, % of without";

pub const SCENARIO: Scenario = Scenario {
    name: "acls",
    with_kafka: false,
    run,
    bars: &[(RATE, Bar::Shown), (PART, Bar::AtLeast(97.0))],
};

const RULES: usize = 10_000;
const TURNS: usize = 40;
const TURN: Duration = Duration::from_millis(250);
const TOPIC: &str = "fetched";

fn run(peer: Peer, _scale: &Scale) -> Result<Vec<Figure>> {
    let open = Running::start(peer)?;
    let guarded = Running::start_with(
        peer,
        // Resources without a rule are open, so that this client may create the topic and its rules.
        &["milena.authorizer=acl", "allow.everyone.if.no.acl.found=true"],
    )?;
    let mut connections = vec![];
    for broker in [&open, &guarded] {
        let mut connection = Connection::open(&broker.address)?;
        connection.create_topic(TOPIC, 1, &[])?;
        connections.push(connection);
    }
    add_rules(&mut connections[1])?;
    let mut rates = [vec![], vec![]];
    for turn in 0..TURNS {
        for (connection, rates) in connections.iter_mut().zip(&mut rates) {
            let rate = fetch(connection)?;
            // The first turns warm up.
            if turn >= 4 {
                rates.push(rate);
            }
        }
    }
    let [open, guarded] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    Ok(vec![figure(RATE, guarded), figure(PART, guarded / open * 100.0)])
}

/// Fetches per second, of one record each.
fn fetch(connection: &mut Connection) -> Result<f64> {
    let frame = raw::fetch_frame(TOPIC, 0, 0)?;
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < TURN {
        for _ in 0..100 {
            connection.send(&frame)?;
            let length = connection.receive()?;
            ensure!(
                raw::next_offset(&connection.buffer[..length]) == Some(1),
                "a fetch without its record"
            );
            count += 1;
        }
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

/// One rule that allows the fetch, and many of other users and topics.
fn add_rules(connection: &mut Connection) -> Result<()> {
    const TOPIC_TYPE: i8 = 2;
    const LITERAL: i8 = 3;
    const PREFIXED: i8 = 4;
    const ALL: i8 = 2;
    const ALLOW: i8 = 3;
    let rule = |name: String, pattern, principal: String| AclCreation {
        resource_type: TOPIC_TYPE,
        resource_name: name.into(),
        resource_pattern_type: pattern,
        principal: principal.into(),
        host: "*".into(),
        operation: ALL,
        permission_type: ALLOW,
        ..Default::default()
    };
    let mut rules: Vec<AclCreation> = (1..RULES)
        .map(|number| match number % 3 {
            0 => rule(TOPIC.to_owned(), LITERAL, format!("User:user-{number}")),
            1 => rule(format!("f-{number}"), PREFIXED, "User:ANONYMOUS".to_owned()),
            _ => rule(format!("topic-{number}"), LITERAL, format!("User:user-{number}")),
        })
        .collect();
    rules.push(rule(TOPIC.to_owned(), LITERAL, "User:ANONYMOUS".to_owned()));
    for creations in rules.chunks(1_000) {
        let request = CreateAclsRequest {
            creations: creations.to_vec(),
            ..Default::default()
        };
        for result in connection.call(&request, 3)?.results {
            ensure!(result.error_code == 0, "a rule was refused: {result:?}");
        }
    }
    Ok(())
}
