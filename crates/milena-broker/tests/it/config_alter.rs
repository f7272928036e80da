//! Changes at run time. Results and errors are those of a Kafka 4.3.1, except for keys that cannot change on this broker.

use milena_broker::config::{
    AlterOp,
    AlterOpKind::{self, Append, Delete, Set, Subtract},
    BrokerLayer, BrokerOverrides, Fault, RawConfig, Scope, alter_broker, alter_group, alter_topic,
};

use crate::{broker, overrides, raw};

fn op(name: &str, kind: AlterOpKind, value: &str) -> AlterOp {
    AlterOp {
        name: name.to_owned(),
        kind,
        value: (kind != Delete).then(|| value.to_owned()),
    }
}

/// The settings of a topic after a change.
fn altered(before: &[(&str, &str)], ops: Vec<AlterOp>) -> Result<RawConfig, (Fault, String)> {
    let after = alter_topic(&overrides(before), ops, &broker(&[]).unwrap());
    after
        .map(|after| after.0)
        .map_err(|error| (error.fault(Scope::Topic), error.to_string()))
}

#[test]
fn changes_of_a_topic() {
    let policy = |value| vec![("cleanup.policy", value)];
    for (before, change, after) in [
        (vec![], op("retention.ms", Set, " 77 "), vec![("retention.ms", " 77 ")]),
        (vec![("retention.ms", "1")], op("retention.ms", Delete, ""), vec![]),
        (vec![], op("retention.ms", Delete, ""), vec![]),
        (vec![], op("nope", Delete, ""), vec![]),
        (
            vec![],
            op("cleanup.policy", Append, "compact"),
            policy("delete,compact"),
        ),
        (
            policy("compact"),
            op("cleanup.policy", Append, " compact, delete"),
            policy("compact,delete"),
        ),
        (
            policy("delete,compact"),
            op("cleanup.policy", Subtract, "delete"),
            policy("compact"),
        ),
        (
            policy("compact"),
            op("cleanup.policy", Subtract, "nope"),
            policy("compact"),
        ),
        (policy("compact"), op("cleanup.policy", Subtract, "compact"), policy("")),
        (
            vec![],
            op("min.insync.replicas", Set, "2"),
            vec![("min.insync.replicas", "2")],
        ),
    ] {
        assert_eq!(altered(&before, vec![change.clone()]), Ok(raw(&after)), "{change:?}");
    }
}

#[test]
fn changes_of_a_topic_that_fail() {
    let lag = [("min.compaction.lag.ms", "100")];
    for (ops, fault, message) in [
        (
            vec![op("retention.ms", Append, "1")],
            Fault::Config,
            "retention.ms cannot be changed by APPEND: it is not a list",
        ),
        (vec![op("nope", Set, "1")], Fault::Config, "nope is not a key of topics"),
        (
            vec![op("nope", Append, "1")],
            Fault::Config,
            "nope is not a key of topics",
        ),
        (
            vec![op("segment.bytes", Set, "5")],
            Fault::Config,
            "segment.bytes cannot be \"5\"; it must be at least 1048576",
        ),
        (
            vec![op("cleanup.policy", Append, "x")],
            Fault::Config,
            "cleanup.policy cannot be \"delete,x\"; it must be a list of compact, delete",
        ),
        (
            vec![op("max.compaction.lag.ms", Set, "5")],
            Fault::Config,
            "min.compaction.lag.ms=100 conflicts with max.compaction.lag.ms=5: the minimum cannot exceed the maximum",
        ),
        (
            vec![op("flush.ms", Set, "1"), op("flush.ms", Delete, "")],
            Fault::Request,
            "flush.ms appears twice in the request",
        ),
        (
            vec![AlterOp {
                value: None,
                ..op("flush.ms", Set, "")
            }],
            Fault::Request,
            "flush.ms has no value in the request",
        ),
    ] {
        assert_eq!(altered(&lag, ops), Err((fault, message.to_owned())));
    }
}

#[test]
fn changes_of_the_broker() {
    let before = BrokerOverrides::fixed(raw(&[("log.retention.hours", "1")]));
    let ops = vec![
        op("log.cleanup.policy", Append, "compact"),
        op("log.retention.ms", Set, "99"),
    ];
    let after = alter_broker(&before, ops.clone(), BrokerLayer::This).unwrap();
    let expected = raw(&[("log.cleanup.policy", "delete,compact"), ("log.retention.ms", "99")]);
    assert_eq!((&after.dynamic, &after.fixed), (&expected, &before.fixed));
    let after = alter_broker(&before, ops, BrokerLayer::All).unwrap();
    assert_eq!(after.dynamic_default, expected);
    assert!(alter_broker(&before, vec![op("log.dirs", Delete, "")], BrokerLayer::This).is_ok());
}

