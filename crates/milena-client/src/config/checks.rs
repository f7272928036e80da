//! Rules between keys that all clients have.

use milena_config::{ConfigError, Resolver};

/// Requires `bootstrap.servers`.
pub(super) fn check_servers(resolver: &mut Resolver) {
    let missing = resolver.setting("bootstrap.servers").is_none() && !resolver.is_broken("bootstrap.servers");
    if missing {
        resolver.push_error(ConfigError::Missing {
            key: "bootstrap.servers",
            hint: "to host:port of a broker, several separated by commas",
        });
    }
}

/// Checks every first backoff or timeout against its maximum.
pub(super) fn check_backoffs(resolver: &mut Resolver) {
    // As in Kafka: without a maximum, the first backoff does not grow.
    if resolver.given("reconnect.backoff.ms").is_some()
        && resolver.given("reconnect.backoff.max.ms").is_none()
        && !resolver.is_broken("reconnect.backoff.max.ms")
    {
        resolver.copy("reconnect.backoff.ms", "reconnect.backoff.max.ms");
    }
    for (first, max) in [
        ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        ("retry.backoff.ms", "retry.backoff.max.ms"),
        (
            "socket.connection.setup.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
        ),
    ] {
        let rule = "the first value cannot exceed the maximum; raise the second key";
        resolver.compare(first, max, rule, |first, max| first <= max);
    }
}

/// The size of a socket buffer, or `None` to let the operating system adapt it. Java accepts zero and fails when it
/// connects; librdkafka treats it like -1.
pub(super) fn read_buffer(resolver: &Resolver, name: &str) -> Option<u32> {
    let bytes: i32 = resolver.read(name);
    u32::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}
