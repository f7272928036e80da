//! `milena acl`.

use serde_json::json;

use super::{cells, fails, json, prints};
use crate::{command, process::Process};

/// A broker with ACLs whose clients, which do not log in, are super users.
fn broker(dir: &std::path::Path) -> Process {
    Process::start(
        dir,
        &[
            "-X",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "-X",
            "super.users=User:ANONYMOUS",
        ],
    )
}

/// Runs a command that must succeed, and returns its output and its notices.
fn with_notice(broker: &Process, arguments: &[&str]) -> (String, String) {
    let output = command::milena(&[arguments, &["-b", &broker.address]].concat());
    assert!(output.status.success(), "{output:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn acls_are_created_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let (none, notice) = with_notice(&broker, &["acl", "list"]);
    assert_eq!(
        (none.lines().count(), notice.as_str()),
        (1, "milena: the cluster has no ACLs\n")
    );

    let producer = words("acl create --allow-principal alice --producer --topic letters");
    let (would, notice) = with_notice(&broker, &[&producer[..], &["--dry-run"]].concat());
    assert!(notice.contains("dry run: 3 ACLs not created"), "{notice}");
    let created = prints(&broker, &producer);
    assert_eq!(would, created);
    assert_eq!(
        cells(&created),
        [
            words("RESOURCE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION"),
            words("TOPIC letters LITERAL User:alice * WRITE ALLOW"),
            words("TOPIC letters LITERAL User:alice * CREATE ALLOW"),
            words("TOPIC letters LITERAL User:alice * DESCRIBE ALLOW"),
        ]
    );
    prints(
        &broker,
        &words("acl create --allow-principal User:bob --consumer --topic letters --group readers"),
    );
    prints(
        &broker,
        &words(
            "acl create --deny-principal mallory --deny-host 10.0.0.7 --operation Read --topic lett \
             --resource-pattern-type prefixed",
        ),
    );
    let all = prints(&broker, &["acls", "ls"]);
    assert_eq!(all.lines().count(), 8, "{all}");
    assert!(all.lines().all(|line| line.len() <= 80), "{all}");

    let of_bob = json(&broker, &words("acl list --principal bob --group readers"));
    assert_eq!(
        of_bob,
        json!([{"resource_type": "GROUP", "resource_name": "readers", "pattern_type": "LITERAL",
            "principal": "User:bob", "host": "*", "operation": "READ", "permission": "ALLOW"}])
    );
    let that_affect = prints(
        &broker,
        &words("acl list --topic letters --resource-pattern-type match"),
    );
    assert_eq!(that_affect.lines().count(), 7, "{that_affect}");
    let denied = prints(&broker, &words("acl list --permission deny --operation read"));
    assert_eq!(
        cells(&denied)[1],
        words("TOPIC lett PREFIXED User:mallory 10.0.0.7 READ DENY")
    );

    // The words that created them.
    let consumer = words("acl delete --allow-principal User:bob --consumer --topic letters --group readers");
    let (would, notice) = with_notice(&broker, &consumer);
    assert!(
        notice.contains("dry run: 3 ACLs not deleted; add --execute"),
        "{notice}"
    );
    assert_eq!(prints(&broker, &["acl", "list"]), all);
    let deleted = prints(&broker, &[&consumer[..], &["--execute"]].concat());
    assert_eq!(deleted, would);
    let (gone, notice) = with_notice(&broker, &words("acl list --principal bob"));
    assert_eq!((gone.lines().count(), notice.as_str()), (1, "milena: no ACL matches\n"));
    let deleted = prints(&broker, &words("acl delete --all --execute"));
    assert_eq!(deleted.lines().count(), 5, "{deleted}");
}

#[test]
fn a_command_that_would_be_misunderstood_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    for (line, reason) in [
        ("acl create --topic letters", "no principal given"),
        ("acl create --allow-principal alice", "no resource given"),
        (
            "acl create --allow-principal alice --topic letters --operation reed",
            "describe-configs",
        ),
        (
            "acl create --allow-principal alice --group readers --operation write",
            "does not exist for",
        ),
        (
            "acl create --allow-principal alice --topic letters --resource-pattern-type match",
            "use literal or prefixed",
        ),
        ("acl delete", "or use --all"),
        ("acl delete --all --topic letters", "--all does not go with"),
        (
            "acl delete --allow-principal alice --topic letters --principal bob",
            "use one kind",
        ),
    ] {
        let message = fails(&broker, &words(line));
        assert!(message.contains(reason), "{line}: {message}");
    }
}

#[test]
fn without_an_authorizer_there_are_no_acls() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    let message = fails(&broker, &["acl", "list"]);
    assert!(message.contains("SECURITY_DISABLED (54)"), "{message}");
}
