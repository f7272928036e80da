use std::time::Duration;

use super::*;
use crate::{
    letters::Scheme,
    policy::{DeadLetters, Exhausted, FloodGuard, Order, Policy, Rate, Retry},
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
        lanes = 3
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
        [[handlers]]
        topic = "orders"
        delivery = "exactly-once"
        order = "partition"
        in_flight = 100
        concurrency = 8
        bulkhead = "database"
        breakers = ["psp"]
        rate = { per_second = 500, burst = 5 }
        timeout = "none"
        slow_after = "2s"
        when_exhausted = "stop"
        flood_guard = { percent = 10, window = 20, consecutive = 3 }
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
        (file.limits.commit_every, file.limits.consumers, file.limits.lanes),
        (Some(10), 2, 3)
    );
    assert_eq!(file.limits.drain, Duration::from_secs(5));
    assert_eq!(file.limits.when_stalled, WhenStalled::TryAgain);
    assert_eq!(file.limits.crash_limit, Some(5));
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
    let letters = DeadLetters::default()
        .topic("graves")
        .schemes([Scheme::Spring, Scheme::Connect])
        .without_stack();
    let letters = letters
        .existing_topics_only()
        .retention(Duration::from_secs(7 * 86_400));
    let expected = Policy::default()
        .order(Order::Partition)
        .in_flight(100)
        .concurrency(8)
        .bulkhead("database")
        .breaker("psp")
        .rate(Rate::per_second(500).burst(5))
        .timeout(None)
        .slow_after(Duration::from_secs(2))
        .retry(retry)
        .then_topics([Duration::from_secs(60), Duration::from_secs(300)])
        .keep_key_order()
        .dead_letters(letters)
        .when_exhausted(Exhausted::Stop)
        .flood_guard(FloodGuard::new(10, 20, 3))
        .batch_size(10)
        .batch_linger(Duration::from_millis(1));
    assert_eq!(handler.policy, expected);
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_where() {
    let errors = AppFile::parse(
        r#"
        gruop = "billing"
        [app]
        commit_intervall = "1s"
        drain = 5
        [breakers.psp]
        failure_percent = 300
        [bulkheads]
        database = "many"
        [[handlers]]
        topic = "orders"
        order = "random"
        [handlers.retry]
        atempts = 3
        topics = ["1 minute"]
        "#,
    )
    .unwrap_err();
    let text = errors.to_string();
    let expected = [
        "group is missing; it must be text",
        "gruop is not known; did you mean group?",
        "app.commit_intervall is not known; did you mean commit_interval?",
        "app.drain cannot be 5; it must be a time with its unit",
        "breakers.psp.failure_percent cannot be 300; it must be a number",
        "bulkheads.database cannot be \"many\"; it must be a number of permits",
        "handlers[0].order cannot be \"random\"; it must be \"key\", \"partition\" or \"none\"",
        "handlers[0].retry.atempts is not known; did you mean attempts?",
        "handlers[0].retry.topics cannot be [\"1 minute\"]; it must be a list",
    ];
    for message in expected {
        assert!(text.contains(message), "{message}\nis not in\n{text}");
    }
    assert_eq!(errors.0.len(), expected.len(), "{text}");
    let syntax = AppFile::parse("group = ").unwrap_err();
    assert!(matches!(syntax.0.as_slice(), [FileError::Syntax(_)]));
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
