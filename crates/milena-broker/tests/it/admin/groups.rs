//! Settings of single groups, and their effect on members.

use milena_wire::{
    errors::ErrorCode,
    messages::{ConsumerGroupHeartbeatRequest, DescribeConfigsRequest, describe_configs_request},
};

use super::{
    BROKER, DELETE, GROUP, NONE, SET, TOPIC,
    server::{Client, Server, error, incremental, replacing},
};

const SESSION: &str = "consumer.session.timeout.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";
const READERS: (i8, &str) = (GROUP, "readers");

/// A member of a consumer group.
struct Member {
    id: String,
    epoch: i32,
}

impl Member {
    fn new() -> Self {
        Self {
            id: "AAAAAAAAAAAAAAAAAAAAAQ".to_owned(),
            epoch: 0,
        }
    }

    /// Sends a heartbeat; returns the heartbeat interval of the response.
    fn told(&mut self, client: &mut Client) -> i32 {
        let joins = self.epoch == 0;
        let response = client.latest(&ConsumerGroupHeartbeatRequest {
            group_id: READERS.1.into(),
            member_id: self.id.as_str().into(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: if joins { 60_000 } else { -1 },
            subscribed_topic_names: joins.then(|| vec!["letters".into()]),
            topic_partitions: joins.then(Vec::new),
            ..Default::default()
        });
        assert_eq!(error(response.error_code), ErrorCode::None, "{response:?}");
        self.epoch = response.member_epoch;
        response.heartbeat_interval_ms
    }
}

fn own(value: &str) -> Option<(String, i8)> {
    Some((value.to_owned(), 8))
}

fn default(value: &str) -> Option<(String, i8)> {
    Some((value.to_owned(), 5))
}

#[test]
fn settings_of_a_group_reach_its_members_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    let mut member = Member::new();
    assert_eq!(member.told(&mut client), 5_000);

    let ops = [(HEARTBEAT, SET, "7000"), (SESSION, SET, "50000")];
    client.at_every_version(&incremental(READERS, &ops, true), |_, response| {
        assert_eq!(response.responses[0].error_code, NONE);
    });
    assert_eq!(member.told(&mut client), 5_000, "that was only a question");
    assert_eq!(client.alter(READERS, &ops).0, ErrorCode::None);
    assert_eq!(member.told(&mut client), 7_000);
    assert_eq!(client.config(READERS, SESSION), own("50000"));
    assert_eq!(client.config((GROUP, "writers"), SESSION), default("45000"));
    let message_bytes = [("message.max.bytes", SET, "2000000")];
    assert_eq!(client.alter((BROKER, "1"), &message_bytes).0, ErrorCode::None);
    assert_eq!(
        member.told(&mut client),
        7_000,
        "settings of the broker do not touch it"
    );

    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!(member.told(&mut client), 7_000);
    assert_eq!(client.config(READERS, SESSION), own("50000"));
    client.at_every_version(&replacing(READERS, &[(HEARTBEAT, "8000")]), |_, response| {
        assert_eq!(response.responses[0].error_code, NONE);
    });
    assert_eq!(member.told(&mut client), 8_000);
    assert_eq!(client.config(READERS, SESSION), default("45000"));
    assert_eq!(client.alter(READERS, &[(HEARTBEAT, DELETE, "")]).0, ErrorCode::None);
    assert_eq!(member.told(&mut client), 5_000);

    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!(member.told(&mut client), 5_000);
    assert_eq!(client.config(READERS, HEARTBEAT), default("5000"));
    server.stop();
}

#[test]
fn settings_that_no_longer_fit_are_kept_within_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    assert_eq!(client.alter(READERS, &[(HEARTBEAT, SET, "12000")]).0, ErrorCode::None);
    server.stop();

    let server = Server::start_with(&dir, &[("group.consumer.max.heartbeat.interval.ms", "9000")]);
    let mut client = server.client();
    assert_eq!(Member::new().told(&mut client), 9_000);
    assert_eq!(client.config(READERS, HEARTBEAT), own("12000"));
    // As in Kafka, no other change is possible before this one is corrected.
    let session = (SESSION, SET, "50000");
    assert_eq!(client.alter(READERS, &[session]).0, ErrorCode::InvalidConfig);
    let both = [session, (HEARTBEAT, SET, "8000")];
    assert_eq!(client.alter(READERS, &both).0, ErrorCode::None);
    server.stop();
}

#[test]
fn changes_of_a_group_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    for (name, ops, expected) in [
        ("", vec![(SESSION, SET, "50000")], ErrorCode::InvalidRequest),
        ("readers", vec![(SESSION, SET, "5000")], ErrorCode::InvalidConfig),
        ("readers", vec![("nope", SET, "5000")], ErrorCode::InvalidConfig),
        (
            "readers",
            vec![(SESSION, SET, "50000"), (SESSION, DELETE, "")],
            ErrorCode::InvalidRequest,
        ),
        (
            "readers",
            vec![("share.isolation.level", SET, "read_committed")],
            ErrorCode::InvalidConfig,
        ),
    ] {
        let (found, message) = client.alter((GROUP, name), &ops);
        assert_eq!(found, expected, "{name} {ops:?}");
        assert!(!message.is_empty(), "{name} {ops:?}");
    }
    assert_eq!(client.config(READERS, SESSION), default("45000"));
    let without_name = DescribeConfigsRequest {
        resources: vec![describe_configs_request::DescribeConfigsResource {
            resource_type: GROUP,
            ..Default::default()
        }],
        ..Default::default()
    };
    client.at_every_version(&without_name, |_, response| {
        assert_eq!(error(response.results[0].error_code), ErrorCode::InvalidRequest);
    });
    server.stop();
}

/// Writing back the whole described config does not fail on keys that cannot change.
#[test]
fn what_cannot_change_can_be_set_to_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    for (resource, name, default, source) in [
        ((TOPIC, "letters"), "preallocate", "false", 1),
        ((BROKER, "1"), "num.io.threads", "8", 2),
        ((BROKER, ""), "log.cleaner.threads", "1", 3),
        (READERS, "streams.num.standby.replicas", "0", 8),
    ] {
        let set = (name, SET, default);
        assert_eq!(
            client.alter(resource, &[set]),
            (ErrorCode::None, String::new()),
            "{name}"
        );
        assert_eq!(client.config(resource, name), Some((default.to_owned(), source)));
        assert_ne!(client.alter(resource, &[(name, SET, "7")]).0, ErrorCode::None, "{name}");
        let replaced = client.latest(&replacing(resource, &[(name, default)]));
        assert_eq!(replaced.responses[0].error_code, NONE, "{name}");
    }
    server.stop();
}
