//! Kafka's tools for clusters.

use std::fs;

use crate::kafka_tools::Bench;

#[test]
fn the_quorum_and_the_features_are_described() {
    let bench = Bench::start();
    let status = bench.run("metadata-quorum describe --status");
    assert!(status.contains("LeaderId:               1"), "{status}");
    assert!(
        status.contains("CurrentVoters:          [{\"id\": 1, \"endpoints\": [\"CONTROLLER://127.0.0.1:"),
        "{status}"
    );
    let replication = bench.run("metadata-quorum describe --replication");
    assert!(
        replication.lines().nth(1).unwrap().trim().ends_with("Leader"),
        "{replication}"
    );

    let features = bench.run("features describe");
    assert_eq!(features.lines().count(), 7, "{features}");
    let shown = |features: &str, feature: &str, expected: &str| {
        let line = features.lines().find(|line| line.contains(feature)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.join(" ").contains(expected), "{line}");
    };
    shown(
        &features,
        "metadata.version",
        "SupportedMaxVersion: 4.3-IV0 FinalizedVersionLevel: 4.3-IV0",
    );
    shown(
        &features,
        "share.version",
        "SupportedMaxVersion: 0 FinalizedVersionLevel: 0",
    );
    bench.run("features downgrade --feature transaction.version=1");
    let features = bench.run("features describe");
    shown(
        &features,
        "transaction.version",
        "SupportedMaxVersion: 2 FinalizedVersionLevel: 1 Epoch: 1",
    );
    let refused = bench.run_failing("features upgrade --feature share.version=1");
    assert!(refused.contains("versions 0-0"), "{refused}");
    bench.end();
}

#[test]
fn log_levels_and_client_metrics_are_managed() {
    let bench = Bench::start();
    bench.run("configs --alter --entity-type broker-loggers --entity-name 1 --add-config milena_broker.net=DEBUG");
    let loggers = bench.run("configs --describe --entity-type broker-loggers --entity-name 1");
    for expected in ["milena_broker.net=DEBUG", "milena_broker=INFO", "root=INFO"] {
        assert!(loggers.contains(expected), "{loggers}");
    }
    let altered = bench.run(
        "client-metrics --alter --name slow --metrics org.apache.kafka.producer. --interval 5000 \
         --match client_software_name=.*java.*",
    );
    assert_eq!(altered, "Altered client metrics config for slow.\n");
    assert_eq!(bench.run("client-metrics --list"), "slow\n");
    let described = bench.run("client-metrics --describe --name slow");
    for expected in [
        "interval.ms=5000",
        "match=client_software_name=.*java.*",
        "metrics=org.apache.kafka.producer.",
    ] {
        assert!(described.contains(expected), "{described}");
    }
    bench.run("client-metrics --delete --name slow");
    assert_eq!(bench.run("client-metrics --list").trim(), "");
    bench.end();
}

#[test]
fn acls_need_an_authorizer_and_throttled_reassignments_work() {
    let bench = Bench::start();
    let refused = bench.run_failing("acls --list");
    assert!(
        refused.contains("SecurityDisabledException: No Authorizer is configured on the broker"),
        "{refused}"
    );

    bench.run("topics --create --topic letters --partitions 1 --config file.delete.delay.ms=10000");
    let plan = bench.dir.path().join("plan.json");
    let text = r#"{"version": 1, "partitions": [{"topic": "letters", "partition": 0, "replicas": [1]}]}"#;
    fs::write(&plan, text).unwrap();
    let plan = plan.display();
    let reassigned = bench.run(&format!(
        "reassign-partitions --reassignment-json-file {plan} --execute --throttle 1000000"
    ));
    assert!(
        reassigned.contains("Successfully started partition reassignment for letters-0"),
        "{reassigned}"
    );
    let throttled = bench.run("configs --describe --entity-type brokers --entity-name 1");
    assert!(
        throttled.contains("leader.replication.throttled.rate=1000000"),
        "{throttled}"
    );
    let verified = bench.run(&format!("reassign-partitions --reassignment-json-file {plan} --verify"));
    assert!(
        verified.contains("Reassignment of partition letters-0 is completed."),
        "{verified}"
    );
    let cleared = bench.run("configs --describe --entity-type brokers --entity-name 1");
    assert!(!cleared.contains("throttled.rate"), "{cleared}");
    bench.end();
}
