//! Rules between keys of the producer.

use milena_config::{ConfigError, Resolver, Setting};

use super::{
    super::{
        ClientKind,
        checks::{check_backoffs, check_servers},
    },
    Acks, PartitionerName,
};

/// The number of batches of a producer that a broker remembers. With more in flight, a retry could reorder records.
const IN_FLIGHT_MAX: i64 = 5;

pub(super) fn check(resolver: &mut Resolver) {
    resolver.add_defaults();
    check_servers(resolver);
    check_idempotence(resolver);
    check_delivery(resolver);
    check_partitioner(resolver);
    check_partitioner_parameters(resolver);
    check_backoffs(resolver);
}

/// As in Kafka: if idempotence is set, acks and retries must allow it; if it is unset, they disable it.
fn check_idempotence(resolver: &mut Resolver) {
    if resolver.is_broken("enable.idempotence") || !resolver.read::<bool>("enable.idempotence") {
        return check_transactions(resolver, "enable.idempotence");
    }
    check_in_flight(resolver);
    let mut disabled_by = None;
    for (key, fits, rule) in [
        (
            "retries",
            resolver.read::<i64>("retries") > 0,
            "idempotence needs retries; set retries above 0, or enable.idempotence=false",
        ),
        (
            "acks",
            resolver.read::<Acks>("acks") == Acks::All,
            "idempotence needs the acknowledgement of all in-sync replicas; set acks=all, or enable.idempotence=false",
        ),
    ] {
        let Some(offender) = resolver.setting(key).filter(|_| !fits).cloned() else {
            continue;
        };
        match resolver.given("enable.idempotence").cloned() {
            Some(requested) => resolver.contradict(requested, offender, rule),
            None => disabled_by = Some(key),
        }
    }
    if let Some(key) = disabled_by {
        resolver.set_default("enable.idempotence", "false");
        check_transactions(resolver, key);
    }
}

fn check_in_flight(resolver: &mut Resolver) {
    let key = "max.in.flight.requests.per.connection";
    let too_many = resolver.read::<i64>(key) > IN_FLIGHT_MAX;
    if let Some(in_flight) = resolver.setting(key).filter(|_| too_many).cloned() {
        let idempotence = resolver.setting("enable.idempotence").cloned();
        resolver.contradict(
            in_flight,
            idempotence.unwrap_or_else(|| Setting::unset("enable.idempotence")),
            "a broker remembers the last 5 batches of a producer; set at most 5, or enable.idempotence=false",
        );
    }
}

/// `reason` is the key that disables idempotence.
fn check_transactions(resolver: &mut Resolver, reason: &str) {
    let (Some(id), Some(reason)) = (
        resolver.setting("transactional.id").cloned(),
        resolver.setting(reason).cloned(),
    ) else {
        return;
    };
    resolver.contradict(
        id,
        reason,
        "transactions need an idempotent producer; leave enable.idempotence, acks and retries out, or transactional.id",
    );
}

/// The delivery timeout must allow for at least one request.
fn check_delivery(resolver: &mut Resolver) {
    let keys = ["delivery.timeout.ms", "linger.ms", "request.timeout.ms"];
    if keys.iter().any(|key| resolver.is_broken(key)) {
        return;
    }
    let [delivery_ms, linger_ms, request_ms] = keys.map(|key| resolver.read::<i64>(key));
    let least_ms = linger_ms.saturating_add(request_ms).min(i64::from(i32::MAX));
    if delivery_ms >= least_ms {
        return;
    }
    let Some(delivery) = resolver.given("delivery.timeout.ms").cloned() else {
        return resolver.set_default("delivery.timeout.ms", &least_ms.to_string());
    };
    let larger = if linger_ms > request_ms {
        "linger.ms"
    } else {
        "request.timeout.ms"
    };
    let other = resolver.setting(larger).cloned();
    resolver.contradict(
        delivery,
        other.unwrap_or_else(|| Setting::unset(larger)),
        "a record waits up to linger.ms to be sent and up to request.timeout.ms for the response; make delivery.timeout.ms \
         at least their sum",
    );
}

fn check_partitioner(resolver: &mut Resolver) {
    let named = resolver.read_optional::<PartitionerName>("partitioner.class").is_some();
    if !named || !resolver.read::<bool>("partitioner.ignore.keys") {
        return;
    }
    if let (Some(ignored), Some(partitioner)) = (
        resolver.given("partitioner.ignore.keys").cloned(),
        resolver.setting("partitioner.class").cloned(),
    ) {
        resolver.contradict(
            ignored,
            partitioner,
            "only Kafka's default partitioner can ignore keys; remove one of the two",
        );
    }
}

/// The parameters, each with the partitioners that use it.
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

/// Refuses parameters that the partitioner does not use, and a partitioner without one that it requires.
fn check_partitioner_parameters(resolver: &mut Resolver) {
    if resolver.is_broken("partitioner.class") {
        return;
    }
    let class: PartitionerName = resolver.read("partitioner.class");
    let named = resolver.setting("partitioner.class").cloned();
    let named = named.unwrap_or_else(|| Setting::unset("partitioner.class"));
    for (key, users) in PARTITIONER_PARAMETERS {
        // The default asks for nothing.
        let default = ClientKind::Producer
            .definitions()
            .find(|definition| definition.name == key);
        let default = default.and_then(|definition| definition.default);
        let is_unused = |given: &&Setting| !users.contains(&class) && Some(given.value.as_str()) != default;
        if let Some(given) = resolver.given(key).filter(is_unused).cloned() {
            let rule = "this partitioner has no such parameter; remove it, or name the partitioner that has it";
            resolver.contradict(given, named.clone(), rule);
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
    if resolver.given(key).is_none() && !resolver.is_broken(key) {
        resolver.push_error(ConfigError::Missing { key, hint });
    }
}
