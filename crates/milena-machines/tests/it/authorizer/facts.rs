//! The cases of Kafka's tests of its own authorizer.

use std::collections::BTreeSet;

use milena_machines::authorizer::{
    AclFilter, Authorizer, AuthorizerConfig, Caller, InvalidAcl, Operation, PatternFilter, PatternType, ResourceType,
    Rule,
};

use super::{acl, authorizer, authorizer_with, decisions, id};

const ANYWHERE: &str = "10.0.0.7";

fn of(authorizer: &Authorizer, user: &str, actions: &[&str]) -> String {
    decisions(authorizer, user, ANYWHERE, actions)
}

#[test]
fn super_users_are_separated_by_semicolons() {
    let parse = AuthorizerConfig::parse_super_users;
    let both: BTreeSet<String> = ["User:alice".to_owned(), "User:bob".to_owned()].into();
    assert_eq!(parse(" "), Ok(BTreeSet::new()));
    assert_eq!(parse("User:bob;User:alice "), Ok(both.clone()));
    assert_eq!(parse(";  User:bob  ;  User:alice "), Ok(both));
    assert_eq!(parse("bob;:alice"), Err("bob".to_owned()));
}

#[test]
fn everyone_is_allowed_only_where_no_acl_is_found() {
    let rules = ["ALLOW READ User:Alice * TOPIC LITERAL topic1"];
    for (allow_if_no_acl, expected) in [(true, "DA"), (false, "DD")] {
        let config = AuthorizerConfig {
            allow_if_no_acl,
            ..AuthorizerConfig::default()
        };
        let authorizer = authorizer_with(config, &rules);
        assert_eq!(
            of(&authorizer, "Bob", &["READ TOPIC topic1", "READ TOPIC topic2"]),
            expected
        );
    }
}

#[test]
fn a_super_user_may_do_everything() {
    let authorizer = authorizer(&["DENY ALL User:superman * TOPIC LITERAL *"]);
    assert_eq!(
        of(
            &authorizer,
            "superman",
            &["READ TOPIC green", "ALTER CLUSTER kafka-cluster"]
        ),
        "AA"
    );
}

#[test]
fn some_operations_imply_others_if_they_are_allowed() {
    let decides = |rule: &str, action: &str| of(&authorizer(&[rule]), "bob", &[action]) == "A";
    for operation in ["DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"] {
        let rule = format!("ALLOW {operation} User:bob * TOPIC PREFIXED foo_");
        assert!(decides(&rule, "DESCRIBE TOPIC foo_bar"), "{operation}");
    }
    assert!(!decides(
        "ALLOW CREATE User:bob * TOPIC PREFIXED foo_",
        "DESCRIBE TOPIC foo_bar"
    ));
    for operation in ["DESCRIBE_CONFIGS", "ALTER_CONFIGS"] {
        let rule = format!("ALLOW {operation} User:bob * TOPIC PREFIXED foo_");
        assert!(decides(&rule, "DESCRIBE_CONFIGS TOPIC foo_bar"), "{operation}");
    }
    let everything = "ALLOW ALL User:* * TOPIC LITERAL *";
    let despite = |rule: &str, action: &str| of(&authorizer(&[everything, rule]), "bob", &[action]);
    for operation in ["READ", "WRITE", "DELETE", "ALTER"] {
        let rule = format!("DENY {operation} User:bob * TOPIC PREFIXED foo_");
        assert_eq!(despite(&rule, "DESCRIBE TOPIC foo_bar"), "A", "{operation}");
    }
    let describe = "DENY DESCRIBE User:bob * TOPIC PREFIXED foo_";
    assert_eq!(despite(describe, "DESCRIBE TOPIC foo_bar"), "D");
    assert_eq!(despite(describe, "READ TOPIC foo_bar"), "A");
    let configs = "DENY ALTER_CONFIGS User:bob * TOPIC PREFIXED foo_";
    assert_eq!(despite(configs, "DESCRIBE_CONFIGS TOPIC foo_bar"), "A");
    assert_eq!(despite(configs, "ALTER_CONFIGS TOPIC foo_bar"), "D");
}

#[test]
fn the_principal_must_be_the_same_or_everyone() {
    let rules = [
        "ALLOW READ User:bob * TOPIC PREFIXED foo_",
        "DENY READ User:* * GROUP LITERAL bar",
    ];
    let authorizer = authorizer(&rules);
    assert_eq!(of(&authorizer, "bob", &["READ TOPIC foo_bar"]), "A");
    assert_eq!(of(&authorizer, "alice", &["READ TOPIC foo_bar"]), "D");
    assert_eq!(of(&authorizer, "alice", &["READ GROUP bar"]), "D");
    // There are no prefixes of principals, and only the type User has a wildcard.
    let rules = [
        "ALLOW READ User:b* * TOPIC LITERAL a",
        "ALLOW READ Group:* * TOPIC LITERAL a",
    ];
    assert_eq!(of(&super::authorizer(&rules), "bob", &["READ TOPIC a"]), "D");
}

