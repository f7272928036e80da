//! Tests of application files.

use std::time::Duration;

use milena_client::{config::Origin, consumer::TopicPartition};

use super::*;
use crate::{
    ReplayFrom, ReplayTo,
    failure::Scheme,
    policy::{DeadLetters, DlqLimit, Exhausted, Order, Policy, Rate, Retry, WhenFull},
    route::Delivery,
};

const ALL: &str = r#"
        group = "billing"
        instance = "one"
        [kafka]
        bootstrap.servers = "127.0.0.1:9092"
        [consumer]
        "max.poll.records" = 100
        [app]
        in_flight = 1000
        buffer = "1MiB"
        commit_interval = "2s"
        commit_every = 10
        transaction_window = "50ms"
        drain = "5s"
        shutdown_timeout = "20s"
        stalled_after = "1m"
        when_stalled = "try-again"
        crash_limit = 5
        consumers = 2
        workers = 3
        wait_for_topics = true
        [breakers.psp]
        failure_percent = 20
        calls = 50
        calls_min = 5
        open = "10s"
        open_max = "1m"
        probes = 1
        when_open = "dead-letter"
        [bulkheads]
        database = 4
        [replay]
        name = "again"
        from = 2026-07-01T08:00:00Z
        to = { "orders-0" = 17 }
        periodic = true
        [[unknown_topics]]
        topic = "events-{tenant}"
        action = "stop"
        [[handlers]]
        topic = "orders"
        pause_when_down = false
        delivery = "exactly-once"
        order = "partition"
        in_flight = 100
        concurrency = 8
        bulkhead = "database"
        when_full = "skip"
        breakers = ["psp"]
        rate = { per_second = 500, burst = 5 }
        timeout = "none"
        dead_letter_on_timeout = true
        slow_after = "2s"
        when_exhausted = "stop"
        dlq_limit = { percent = 10, window = 20, consecutive = 3 }
        batch = { size = 10, linger = "1ms" }
        [handlers.retry]
        attempts = 2
        first = "1ms"
        max = "5ms"
        jitter_percent = 0
        elapsed_max = "none"
        topics = ["1m", "5m"]
        attempts_from_topics = 2
        keep_key_order = true
        [handlers.dead_letters]
        topic = "graves"
        headers = ["spring", "connect"]
        stack = false
        create = false
        retention = "7d"
        "#;

#[test]
fn all_that_can_be_declared_in_code_can_be_declared_in_a_file() {
    let file = AppFile::parse(ALL).unwrap();
    assert_eq!(file.settings.common.get("bootstrap.servers"), Some("127.0.0.1:9092"));
    assert_eq!(file.settings.consumer.get("max.poll.records"), Some("100"));
    assert_eq!(
        (file.limits.commit_every, file.limits.consumers, file.limits.workers),
        (Some(10), 2, 3)
    );
    assert_eq!(file.limits.drain, Duration::from_secs(5));
    assert_eq!(file.limits.when_stalled, WhenStalled::Retry);
    assert_eq!(file.limits.crash_limit, Some(5));
    assert_eq!(
        file.unknown_topics,
        [("events-{tenant}".to_owned(), UnknownTopic::Stop)]
    );
    let offsets = [(TopicPartition::new("orders", 0), 17)];
    let replay = Replay::new("again")
        .from(ReplayFrom::Time(1_782_892_800_000))
        .to(ReplayTo::Offsets(offsets.into()))
        .periodic();
    assert_eq!(file.replay, Some(replay));
    let off = AppFile::parse("group = \"g\"\n[app]\ncrash_limit = \"none\"").unwrap();
    assert_eq!(off.limits.crash_limit, None);
    assert!(AppFile::parse("group = \"g\"\n[app]\ncrash_limit = 1").is_err());
    let psp = Breaker::default().failure_percent(20).calls(50).calls_min(5);
    let psp = psp
        .open(Duration::from_secs(10))
        .open_max(Duration::from_secs(60))
        .probes(1)
        .when_open(WhenOpen::DeadLetter);
    assert_eq!(file.breakers.get("psp"), Some(&psp));
    assert_eq!(file.bulkheads.get("database"), Some(&4));
    let handler = file.handlers.first().unwrap();
    assert_eq!(handler.delivery, Some(Delivery::ExactlyOnce));
    let mut retry = Retry::exponential(Duration::from_millis(1), Duration::from_millis(5));
    retry = retry
        .attempts(2)
        .jitter_percent(0)
        .elapsed_max(None)
        .attempts_from_topics(2);
    let dead_letters = DeadLetters::default()
        .topic("graves")
        .schemes([Scheme::Spring, Scheme::Connect])
        .without_stack();
    let dead_letters = dead_letters
        .existing_topics_only()
        .retention(Duration::from_secs(7 * 86_400));
    let expected = Policy::default()
        .order(Order::Partition)
        .in_flight(100)
        .concurrency(8)
        .bulkhead("database")
        .when_full(WhenFull::Skip)
        .breaker("psp")
        .rate(Rate::per_second(500).burst(5))
        .timeout(None)
        .dead_letter_on_timeout()
        .slow_after(Duration::from_secs(2))
        .retry(retry)
        .then_topics([Duration::from_secs(60), Duration::from_secs(300)])
        .keep_key_order()
        .dead_letters(dead_letters)
        .when_exhausted(Exhausted::Stop)
        .dlq_limit(DlqLimit::new(10, 20, 3))
        .batch_size(10)
        .batch_linger(Duration::from_millis(1));
    assert_eq!(handler.policy, expected);
}

