//! The right name for a wrong one, and the owners of names that are right elsewhere.

use super::{ClientKind, lookup, producer_names};

/// The key that was probably meant, if any is near enough.
pub(super) fn suggestion(client: ClientKind, name: &str) -> Option<&'static str> {
    // Whatever is longer than every key is not worth measuring.
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let name = name.to_lowercase().replace(['_', '-'], ".");
    let (prefixes, old_names) = match client {
        ClientKind::Consumer => (PREFIXES, OLD_NAMES),
        ClientKind::Producer => (producer_names::PREFIXES, producer_names::OLD_NAMES),
        ClientKind::Admin => (ADMIN_PREFIXES, ADMIN_OLD_NAMES),
    };
    let name = prefixes
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(&name);
    let old = old_names.iter().find(|(old, _)| *old == name);
    old.map(|(_, right)| *right).or_else(|| nearest(client, name))
}

/// Whose key it is, if it is one of another client in the same language.
pub(super) fn owner(client: ClientKind, name: &str) -> Option<&'static str> {
    // What the consumer does not know is told by hand; all others may ask its tables.
    if client != ClientKind::Consumer {
        let known = lookup::find(client, name).is_some();
        if known || lookup::find(ClientKind::Consumer, name).is_some() {
            return Some("the consumer").filter(|_| !known);
        }
    }
    let owned = OTHERS
        .iter()
        .find(|(_, names)| names.iter().any(|known| matches(known, name)));
    let of_another = |owner: &&str| client != ClientKind::Producer || *owner != "the producer";
    owned.map(|(owner, _)| *owner).filter(of_another)
}

/// A name that ends in a dot stands for all that begin so.
pub(super) fn matches(known: &str, name: &str) -> bool {
    known == name || (known.ends_with('.') && name.starts_with(known))
}

fn nearest(client: ClientKind, wrong: &str) -> Option<&'static str> {
    let measured = lookup::names(client).map(|name| (edit_distance(wrong, name), name));
    let (edits, nearest) = measured.min()?;
    // One edit for every five letters still looks like a slip; more would be a guess.
    let near = edits <= (wrong.chars().count() / 5).max(1);
    near.then_some(nearest)
        .or_else(|| same_words(client, wrong))
        .or_else(|| only_continuation(client, wrong))
}

/// A name with its words in another order.
fn same_words(client: ClientKind, wrong: &str) -> Option<&'static str> {
    let sorted = |name: &str| {
        let mut words: Vec<String> = name.split('.').map(str::to_owned).collect();
        words.sort_unstable();
        words
    };
    let words = sorted(wrong);
    lookup::names(client).find(|name| sorted(name) == words)
}

/// A name that was cut off, if only one key can be meant.
fn only_continuation(client: ClientKind, beginning: &str) -> Option<&'static str> {
    let mut longer =
        lookup::names(client).filter(|name| name.strip_prefix(beginning).is_some_and(|rest| rest.starts_with('.')));
    let first = longer.next();
    first.filter(|_| longer.next().is_none())
}

/// How many letters must be added, removed or replaced to make one name of the other.
pub fn edit_distance(a: &str, b: &str) -> usize {
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

/// What frameworks put in front of Kafka's names.
const PREFIXES: &[&str] = &[
    "spring.kafka.consumer.properties.",
    "spring.kafka.consumer.",
    "spring.kafka.properties.",
    "spring.kafka.",
    "consumer.override.",
    "main.consumer.",
    "kafka.consumer.",
    "kafka.",
    "consumer.",
];

const ADMIN_PREFIXES: &[&str] = &[
    "spring.kafka.admin.properties.",
    "spring.kafka.admin.",
    "spring.kafka.properties.",
    "spring.kafka.",
    "admin.override.",
    "kafka.admin.",
    "kafka.",
    "admin.",
];

const ADMIN_OLD_NAMES: &[(&str, &str)] = &[
    ("api.timeout.ms", "default.api.timeout.ms"),
    ("broker.list", "bootstrap.servers"),
    ("brokers", "bootstrap.servers"),
    ("num.retries", "retries"),
    ("servers", "bootstrap.servers"),
    ("timeout.ms", "default.api.timeout.ms"),
    ("zookeeper.connect", "bootstrap.servers"),
];

/// Names that Kafka once had, that books have, and that people write.
const OLD_NAMES: &[(&str, &str)] = &[
    ("auto.commit", "enable.auto.commit"),
    ("auto.commit.offset", "enable.auto.commit"),
    ("auto.commit.offsets", "enable.auto.commit"),
    ("autocommit.enable", "enable.auto.commit"),
    ("autocommit.interval.ms", "auto.commit.interval.ms"),
    ("autooffset.reset", "auto.offset.reset"),
    ("broker.list", "bootstrap.servers"),
    ("brokers", "bootstrap.servers"),
    ("consumer.id", "client.id"),
    ("fetch.size", "max.partition.fetch.bytes"),
    ("group", "group.id"),
    ("groupid", "group.id"),
    ("max.fetch.bytes", "fetch.max.bytes"),
    ("max.fetch.wait.ms", "fetch.max.wait.ms"),
    ("max.fetch.wait", "fetch.max.wait.ms"),
    ("min.fetch.bytes", "fetch.min.bytes"),
    ("offset.reset", "auto.offset.reset"),
    ("poll.timeout.ms", "max.poll.interval.ms"),
    ("queued.max.message.chunks", "milena.fetch.buffer.bytes"),
    ("rack", "client.rack"),
    ("servers", "bootstrap.servers"),
    ("zk.connect", "bootstrap.servers"),
    ("zookeeper.connect", "bootstrap.servers"),
];

const OTHERS: &[(&str, &[&str])] = &[
    (
        "the producer",
        &[
            "acks",
            "batch.num.messages",
            "batch.size",
            "buffer.memory",
            "compression.",
            "delivery.report.only.error",
            "delivery.timeout.ms",
            "dr_cb",
            "dr_msg_cb",
            "enable.gapless.guarantee",
            "enable.idempotence",
            "key.serializer",
            "linger.ms",
            "max.block.ms",
            "max.in.flight",
            "max.in.flight.requests.per.connection",
            "max.request.size",
            "message.max.bytes",
            "message.send.max.retries",
            "message.timeout.ms",
            "metadata.max.idle.ms",
            "msg_order_cmp",
            "partitioner",
            "partitioner.",
            "partitioner_cb",
            "produce.offset.report",
            "queue.buffering.",
            "queuing.strategy",
            "request.required.acks",
            "sticky.partitioning.linger.ms",
            "transaction.timeout.ms",
            "transaction.two.phase.commit.enable",
            "transactional.id",
            "value.serializer",
        ],
    ),
    ("the producer and the admin client", &["retries"]),
    ("the admin client", &["bootstrap.controllers"]),
    (
        "Kafka Streams",
        &[
            "application.id",
            "application.server",
            "default.deserialization.exception.handler",
            "default.key.serde",
            "default.value.serde",
            "num.standby.replicas",
            "num.stream.threads",
            "processing.guarantee",
            "state.dir",
            "statestore.cache.max.bytes",
        ],
    ),
    (
        "a schema registry's serializers and deserializers",
        &[
            "auto.register.schemas",
            "basic.auth.",
            "schema.registry.",
            "specific.avro.reader",
            "use.latest.version",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_added_removed_and_replaced() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
