//! The authorizer of the broker, over the wire.

use std::collections::BTreeSet;

use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    acl_table::{self, Bed},
    client::{Client, batch},
    metrics::scrape,
    running::{Running, start, try_start_with},
};

/// The administrator is the client of the plain listener, the client of the tests logs in as alice.
const SETTINGS: [(&str, &str); 5] = [
    (
        "authorizer.class.name",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ),
    ("super.users", "User:ANONYMOUS"),
    ("listeners", "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"),
    ("sasl.enabled.mechanisms", "PLAIN"),
    (
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"alice-secret\";",
    ),
];

fn alice(running: &Running) -> Client {
    Client::log_in(&running.listener("SASL_PLAINTEXT").to_string(), "alice", "alice-secret")
}

fn acl(resource_type: i8, name: &str, operation: i8) -> create_acls_request::AclCreation {
    create_acls_request::AclCreation {
        resource_type,
        resource_name: name.into(),
        resource_pattern_type: 3,
        principal: "User:alice".into(),
        host: "*".into(),
        operation,
        permission_type: 3,
        ..Default::default()
    }
}

fn create_acls(client: &mut Client, creations: Vec<create_acls_request::AclCreation>) -> Vec<i16> {
    let request = CreateAclsRequest {
        creations,
        ..Default::default()
    };
    let created = client.call(&request, 3);
    created.results.iter().map(|result| result.error_code).collect()
}

#[test]
fn every_api_responds_as_the_table_says() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path(), &SETTINGS);
    let address = running.listener("SASL_PLAINTEXT").to_string();
    let connect = move || Client::log_in(&address, "alice", "alice-secret");
    let mut bed = Bed::new(running.client(), connect);
    acl_table::check_all(&mut bed);
    running.shutdown();
}

/// An API that is not listed here needs a cell without rights in the table.
#[test]
fn every_api_that_needs_a_right_has_a_denied_cell() {
    let open = [
        "ApiVersions",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
        "SaslAuthenticate",
        "SaslHandshake",
    ];
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path(), &[]);
    let served = running.client().call(&ApiVersionsRequest::default(), 0);
    let known: BTreeSet<&str> = acl_table::apis_with_a_denied_cell().into_iter().chain(open).collect();
    for api in served.api_keys {
        let key = milena_wire::api::ApiKey::from_id(api.api_key).unwrap().to_string();
        assert!(known.contains(&*key), "{key}");
    }
    running.shutdown();
}

#[test]
fn acls_survive_a_restart_and_deletions_do_too() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path(), &SETTINGS);
    let mut admin = running.client();
    let mut kept = acl(2, "orders", 4);
    kept.resource_pattern_type = 4;
    let gone = acl(2, "bills", 4);
    assert_eq!(create_acls(&mut admin, vec![kept.clone(), gone, kept]), [0; 3]);
    let filter = delete_acls_request::DeleteAclsFilter {
        resource_type_filter: 2,
        resource_name_filter: Some("bills".into()),
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    let request = DeleteAclsRequest {
        filters: vec![filter.clone(), filter],
        ..Default::default()
    };
    let deleted = admin.call(&request, 3);
    let counts = deleted.filter_results.iter().map(|result| result.matching_acls.len());
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [1, 1],
        "each filter reports what it selects"
    );
    running.shutdown();

    let running = start(dir.path(), &SETTINGS);
    let mut admin = running.client();
    admin.create_topic("orders-1", 1, &[]);
    admin.create_topic("bills", 1, &[]);
    let mut client = alice(&running);
    assert_eq!(client.produce("orders-1", 0, batch(&["one"])).error_code, 0);
    assert_eq!(client.produce("bills", 0, batch(&["one"])).error_code, 29);
    running.shutdown();
}

#[test]
fn a_change_is_in_force_for_connections_that_are_open() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path(), &SETTINGS);
    let mut admin = running.client();
    admin.create_topic("orders", 1, &[]);
    let mut client = alice(&running);
    for round in 0..3 {
        assert_eq!(client.produce("orders", 0, batch(&["one"])).error_code, 29, "{round}");
        assert_eq!(create_acls(&mut admin, vec![acl(2, "orders", 4)]), [0]);
        assert_eq!(client.produce("orders", 0, batch(&["one"])).error_code, 0, "{round}");
        let request = DeleteAclsRequest {
            filters: vec![delete_acls_request::DeleteAclsFilter {
                resource_type_filter: 1,
                resource_name_filter: None,
                pattern_type_filter: 1,
                principal_filter: None,
                host_filter: None,
                operation: 1,
                permission_type: 1,
                ..Default::default()
            }],
            ..Default::default()
        };
        admin.call(&request, 3);
    }
    running.shutdown();
}