#[test]
fn simple_authorizations() {
    let authorizer = authorizer(&[
        "ALLOW READ User:bob * TOPIC PREFIXED foo_",
        "ALLOW WRITE User:bob * TOPIC PREFIXED foo_",
        "ALLOW DESCRIBE_CONFIGS User:* * GROUP LITERAL bar",
        "ALLOW ALTER_CONFIGS User:* * GROUP LITERAL bar",
    ]);
    assert_eq!(of(&authorizer, "bob", &["READ TOPIC foo_"]), "A");
    assert_eq!(of(&authorizer, "fred", &["ALTER_CONFIGS GROUP bar"]), "A");
}

#[test]
fn deny_of_all_goes_before_every_allow() {
    let authorizer = authorizer(&[
        "DENY ALL User:alice * TOPIC LITERAL foo",
        "ALLOW READ User:alice * TOPIC PREFIXED foo",
        "DENY ALL User:* * TOPIC LITERAL foo",
        "ALLOW DESCRIBE User:* * TOPIC PREFIXED foo",
    ]);
    let actions = [
        "WRITE TOPIC foo",
        "READ TOPIC foo",
        "DESCRIBE TOPIC foo",
        "READ TOPIC foobar",
    ];
    assert_eq!(of(&authorizer, "alice", &actions), "DDDA");
    let actions = [
        "DESCRIBE TOPIC foo",
        "READ TOPIC foo",
        "WRITE TOPIC foo",
        "DESCRIBE TOPIC foobaz",
        "READ TOPIC foobaz",
    ];
    assert_eq!(of(&authorizer, "bob", &actions), "DDDAD");
}

#[test]
fn allow_of_all_is_for_every_operation() {
    let authorizer = authorizer(&[
        "ALLOW ALL User:* * TOPIC LITERAL foo",
        "ALLOW ALL User:alice * TOPIC PREFIXED bar",
        "ALLOW ALL User:bob * TOPIC LITERAL baz",
    ]);
    let actions = ["WRITE TOPIC foo", "DESCRIBE_CONFIGS TOPIC bar", "DESCRIBE TOPIC baz"];
    assert_eq!(of(&authorizer, "alice", &actions), "AAD");
    let actions = ["WRITE TOPIC foo", "READ TOPIC bar", "DESCRIBE TOPIC baz"];
    assert_eq!(of(&authorizer, "bob", &actions), "ADA");
    let actions = ["DESCRIBE TOPIC foo", "WRITE TOPIC bar", "READ TOPIC baz"];
    assert_eq!(of(&authorizer, "malory", &actions), "ADD");
}

#[test]
fn hosts_are_compared() {
    let authorizer = authorizer(&[
        "DENY READ User:alice 192.168.1.1 TOPIC LITERAL foo",
        "ALLOW READ User:alice * TOPIC LITERAL foo",
        "ALLOW READ User:bob 192.168.1.2 TOPIC LITERAL bar",
        "ALLOW DESCRIBE User:* 127.0.0.1 TOPIC LITERAL bar",
    ]);
    let actions = ["READ TOPIC foo", "READ TOPIC bar", "DESCRIBE TOPIC bar"];
    for (user, host, expected) in [
        ("alice", "127.0.0.1", "ADA"),
        ("alice", "192.168.1.1", "DDD"),
        ("alice", "192.168.1.2", "ADD"),
        ("bob", "127.0.0.1", "DDA"),
        ("bob", "192.168.1.1", "DDD"),
        ("bob", "192.168.1.2", "DAA"),
    ] {
        assert_eq!(
            decisions(&authorizer, user, host, &actions),
            expected,
            "{user} from {host}"
        );
    }
}

