//! `milena config`.

use serde_json::json;

use super::{cells, fails, json, prints};
use crate::process::Process;

#[test]
fn settings_of_topics_brokers_and_groups_are_shown_and_altered() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    for (entity, key, value, source) in [
        (
            &["topic", "letters"][..],
            "retention.ms",
            "86400000",
            "DYNAMIC_TOPIC_CONFIG",
        ),
        (
            &["broker", "1"],
            "log.retention.ms",
            "86400001",
            "DYNAMIC_BROKER_CONFIG",
        ),
        (
            &["broker", "--default"],
            "log.retention.ms",
            "86400002",
            "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ),
        (
            &["group", "readers"],
            "consumer.session.timeout.ms",
            "50000",
            "DYNAMIC_GROUP_CONFIG",
        ),
        // The options of kafka-configs.
        (
            &["--entity-type", "topics", "--entity-name", "letters"],
            "max.message.bytes",
            "5000",
            "DYNAMIC_TOPIC_CONFIG",
        ),
    ] {
        let setting = format!("{key}={value}");
        let altered = prints(&broker, &[&["config", "alter"], entity, &["--set", &setting]].concat());
        assert!(altered.starts_with("changed "), "{altered}");
        let described = prints(&broker, &[&["config", "describe"], entity].concat());
        let lines = cells(&described);
        assert_eq!(lines[0], ["KIND", "NAME", "KEY", "VALUE", "SOURCE"]);
        let line = lines.iter().find(|line| line[2] == key && line[4] == source);
        assert_eq!(line.map(|line| line[3]), Some(value), "{described}");
        prints(&broker, &[&["config", "alter"], entity, &["--delete", key]].concat());
        let described = json(&broker, &[&["config", "describe"], entity, &["--all"]].concat());
        let configs = described[0]["configs"].as_array().unwrap();
        let own = configs
            .iter()
            .find(|config| config["key"] == key && config["source"] == source);
        assert_eq!(own, None, "{entity:?}");
    }
    let all = json(&broker, &["config", "describe", "brokers", "--all"]);
    assert_eq!((&all[0]["kind"], &all[0]["name"]), (&json!("broker"), &json!("1")));
    assert!(all[0]["configs"].as_array().unwrap().len() > 20, "{all}");
}

#[test]
fn a_setting_or_a_name_that_is_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    for (arguments, named) in [
        (
            &["alter", "topic", "letters", "--set", "retention.m=7"][..],
            "did you mean retention.ms?",
        ),
        (&["alter", "topic", "letters"], "no change given; use --set KEY=VALUE"),
        (
            &["alter", "broker", "--set", "a=b"],
            "no broker given; name its id, or use --default",
        ),
        (&["describe", "broker", "one"], "invalid broker id one"),
        (
            &["describe", "topic", "--default"],
            "--default is only valid for brokers",
        ),
        (
            &["describe", "topic", "lettrs"],
            "topic lettrs: UNKNOWN_TOPIC_OR_PARTITION",
        ),
    ] {
        let told = fails(&broker, &[&["config"], arguments].concat());
        assert!(told.contains(named), "{arguments:?}: {told}");
    }
}