#[test]
fn changes_of_the_broker_that_fail() {
    for (change, layer, fault, message) in [
        (
            op("log.retention.hours", Set, "3"),
            BrokerLayer::This,
            Fault::Request,
            "log.retention.hours cannot be changed while the broker runs",
        ),
        (
            op("listeners", Set, "PLAINTEXT://:1"),
            BrokerLayer::This,
            Fault::Request,
            "listeners cannot be changed while the broker runs",
        ),
        (
            op("ssl.keystore.location", Set, "/x"),
            BrokerLayer::All,
            Fault::Request,
            "ssl.keystore.location can be changed for one broker only, not for all",
        ),
        (
            op("log.cleaner.backoff.ms", Set, "x"),
            BrokerLayer::This,
            Fault::Request,
            "log.cleaner.backoff.ms cannot be \"x\"; it must be a 64-bit integer",
        ),
        (
            op("log.segment.bytes", Append, "1"),
            BrokerLayer::This,
            Fault::Config,
            "log.segment.bytes cannot be changed by APPEND: it is not a list",
        ),
        (
            op("log.cleaner.threads", Set, "2"),
            BrokerLayer::All,
            Fault::Request,
            "log.cleaner.threads is not supported: the runtime decides on the number of threads",
        ),
    ] {
        let error = alter_broker(&BrokerOverrides::default(), vec![change], layer).unwrap_err();
        assert_eq!(
            (error.fault(Scope::Broker), error.to_string()),
            (fault, message.to_owned())
        );
    }
}

#[test]
fn changes_of_a_group() {
    let session = |value| op("consumer.session.timeout.ms", Set, value);
    let heartbeat = |value| op("consumer.heartbeat.interval.ms", Set, value);
    let broker = broker(&[("group.consumer.session.timeout.ms", "50000")]).unwrap();
    let before = raw(&[("consumer.session.timeout.ms", "50000")]);
    for (ops, after) in [
        (
            vec![session(" 50001 ")],
            vec![("consumer.session.timeout.ms", " 50001 ")],
        ),
        (
            vec![heartbeat("15000"), session("45000")],
            vec![
                ("consumer.heartbeat.interval.ms", "15000"),
                ("consumer.session.timeout.ms", "45000"),
            ],
        ),
        (vec![op("consumer.session.timeout.ms", Delete, "")], vec![]),
        (
            vec![op("nope", Delete, "")],
            vec![("consumer.session.timeout.ms", "50000")],
        ),
    ] {
        assert_eq!(alter_group(&before, ops.clone(), &broker), Ok(raw(&after)), "{ops:?}");
    }
}

#[test]
fn changes_of_a_group_that_fail() {
    let session = |value| op("consumer.session.timeout.ms", Set, value);
    let heartbeat = |value| op("consumer.heartbeat.interval.ms", Set, value);
    let broker = broker(&[
        ("group.consumer.min.session.timeout.ms", "10000"),
        ("group.consumer.max.session.timeout.ms", "60000"),
    ])
    .unwrap();
    for (ops, message) in [
        (
            vec![session("9999")],
            "consumer.session.timeout.ms=9999 conflicts with group.consumer.min.session.timeout.ms=10000 (code): it is \
             below the minimum of the broker",
        ),
        (
            vec![session("60001")],
            "consumer.session.timeout.ms=60001 conflicts with group.consumer.max.session.timeout.ms=60000 (code): it is \
             above the maximum of the broker",
        ),
        (
            vec![session("0")],
            "consumer.session.timeout.ms cannot be \"0\"; it must be at least 1",
        ),
        (
            vec![session("x")],
            "consumer.session.timeout.ms cannot be \"x\"; it must be a 32-bit integer",
        ),
        (
            vec![op("consumer.session.timeout.ms", Append, "1")],
            "consumer.session.timeout.ms cannot be changed by APPEND: it is not a list",
        ),
        (
            vec![heartbeat("4999")],
            "consumer.heartbeat.interval.ms=4999 conflicts with group.consumer.min.heartbeat.interval.ms=5000 (default): \
             it is below the minimum of the broker",
        ),
        (
            vec![heartbeat("15001")],
            "consumer.heartbeat.interval.ms=15001 conflicts with group.consumer.max.heartbeat.interval.ms=15000 (default): \
             it is above the maximum of the broker",
        ),
        (
            vec![heartbeat("12000"), session("12000")],
            "consumer.heartbeat.interval.ms=12000 conflicts with consumer.session.timeout.ms=12000: the heartbeat interval \
             must be shorter than the session timeout",
        ),
        (
            vec![op("group.consumer.session.timeout.ms", Set, "50000")],
            "group.consumer.session.timeout.ms is not a key of groups; did you mean consumer.session.timeout.ms?",
        ),
        (vec![op("nope", Append, "1")], "nope is not a key of groups"),
        (
            vec![op("share.delivery.count.limit", Set, "6")],
            "share.delivery.count.limit is not supported: share groups are not supported yet",
        ),
    ] {
        let error = alter_group(&RawConfig::new(), ops, &broker).unwrap_err();
        assert_eq!(
            (error.fault(Scope::Group), error.to_string()),
            (Fault::Config, message.to_owned())
        );
    }
}

#[test]
fn a_list_that_is_not_set_counts_as_kafkas_default() {
    let broker = broker(&[("log.cleanup.policy", "compact")]).unwrap();
    let ops = vec![op("cleanup.policy", Append, "compact")];
    let after = alter_topic(&overrides(&[]), ops, &broker).unwrap();
    assert_eq!(after, overrides(&[("cleanup.policy", "delete,compact")]));
}

#[test]
fn operations_have_kafkas_ids() {
    let kinds = [Set, Delete, Append, Subtract];
    for (id, kind) in (0..).zip(kinds) {
        assert_eq!(AlterOpKind::from_id(id), Some(kind));
    }
    assert_eq!(AlterOpKind::from_id(4), None);
}
