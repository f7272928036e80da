//! What must hold between several keys of the producer.

use super::{
    Acks, ClientKind, ConfigError, PartitionerName, Setting,
    checks::{check_pauses, check_servers, unset},
    resolve::Resolver,
};

/// More could be reordered by a retry, and the broker remembers no more batches of a producer.
const IN_FLIGHT_MAX: i64 = 5;

pub(super) fn check(settings: &mut Resolver) {
    check_servers(settings);
    check_idempotence(settings);
    check_delivery(settings);
    check_partitioner(settings);
    check_partitioner_parameters(settings);
    check_pauses(settings);
}

/// As in Kafka: who asks for idempotence must not take away what it needs; who takes that away without asking for it
/// goes without.
fn check_idempotence(settings: &mut Resolver) {
    if settings.is_broken("enable.idempotence") || !settings.read::<bool>("enable.idempotence") {
        return check_transactions(settings, "enable.idempotence");
    }
    check_in_flight(settings);
    let mut off_because = None;
    for (key, fits, rule) in [
        (
            "retries",
            settings.read::<i64>("retries") > 0,
            "without retries nothing can be repeated; set retries above 0, or enable.idempotence=false",
        ),
        (
            "acks",
            settings.read::<Acks>("acks") == Acks::All,
            "only what all replicas have cannot be lost and sent again; set acks=all, or enable.idempotence=false",
        ),
    ] {
        let Some(offender) = settings.setting(key).filter(|_| !fits).cloned() else {
            continue;
        };
        match settings.given("enable.idempotence").cloned() {
            Some(asked) => contradict(settings, asked, offender, rule),
            None => off_because = Some(key),
        }
    }
    if let Some(key) = off_because {
        settings.set_default("enable.idempotence", "false");
        check_transactions(settings, key);
    }
}

fn check_in_flight(settings: &mut Resolver) {
    let key = "max.in.flight.requests.per.connection";
    let too_many = settings.read::<i64>(key) > IN_FLIGHT_MAX;
    if let Some(in_flight) = settings.setting(key).filter(|_| too_many).cloned() {
        let idempotence = settings.setting("enable.idempotence").cloned();
        contradict(
            settings,
            in_flight,
            idempotence.unwrap_or_else(|| unset("enable.idempotence")),
            "the broker knows the last 5 batches of a producer again, not more; set at most 5, or \
             enable.idempotence=false",
        );
    }
}

/// `reason` is the key that keeps idempotence away.
fn check_transactions(settings: &mut Resolver, reason: &str) {
    let (Some(id), Some(reason)) = (
        settings.setting("transactional.id").cloned(),
        settings.setting(reason).cloned(),
    ) else {
        return;
    };
    contradict(
        settings,
        id,
        reason,
        "a transaction needs an idempotent producer; leave enable.idempotence, acks and retries out, or transactional.id",
    );
}

/// A record must have the time to be sent once at least.
fn check_delivery(settings: &mut Resolver) {
    let keys = ["delivery.timeout.ms", "linger.ms", "request.timeout.ms"];
    if keys.iter().any(|key| settings.is_broken(key)) {
        return;
    }
    let [delivery_ms, linger_ms, request_ms] = keys.map(|key| settings.read::<i64>(key));
    let least_ms = linger_ms.saturating_add(request_ms).min(i64::from(i32::MAX));
    if delivery_ms >= least_ms {
        return;
    }
    let Some(delivery) = settings.given("delivery.timeout.ms").cloned() else {
        return settings.set_default("delivery.timeout.ms", &least_ms.to_string());
    };
    let larger = if linger_ms > request_ms {
        "linger.ms"
    } else {
        "request.timeout.ms"
    };
    let other = settings.setting(larger).cloned();
    contradict(
        settings,
        delivery,
        other.unwrap_or_else(|| unset(larger)),
        "a record waits for linger.ms and then for an answer for request.timeout.ms; make delivery.timeout.ms at least \
         both together",
    );
}

fn check_partitioner(settings: &mut Resolver) {
    let named = settings.read_optional::<PartitionerName>("partitioner.class").is_some();
    if !named || !settings.read::<bool>("partitioner.ignore.keys") {
        return;
    }
    if let (Some(ignored), Some(partitioner)) = (
        settings.given("partitioner.ignore.keys").cloned(),
        settings.setting("partitioner.class").cloned(),
    ) {
        contradict(
            settings,
            ignored,
            partitioner,
            "only Kafka's own partitioner can be told to ignore keys; take one of the two out",
        );
    }
}

/// Each parameter, and the partitioners that use it.
const PARTITIONER_PARAMETERS: [(&str, &[PartitionerName]); 7] = {
    use PartitionerName::{Composite, Entity, HotKeys, Region, Tenant, TimeBucket};
    [
        ("milena.partitioner.bucket.ms", &[TimeBucket]),
        ("milena.partitioner.field", &[Entity, Region]),
        ("milena.partitioner.fields", &[Composite]),
        ("milena.partitioner.hot.records.per.minute", &[HotKeys]),
        ("milena.partitioner.regions", &[Region]),
        ("milena.partitioner.separator", &[Tenant, Composite, Entity, Region]),
        ("milena.partitioner.spread", &[Tenant, TimeBucket, HotKeys]),
    ]
};

/// A parameter that its partitioner does not use is refused, and so is a partitioner without one that it needs.
fn check_partitioner_parameters(settings: &mut Resolver) {
    if settings.is_broken("partitioner.class") {
        return;
    }
    let class: PartitionerName = settings.read("partitioner.class");
    let named = settings.setting("partitioner.class").cloned();
    let named = named.unwrap_or_else(|| unset("partitioner.class"));
    for (key, users) in PARTITIONER_PARAMETERS {
        // A value that is the default asks for nothing.
        let default = ClientKind::Producer
            .definitions()
            .find(|definition| definition.name == key);
        let default = default.and_then(|definition| definition.default);
        let is_unused = |given: &&Setting| !users.contains(&class) && Some(given.value.as_str()) != default;
        if let Some(given) = settings.given(key).filter(is_unused).cloned() {
            let rule = "this partitioner has no such parameter; take it out, or name the partitioner that has it";
            contradict(settings, given, named.clone(), rule);
        }
    }
    let (key, hint) = match class {
        PartitionerName::Entity => (
            "milena.partitioner.field",
            "as in header:customer for partitioner.class=entity",
        ),
        PartitionerName::Region => (
            "milena.partitioner.regions",
            "as in eu=0-3,us=4-11 for partitioner.class=region",
        ),
        PartitionerName::Composite => (
            "milena.partitioner.fields",
            "as in header:country,key[0] for partitioner.class=composite",
        ),
        _ => return,
    };
    if settings.given(key).is_none() && !settings.is_broken(key) {
        settings.offend(ConfigError::Missing { key, hint });
    }
}

fn contradict(settings: &mut Resolver, first: Setting, second: Setting, rule: &'static str) {
    settings.offend(ConfigError::Contradiction {
        first: Box::new(first),
        second: Box::new(second),
        rule,
    });
}
