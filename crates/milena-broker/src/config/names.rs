//! The right name for a wrong one.

use super::{Definition, Scope, lookup::table};

/// The key that was probably meant, if any is near enough.
pub(super) fn suggestion(scope: Scope, name: &str) -> Option<&'static str> {
    old_name(scope, name)
        .or_else(|| name_on_the_other_side(scope, name))
        .or_else(|| nearest(scope, name))
}

/// Names that Kafka itself once had.
fn old_name(scope: Scope, name: &str) -> Option<&'static str> {
    match (scope, name) {
        (Scope::Broker, "port" | "host" | "host.name") => Some("listeners"),
        (Scope::Broker, "advertised.host.name" | "advertised.port") => Some("advertised.listeners"),
        (Scope::Broker, "log.message.timestamp.difference.max.ms") => Some("log.message.timestamp.before.max.ms"),
        (Scope::Topic, "message.timestamp.difference.max.ms") => Some("message.timestamp.before.max.ms"),
        (Scope::Broker, "log.cleaner.min.cleanable.dirty.ratio") => Some("log.cleaner.min.cleanable.ratio"),
        (Scope::Broker, "transaction.id.expiration.ms") => Some("transactional.id.expiration.ms"),
        _ => None,
    }
}

/// `log.retention.ms` of a topic is `retention.ms`, and the other way round.
fn name_on_the_other_side(scope: Scope, name: &str) -> Option<&'static str> {
    match scope {
        Scope::Topic | Scope::Group | Scope::ClientMetrics => {
            let follows = |definition: &&Definition| definition.synonyms.iter().any(|synonym| synonym.name == name);
            table(scope).iter().find(follows).map(|definition| definition.name)
        }
        Scope::Broker => {
            let mut followers = table(Scope::Topic).iter().chain(table(Scope::Group));
            let same = followers.find(|definition| definition.name == name);
            same.and_then(|definition| definition.synonyms.first())
                .map(|synonym| synonym.name)
        }
    }
}

fn nearest(scope: Scope, name: &str) -> Option<&'static str> {
    // Names come from strangers: whatever is longer than every key is not worth measuring.
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let wrong = name.to_lowercase().replace(['_', '-'], ".");
    let known = table(scope).iter().filter(|definition| !definition.hidden);
    let measured = known.map(|definition| (distance(&wrong, definition.name), definition.name));
    let (edits, nearest) = measured.min()?;
    // One edit for every five letters still looks like a slip; more would be a guess.
    let near = edits <= (wrong.chars().count() / 5).max(1);
    near.then_some(nearest).or_else(|| only_continuation(scope, &wrong))
}

/// A name that was cut off, if only one key can be meant.
fn only_continuation(scope: Scope, beginning: &str) -> Option<&'static str> {
    let mut longer = table(scope)
        .iter()
        .map(|definition| definition.name)
        .filter(|name| name.strip_prefix(beginning).is_some_and(|rest| rest.starts_with('.')));
    let first = longer.next();
    first.filter(|_| longer.next().is_none())
}

/// How many letters must be added, removed or replaced to make one name of the other.
fn distance(a: &str, b: &str) -> usize {
    // One row of the usual table: the distances between what was read of `a` and every beginning of `b`.
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (read, left) in a.chars().enumerate() {
        let mut diagonal = read;
        let mut before = read + 1;
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = before;
        }
        for (cell, right) in cells.zip(b.chars()) {
            let replaced = diagonal + usize::from(left != right);
            diagonal = *cell;
            before = replaced.min(before + 1).min(*cell + 1);
            *cell = before;
        }
    }
    row.last().copied().unwrap_or_default()
}

const NAME_LENGTH_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        for (a, b, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn wrong_names_lead_to_right_ones() {
        for (scope, wrong, right) in [
            (Scope::Topic, "retention.mss", Some("retention.ms")),
            (Scope::Topic, "log.retention.hours", Some("retention.ms")),
            (Scope::Topic, "cleanup.polcy", Some("cleanup.policy")),
            (Scope::Topic, "cleanup_policy", Some("cleanup.policy")),
            (
                Scope::Topic,
                "message.timestamp.difference.max.ms",
                Some("message.timestamp.before.max.ms"),
            ),
            (Scope::Topic, "message.max.bytes", Some("max.message.bytes")),
            (Scope::Topic, "zzz", None),
            (Scope::Topic, "", None),
            (
                Scope::Group,
                "group.consumer.session.timeout.ms",
                Some("consumer.session.timeout.ms"),
            ),
            (
                Scope::Group,
                "consumer.heartbeat.interval",
                Some("consumer.heartbeat.interval.ms"),
            ),
            (Scope::Group, "retention.ms", None),
            (
                Scope::Broker,
                "consumer.session.timeout.ms",
                Some("group.consumer.session.timeout.ms"),
            ),
            (Scope::Broker, "retention.ms", Some("log.retention.ms")),
            (Scope::Broker, "max.message.bytes", Some("message.max.bytes")),
            (Scope::Broker, "num.partition", Some("num.partitions")),
            (
                Scope::Broker,
                "AUTO_CREATE_TOPICS_ENABLE",
                Some("auto.create.topics.enable"),
            ),
            (Scope::Broker, "port", Some("listeners")),
            (Scope::Broker, "auto.create", Some("auto.create.topics.enable")),
            (Scope::Broker, "group", None),
        ] {
            assert_eq!(suggestion(scope, wrong), right, "{scope} {wrong:?}");
        }
        assert_eq!(suggestion(Scope::Broker, &"é.".repeat(100_000)), None);
    }
}
