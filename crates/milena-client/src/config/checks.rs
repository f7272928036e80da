//! What must hold between several keys.

use super::{ConfigError, Setting, Source, resolve::Resolver};

pub(super) fn check(settings: &mut Resolver) {
    check_servers(settings);
    check_group(settings);
    check_protocol(settings);
    check_times(settings);
}

pub(super) fn check_servers(settings: &mut Resolver) {
    let missing = settings.setting("bootstrap.servers").is_none() && !settings.is_broken("bootstrap.servers");
    if missing {
        settings.offend(ConfigError::Missing {
            key: "bootstrap.servers",
            hint: "to host:port of a broker, several separated by commas",
        });
    }
}

fn check_group(settings: &mut Resolver) {
    let grouped = settings.setting("group.id").is_some() || settings.is_broken("group.id");
    if grouped || !settings.read::<bool>("enable.auto.commit") {
        return;
    }
    match settings.given("enable.auto.commit").cloned() {
        Some(auto_commit) => settings.offend(ConfigError::Contradiction {
            first: Box::new(auto_commit),
            second: Box::new(unset("group.id")),
            rule: "only a group has committed offsets; set group.id, or leave enable.auto.commit out",
        }),
        None => settings.set_default("enable.auto.commit", "false"),
    }
}

/// Each protocol has keys that the other does not.
fn check_protocol(settings: &mut Resolver) {
    if settings.is_broken("group.protocol") {
        return;
    }
    let (excluded, rule): (&[&str], _) = if settings.is_consumer_protocol() {
        (
            &[
                "heartbeat.interval.ms",
                "partition.assignment.strategy",
                "session.timeout.ms",
            ],
            "with group.protocol=consumer the broker decides on this; set it there, or take it out",
        )
    } else {
        (
            &["group.remote.assignor"],
            "only with group.protocol=consumer does the broker assign; use partition.assignment.strategy",
        )
    };
    let Some(protocol) = settings.setting("group.protocol").cloned() else {
        return;
    };
    for name in excluded {
        if let Some(given) = settings.given(name).cloned() {
            settings.offend(ConfigError::Contradiction {
                first: Box::new(given),
                second: Box::new(protocol.clone()),
                rule,
            });
        }
    }
    if !settings.is_consumer_protocol() {
        check_classic(settings, protocol);
    }
}

fn check_classic(settings: &mut Resolver, protocol: Setting) {
    less(
        settings,
        "heartbeat.interval.ms",
        "session.timeout.ms",
        "several heartbeats must fit into a session; make heartbeat.interval.ms about a third of session.timeout.ms",
    );
    let assignors = settings.setting("partition.assignment.strategy").cloned();
    if let Some(assignors) = assignors.filter(|assignors| assignors.value.trim().is_empty()) {
        settings.offend(ConfigError::Contradiction {
            first: Box::new(assignors),
            second: Box::new(protocol),
            rule: "a member of the group assigns and needs to know how; name an assignor, or leave the key out",
        });
    }
}

fn check_times(settings: &mut Resolver) {
    less(
        settings,
        "fetch.max.wait.ms",
        "request.timeout.ms",
        "a broker with nothing to send would answer after the request is given up; make fetch.max.wait.ms smaller than \
         request.timeout.ms",
    );
    check_pauses(settings);
}

/// What holds of the pauses of every client.
pub(super) fn check_pauses(settings: &mut Resolver) {
    // As in Kafka: who sets only the first pause wants the same one always.
    if settings.given("reconnect.backoff.ms").is_some()
        && settings.given("reconnect.backoff.max.ms").is_none()
        && !settings.is_broken("reconnect.backoff.max.ms")
    {
        settings.copy("reconnect.backoff.ms", "reconnect.backoff.max.ms");
    }
    for (first, last) in [
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("retry.backoff.ms", "retry.backoff.max.ms"),
        (
            "socket.connection.setup.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
        ),
    ] {
        at_most(
            settings,
            first,
            last,
            "the first cannot be longer than the longest; raise the second of the two",
        );
    }
}

fn less(settings: &mut Resolver, first: &str, second: &str, rule: &'static str) {
    compare(settings, first, second, rule, |first, second| first < second);
}

fn at_most(settings: &mut Resolver, first: &str, second: &str, rule: &'static str) {
    compare(settings, first, second, rule, |first, second| first <= second);
}

fn compare(settings: &mut Resolver, first: &str, second: &str, rule: &'static str, holds: fn(i64, i64) -> bool) {
    let (Some(one), Some(other)) = (settings.setting(first).cloned(), settings.setting(second).cloned()) else {
        return;
    };
    if !holds(settings.read(first), settings.read(second)) {
        settings.offend(ConfigError::Contradiction {
            first: Box::new(one),
            second: Box::new(other),
            rule,
        });
    }
}

pub(super) fn unset(key: &str) -> Setting {
    Setting {
        key: key.to_owned(),
        value: String::new(),
        source: Source::Default,
    }
}