#[test]
fn a_topic_that_begins_with_a_caret_is_a_regular_expression() {
    let app = |topic: &str| {
        let text = format!("group = \"g\"\n[kafka]\nbootstrap.servers = \"a:1\"\n[[handlers]]\ntopic = '{topic}'");
        let file = AppFile::parse(&text).unwrap();
        file.app().on(topic, async || {}, |policy| policy)
    };
    app("^events-[a-z]{2}-(?<tenant>.*)$").check().unwrap();
    let error = app("^events-(").check().unwrap_err();
    assert!(error.to_string().contains("unclosed group"), "{error}");
}

#[test]
fn every_delivery_has_a_name() {
    for (name, expected) in [
        ("at-most-once", Delivery::AtMostOnce),
        ("at-least-once", Delivery::AtLeastOnce),
        ("exactly-once", Delivery::ExactlyOnce),
        ("stored-offsets", Delivery::StoredOffsets),
    ] {
        let file = format!("group = \"billing\"\n[[handlers]]\ntopic = \"orders\"\ndelivery = \"{name}\"");
        assert_eq!(AppFile::parse(&file).unwrap().handlers[0].delivery, Some(expected));
    }
}

#[test]
fn all_that_is_wrong_is_reported_at_once_with_its_line() {
    let errors = AppFile::parse(
        r#"gruop = "billing"
[kafka]
bootstrap.servrs = "${MILENA_NO_SUCH_VARIABLE}"
[consumer]
"max.poll.records" = "many"
[app]
commit_intervall = "1s"
drain = 5
[breakers.psp]
failure_percent = 300
[bulkheads]
database = "many"
[[unknown_topics]]
topic = "events-{tenant}"
action = "drop"
[[handlers]]
topic = "orders"
order = "random"
timeout = "soon"
[handlers.retry]
atempts = 3
topics = ["1m", "1minute"]
"#,
    )
    .unwrap_err();
    let text = errors.to_string();
    let expected = [
        "group is missing; it must be text",
        "line 1: gruop is not a known key; did you mean group? Known keys: instance, group, kafka,",
        "line 3: kafka.bootstrap.servrs: the environment variable MILENA_NO_SUCH_VARIABLE is not set",
        "line 3: bootstrap.servrs is not a key of the consumer; did you mean bootstrap.servers?",
        "line 5: max.poll.records cannot be \"many\"",
        "line 7: app.commit_intervall is not a known key; did you mean commit_interval?",
        "line 8: app.drain: 5 is not a duration such as \"1m\"",
        "line 10: breakers.psp.failure_percent cannot be 300; it must be a number",
        "line 12: bulkheads.database cannot be \"many\"; it must be a number of permits",
        "line 15: unknown_topics[0].action cannot be \"drop\"; it must be \"skip\", \"dead-letter\" or \"stop\"",
        "line 18: handlers[0].order cannot be \"random\"; it must be \"key\", \"partition\" or \"none\"",
        "line 19: handlers[0].timeout: \"soon\" is not a duration such as \"1m\"",
        "line 21: handlers[0].retry.atempts is not a known key; did you mean attempts?",
        "line 22: handlers[0].retry.topics[1]: \"1minute\" is not a duration such as \"1m\"",
    ];
    for message in expected {
        assert!(text.contains(message), "{message}\nis not in\n{text}");
    }
    assert_eq!(errors.errors.len(), expected.len(), "{text}");
    let syntax = AppFile::parse("group = \"g\"\nx = ").unwrap_err();
    assert!(syntax.to_string().starts_with("line 2: "), "{syntax}");
    assert!(matches!(syntax.errors[0].error, FileError::Syntax(_)));
}

#[test]
fn settings_from_outside_win_over_those_of_the_file() {
    let text = "group = \"g\"\n[kafka]\nbootstrap.servers = \"a:1\"\n[producer]\nlinger.ms = 5\n";
    let mut file = AppFile::parse(text).unwrap();
    let origin = Origin::Named("-X".into());
    file.override_setting("bootstrap.servers", "b:2", &origin);
    file.override_setting("linger.ms", "7", &origin);
    file.override_setting("max.poll.records", "9", &origin);
    file.override_setting("nonsense", "1", &origin);
    let Settings {
        common,
        consumer,
        producer,
        ..
    } = &file.settings;
    assert_eq!(common.get("bootstrap.servers"), Some("b:2"));
    assert_eq!((producer.get("linger.ms"), common.get("linger.ms")), (Some("7"), None));
    assert_eq!(
        (consumer.get("max.poll.records"), producer.get("max.poll.records")),
        (Some("9"), None)
    );
    assert_eq!(common.get("nonsense"), Some("1"));
}

#[test]
fn every_key_of_the_file_is_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.md")).unwrap();
    let (source, table) = Source::parse(ALL, None).unwrap();
    let report = Report::new(&source, vec![]);
    AppFile::from_keys(&Keys::new("", &table, &report));
    let known = report.known();
    assert!(known.len() > 50, "{known:?}");
    for key in known {
        assert!(
            page.contains(&format!("`{key}`")),
            "docs/run.md does not have the key {key}"
        );
    }
}

#[test]
fn records_go_back_or_stay_in_order_but_not_both() {
    let retry = |keys: &str| {
        let text = format!("group = \"g\"\n[[handlers]]\ntopic = \"t\"\nretry = {{ topics = [\"1m\"], {keys} }}");
        AppFile::parse(&text)
    };
    let file = retry("return_to_origin = true").unwrap();
    let minute = Duration::from_secs(60);
    let expected = Policy::default().then_topics([minute]).return_to_origin();
    assert_eq!(file.handlers[0].policy, expected);
    let both = retry("return_to_origin = true, keep_key_order = true").unwrap_err();
    let text = both.to_string();
    assert!(
        text.contains("handlers[0].retry.return_to_origin cannot be true"),
        "{text}"
    );
}
