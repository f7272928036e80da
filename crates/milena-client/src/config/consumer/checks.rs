//! Rules between keys of the consumer.

use milena_config::{Resolver, Setting};

use super::{
    super::checks::{check_backoffs, check_servers},
    Profile,
    types::GroupProtocolName,
};

pub(super) fn check(resolver: &mut Resolver) {
    if let Some(profile) = resolver.read_optional::<Profile>("milena.profile") {
        resolver.add_profile(&profile.defaults());
    }
    resolver.add_defaults();
    check_servers(resolver);
    check_group(resolver);
    check_protocol(resolver);
    check_times(resolver);
}

fn check_group(resolver: &mut Resolver) {
    let grouped = resolver.setting("group.id").is_some() || resolver.is_broken("group.id");
    if grouped || !resolver.read::<bool>("enable.auto.commit") {
        return;
    }
    match resolver.given("enable.auto.commit").cloned() {
        Some(auto_commit) => resolver.contradict(
            auto_commit,
            Setting::unset("group.id"),
            "only a group has committed offsets; set group.id, or leave enable.auto.commit out",
        ),
        None => resolver.set_default("enable.auto.commit", "false"),
    }
}

/// Each protocol has keys that the other does not.
fn check_protocol(resolver: &mut Resolver) {
    let Some(protocol) = resolver.setting("group.protocol").cloned() else {
        return;
    };
    let name: GroupProtocolName = resolver.read("group.protocol");
    let (excluded, rule): (&[&str], _) = match name {
        GroupProtocolName::Consumer => (
            &[
                "heartbeat.interval.ms",
                "partition.assignment.strategy",
                "session.timeout.ms",
            ],
            "with group.protocol=consumer the broker decides on this; set it there, or remove it",
        ),
        GroupProtocolName::Classic => (
            &["group.remote.assignor"],
            "the broker assigns only with group.protocol=consumer; use partition.assignment.strategy",
        ),
    };
    for name in excluded {
        if let Some(given) = resolver.given(name).cloned() {
            resolver.contradict(given, protocol.clone(), rule);
        }
    }
    if name == GroupProtocolName::Classic {
        check_classic(resolver, protocol);
    }
}

fn check_classic(resolver: &mut Resolver, protocol: Setting) {
    resolver.compare(
        "heartbeat.interval.ms",
        "session.timeout.ms",
        "several heartbeats must fit into a session; set heartbeat.interval.ms to about a third of session.timeout.ms",
        |heartbeat, session| heartbeat < session,
    );
    let assignors = resolver.setting("partition.assignment.strategy").cloned();
    if let Some(assignors) = assignors.filter(|assignors| assignors.value.trim().is_empty()) {
        let rule = "a member of the group assigns and needs an assignor; name one, or leave the key out";
        resolver.contradict(assignors, protocol, rule);
    }
}

fn check_times(resolver: &mut Resolver) {
    resolver.compare(
        "fetch.max.wait.ms",
        "request.timeout.ms",
        "a broker without new records would respond after the request has timed out; make fetch.max.wait.ms smaller than \
         request.timeout.ms",
        |wait, timeout| wait < timeout,
    );
    check_backoffs(resolver);
}