#[test]
fn a_code_that_does_not_exist_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path(), &SETTINGS);
    let unknown = |change: fn(&mut create_acls_request::AclCreation)| {
        let mut creation = acl(2, "orders", 4);
        change(&mut creation);
        let request = CreateAclsRequest {
            creations: vec![creation],
            ..Default::default()
        };
        let mut admin = running.client();
        let response = admin.try_call(&request, 3);
        response.map(|created| created.results[0].error_code)
    };
    assert_eq!(unknown(|acl| acl.operation = 0), None);
    assert_eq!(unknown(|acl| acl.operation = 99), None);
    assert_eq!(unknown(|acl| acl.resource_type = 0), None);
    assert_eq!(unknown(|acl| acl.resource_pattern_type = 0), None);
    assert_eq!(unknown(|acl| acl.permission_type = 0), None);
    const INVALID_REQUEST: Option<i16> = Some(42);
    assert_eq!(unknown(|acl| acl.operation = 1), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.resource_type = 1), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.resource_pattern_type = 1), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.resource_pattern_type = 2), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.permission_type = 1), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.resource_name = "".into()), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.resource_type = 4), INVALID_REQUEST);
    assert_eq!(unknown(|acl| acl.principal = "alice".into()), INVALID_REQUEST);
    assert_eq!(unknown(|_| ()), Some(0));
    running.shutdown();
}

/// A member sees only topics in its assignment that it may describe.
#[test]
fn a_regular_expression_matches_topics_that_the_member_may_see() {
    let dir = tempfile::tempdir().unwrap();
    let running = start(dir.path(), &SETTINGS);
    let mut admin = running.client();
    let seen = admin.create_topic("orders-1", 1, &[]);
    admin.create_topic("orders-2", 1, &[]);
    let rights = vec![acl(3, "readers", 3), acl(2, "orders-1", 3)];
    assert_eq!(create_acls(&mut admin, rights), [0, 0]);
    let mut client = alice(&running);
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "readers".into(),
        member_id: "AAAAAAAAAAAAAAAAAAAAAA".into(),
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec![]),
        subscribed_topic_regex: Some("orders-.*".into()),
        topic_partitions: Some(vec![]),
        ..Default::default()
    };
    let response = client.call(&request, 1);
    let assigned = response.assignment.unwrap().topic_partitions;
    let assigned: Vec<_> = assigned.iter().map(|topic| topic.topic_id).collect();
    assert_eq!(assigned, [seen]);
    running.shutdown();
}

#[test]
fn settings_of_the_authorizer_are_checked() {
    let problem = |settings: &[(&str, &str)]| crate::broker(settings).unwrap_err().to_string();
    let text = problem(&[("super.users", "alice;User:bob")]);
    assert!(text.contains("`alice` has no type"), "{text}");
    assert!(crate::broker(&[("authorizer.class.name", "com.example.Mine")]).is_err());
    let config = crate::broker(&[("super.users", "User:bob")]).unwrap();
    assert_eq!(config.authorizer, None);
    let config = crate::broker(&[("super.users", "User:bob;"), ("milena.authorizer", "acl")]).unwrap();
    let authorizer = config.authorizer.unwrap();
    assert_eq!(authorizer.super_users.iter().collect::<Vec<_>>(), ["User:bob"]);
    assert!(!authorizer.allow_if_no_acl);
}

/// The number of ACLs, and decisions by operation, type of resource and result.
#[test]
fn decisions_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let options = milena_broker::Options {
        metrics: Some("127.0.0.1:0".to_owned()),
        ..Default::default()
    };
    let running = try_start_with(options, dir.path(), &SETTINGS).unwrap();
    let mut admin = running.client();
    admin.create_topic("orders", 1, &[]);
    let mut client = alice(&running);
    for _ in 0..3 {
        assert_eq!(client.produce("orders", 0, batch(&["one"])).error_code, 29);
    }
    assert_eq!(create_acls(&mut admin, vec![acl(2, "orders", 4)]), [0]);
    for _ in 0..2 {
        assert_eq!(client.produce("orders", 0, batch(&["one"])).error_code, 0);
    }
    let metrics = scrape(running.metrics_address().unwrap());
    for sample in [
        "milena_authorizer_acls 1",
        "milena_authorizer_decisions_total{operation=\"WRITE\",resource_type=\"TOPIC\",result=\"denied\"} 3",
        "milena_authorizer_decisions_total{operation=\"WRITE\",resource_type=\"TOPIC\",result=\"allowed\"} 2",
    ] {
        assert!(
            metrics.lines().any(|line| line == sample),
            "{sample} is not in\n{metrics}"
        );
    }
    running.shutdown();
}

#[test]
fn acls_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [&SETTINGS[..], &[("milena.max.acls", "2")]].concat();
    let running = start(dir.path(), &settings);
    let mut admin = running.client();
    let refused = ErrorCode::PolicyViolation.code();
    assert_eq!(create_acls(&mut admin, vec![acl(2, "a", 3), acl(2, "b", 3)]), [0, 0]);
    // One that exists takes no room.
    assert_eq!(create_acls(&mut admin, vec![acl(2, "a", 3)]), [0]);
    let request = CreateAclsRequest {
        creations: vec![acl(2, "c", 3)],
        ..Default::default()
    };
    let result = admin.call(&request, 3).results.remove(0);
    assert_eq!(result.error_code, refused);
    let message = result.error_message.unwrap();
    assert!(message.contains("milena.max.acls is 2"), "{message}");
    running.shutdown();
}