#[test]
fn hosts_are_addresses_in_any_form() {
    let of_host = |rule: &str, host: &str| {
        let rule = format!("ALLOW READ User:a {rule} TOPIC LITERAL foo");
        decisions(&authorizer(&[&rule]), "a", host, &["READ TOPIC foo"])
    };
    assert_eq!(of_host("0:0:0:0:0:0:0:1", "::1"), "A", "the form of Java");
    assert_eq!(of_host("::1", "::1"), "A");
    assert_eq!(
        of_host("10.1.2.3", "::ffff:10.1.2.3"),
        "A",
        "an IPv4 client of a dual-stack socket"
    );
    assert_eq!(of_host("::ffff:10.1.2.3", "10.1.2.3"), "A");
    assert_eq!(of_host("10.0.0.0/8", "10.1.2.3"), "D", "there are no networks");
    assert_eq!(of_host("localhost", "127.0.0.1"), "D", "names are not looked up");
    assert_eq!(of_host("fe80::1%eth0", "fe80::1"), "D", "the zone is unknown");
    let rules = [
        "ALLOW READ User:a * TOPIC LITERAL foo",
        "DENY READ User:a fe80::1%eth0 TOPIC LITERAL foo",
    ];
    assert_eq!(decisions(&authorizer(&rules), "a", "fe80::1", &["READ TOPIC foo"]), "D");
}

#[test]
fn an_acl_that_never_applies_counts_as_found() {
    let config = AuthorizerConfig {
        allow_if_no_acl: true,
        ..AuthorizerConfig::default()
    };
    let authorizer = authorizer_with(config, &["ALLOW READ User:a nowhere TOPIC LITERAL foo"]);
    assert_eq!(of(&authorizer, "b", &["READ TOPIC foo", "READ TOPIC fo"]), "DA");
}

#[test]
fn many_acls() {
    let authorizer = authorizer(&[
        "ALLOW READ User:* * TOPIC LITERAL green2",
        "ALLOW READ User:bob * TOPIC PREFIXED green",
        "ALLOW READ User:bob * TOPIC LITERAL betamax4",
        "ALLOW READ User:bob * TOPIC LITERAL betamax",
        "ALLOW READ User:* * TOPIC PREFIXED beta",
        "ALLOW READ User:* * TOPIC PREFIXED alpha",
        "DENY READ User:bob * TOPIC PREFIXED alp",
        "ALLOW WRITE User:bob * GROUP LITERAL *",
        "DENY WRITE User:* * GROUP LITERAL wheel",
    ]);
    assert_eq!(
        of(&authorizer, "bob", &["READ TOPIC green1", "WRITE GROUP wheel"]),
        "AD"
    );
    let actions = ["READ TOPIC alpha", "WRITE GROUP arbitrary", "READ TOPIC ala"];
    assert_eq!(of(&authorizer, "bob", &actions), "DAD");
    let caller = Caller {
        principal: "User:bob",
        host: "127.0.0.1".parse().unwrap(),
    };
    let rule = |operation, kind, name| authorizer.rule(caller, operation, kind, name);
    let denied = acl("DENY READ User:bob * TOPIC PREFIXED alp");
    assert_eq!(rule(Operation::Read, ResourceType::Topic, "alpha"), Rule::Acl(&denied));
    let allowed = acl("ALLOW READ User:bob * TOPIC PREFIXED green");
    assert_eq!(
        rule(Operation::Read, ResourceType::Topic, "green1"),
        Rule::Acl(&allowed)
    );
    assert_eq!(rule(Operation::Write, ResourceType::Topic, "green1"), Rule::NoMatch);
    assert_eq!(rule(Operation::Write, ResourceType::Topic, "red"), Rule::NoAcl);
}

#[test]
fn prefixes() {
    let authorizer = authorizer(&[
        "ALLOW ALL User:alice * TOPIC PREFIXED fooa",
        "ALLOW ALL User:bob * TOPIC LITERAL foobar",
        "ALLOW ALL User:bob * TOPIC PREFIXED f",
    ]);
    let actions = ["WRITE TOPIC foobarr", "READ TOPIC goobar", "READ TOPIC fooa"];
    assert_eq!(of(&authorizer, "bob", &actions), "ADA");
    let actions = ["DESCRIBE TOPIC fooa", "WRITE TOPIC bar", "READ TOPIC baz"];
    assert_eq!(of(&authorizer, "alice", &actions), "ADD");
}

#[test]
fn a_prefixed_star_is_a_letter() {
    let rules = ["ALLOW READ User:* * TOPIC PREFIXED *"];
    assert_eq!(of(&authorizer(&rules), "a", &["READ TOPIC b", "READ TOPIC *b"]), "DA");
    let rules = ["ALLOW READ User:* * TOPIC LITERAL *"];
    assert_eq!(
        of(
            &authorizer(&rules),
            "a",
            &["READ TOPIC b", "READ TOPIC *", "READ GROUP b"]
        ),
        "AAD"
    );
}

#[test]
fn filters_select() {
    let mut authorizer = authorizer(&[
        "ALLOW READ User:bob * TOPIC PREFIXED foo_",
        "ALLOW WRITE User:bob * TOPIC PREFIXED foo_",
        "DENY DESCRIBE_CONFIGS User:* * GROUP LITERAL bar",
        "DENY ALTER_CONFIGS User:* * GROUP LITERAL bar",
        "ALLOW READ User:eve ::1 TOPIC LITERAL *",
        "ALLOW READ User:eve ::1 TOPIC LITERAL foo_1",
    ]);
    let count = |authorizer: &Authorizer, filter: AclFilter| authorizer.acls(&filter).count();
    assert_eq!(count(&authorizer, AclFilter::default()), 6);
    authorizer.change([], [id(1)]);
    assert_eq!((authorizer.len(), count(&authorizer, AclFilter::default())), (5, 5));
    let named = |name: &str, pattern| AclFilter {
        resource_type: Some(ResourceType::Topic),
        resource_name: Some(name.into()),
        pattern,
        ..AclFilter::default()
    };
    let only = PatternFilter::Only;
    assert_eq!(count(&authorizer, named("foo_1", PatternFilter::Match)), 3);
    assert_eq!(count(&authorizer, named("foo_1", PatternFilter::Any)), 1);
    assert_eq!(count(&authorizer, named("foo_", PatternFilter::Any)), 1);
    assert_eq!(count(&authorizer, named("foo_", only(PatternType::Literal))), 0);
    assert_eq!(count(&authorizer, named("foo_", only(PatternType::Prefixed))), 1);
    assert_eq!(count(&authorizer, named("foo_1", only(PatternType::Prefixed))), 0);
    assert_eq!(count(&authorizer, named("*", PatternFilter::Match)), 1);
    let host = |host: &str| AclFilter {
        host: Some(host.into()),
        ..AclFilter::default()
    };
    assert_eq!(count(&authorizer, host("::1")), 2);
    assert_eq!(count(&authorizer, host("0:0:0:0:0:0:0:1")), 0, "filters compare texts");
    assert_eq!(count(&authorizer, host("*")), 3);
}

#[test]
fn acls_that_cannot_be_created() {
    let check = |line: &str| acl(line).check();
    assert_eq!(check("ALLOW READ User:a * TOPIC LITERAL a"), Ok(()));
    assert_eq!(check("ALLOW CLUSTER_ACTION User:a * TOPIC LITERAL a"), Ok(()));
    assert_eq!(
        check("ALLOW READ User:a * CLUSTER LITERAL a"),
        Err(InvalidAcl::ClusterName)
    );
    let principal = "alice".into();
    assert_eq!(
        check("ALLOW READ alice * TOPIC LITERAL a"),
        Err(InvalidAcl::Principal { principal })
    );
}

#[test]
fn any_resource_of_a_type() {
    let on_any = |lines: &[&str]| {
        let caller = Caller {
            principal: "User:bob",
            host: ANYWHERE.parse().unwrap(),
        };
        authorizer(lines).is_allowed_on_any(caller, Operation::Write, ResourceType::Topic)
    };
    let allow = "ALLOW WRITE User:bob * TOPIC LITERAL foo";
    let prefix = "ALLOW WRITE User:bob * TOPIC PREFIXED foo";
    assert!(!on_any(&[]));
    assert!(on_any(&[allow]));
    assert!(on_any(&[prefix]));
    assert!(on_any(&["ALLOW ALL User:* * TOPIC LITERAL foo"]));
    assert!(on_any(&["ALLOW WRITE User:bob * TOPIC LITERAL *"]));
    assert!(!on_any(&["ALLOW READ User:bob * TOPIC LITERAL foo"]));
    assert!(!on_any(&["ALLOW WRITE User:bob * GROUP LITERAL foo"]));
    assert!(!on_any(&["ALLOW WRITE User:bob 10.9.9.9 TOPIC LITERAL foo"]));
    assert!(!on_any(&[allow, "DENY WRITE User:* * TOPIC LITERAL *"]));
    assert!(!on_any(&[allow, "DENY WRITE User:bob * TOPIC LITERAL foo"]));
    assert!(!on_any(&[allow, "DENY ALL User:bob * TOPIC PREFIXED f"]));
    assert!(!on_any(&[prefix, "DENY WRITE User:bob * TOPIC PREFIXED foo"]));
    assert!(
        on_any(&[prefix, "DENY WRITE User:bob * TOPIC LITERAL foo"]),
        "one name of many"
    );
    assert!(
        on_any(&[prefix, "DENY WRITE User:bob * TOPIC PREFIXED foobar"]),
        "a part of it"
    );
    assert!(on_any(&[allow, "DENY WRITE User:alice * TOPIC LITERAL *"]));
    assert!(on_any(&[
        "ALLOW WRITE User:bob * TOPIC LITERAL *",
        "DENY WRITE User:bob * TOPIC PREFIXED hard"
    ]));
}
