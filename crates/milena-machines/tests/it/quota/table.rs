//! Changes and queries of quotas, as Kafka answers them.

use milena_machines::quota::{QuotaAlteration, QuotaError, QuotaFilter, QuotaKey, QuotaOp, QuotaTable};
use milena_wire::errors::ErrorCode;

use super::{entity, raw};

type Parts<'a> = &'a [(&'a str, Option<&'a str>)];
type Ops<'a> = &'a [(&'a str, Option<f64>)];

fn alteration(parts: Parts<'_>, ops: &[(&str, Option<f64>)]) -> QuotaAlteration {
    let op = |(key, value): &(&str, Option<f64>)| QuotaOp {
        key: (*key).into(),
        value: *value,
    };
    QuotaAlteration {
        entity: raw(parts),
        ops: ops.iter().map(op).collect(),
    }
}

/// Alters one entity, and stores the change.
fn alter(table: &mut QuotaTable, parts: Parts<'_>, ops: &[(&str, Option<f64>)]) -> Result<(), QuotaError> {
    let (mut results, changes) = table.alter(vec![alteration(parts, ops)], 100, &|host| host != "unknown.host");
    for (entity, quotas) in changes {
        table.set(entity, quotas);
    }
    results.remove(&raw(parts)).unwrap()
}

fn found(table: &QuotaTable, strict: bool, filters: &[(&str, i8, Option<&str>)]) -> usize {
    let mut filter = QuotaFilter::new(strict);
    for (entity_type, match_type, name) in filters {
        filter.add(entity_type, *match_type, *name).unwrap();
    }
    filter.check().unwrap();
    table.describe(&filter).count()
}

#[test]
fn invalid_changes_are_refused_with_kafkas_codes() {
    let user: Parts<'_> = &[("user", Some("a"))];
    let ip: Parts<'_> = &[("ip", Some("127.0.0.1"))];
    let one = &[("producer_byte_rate", Some(1.0))][..];
    let cases: &[(Parts<'_>, Ops<'_>, &str)] = &[
        (&[], one, "empty client quota entity"),
        (&[("other", Some("a"))], one, "Unhandled"),
        (&[("user", Some(""))], one, "Empty user"),
        (&[("client-id", Some(""))], one, "Empty client-id"),
        (&[("ip", Some("1.1.1.1")), ("user", Some("a"))], one, "combination"),
        (&[("ip", Some("1.1.1.1")), ("client-id", None)], one, "combination"),
        (&[("ip", Some("unknown.host"))], one, "resolvable"),
        (user, &[("bad", Some(1.0))], "Invalid configuration key bad"),
        (
            user,
            &[("connection_creation_rate", Some(1.0))],
            "Invalid configuration key",
        ),
        (ip, one, "Invalid configuration key producer_byte_rate"),
        (user, &[("producer_byte_rate", Some(0.0))], "greater than 0"),
        (user, &[("request_percentage", Some(-1.0))], "greater than 0"),
        (user, &[("producer_byte_rate", Some(10.5))], "fractional"),
        (ip, &[("connection_creation_rate", Some(0.5))], "fractional"),
        (ip, &[("connection_creation_rate", Some(3e9))], "too large for a INT"),
        (user, &[("consumer_byte_rate", Some(1e19))], "too large for a LONG"),
        (user, &[("consumer_byte_rate", Some(f64::INFINITY))], "too large"),
        (user, &[("request_percentage", Some(f64::INFINITY))], "finite"),
        (user, &[("request_percentage", Some(f64::NAN))], "number"),
        (
            user,
            &[("request_percentage", Some(1.0)), ("request_percentage", Some(2.0))],
            "Duplicate quota key request_percentage",
        ),
    ];
    for (parts, ops, text) in cases {
        let mut table = QuotaTable::default();
        let error = alter(&mut table, parts, ops).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{parts:?} {ops:?}");
        assert!(error.text.contains(text), "{}: {text}", error.text);
        assert_eq!(table, QuotaTable::default());
    }
}

#[test]
fn a_change_sets_and_removes_single_quotas() {
    let mut table = QuotaTable::default();
    let user: Parts<'_> = &[("user", Some("user with spaces"))];
    let set = [
        ("producer_byte_rate", Some(10_000.0)),
        ("request_percentage", Some(0.5)),
    ];
    alter(&mut table, user, &set).unwrap();
    alter(&mut table, user, &[("request_percentage", Some(12.34))]).unwrap();
    alter(&mut table, user, &[("producer_byte_rate", None), ("bad_key", None)]).unwrap();
    let quotas: Vec<_> = table.iter().collect();
    assert_eq!(quotas.len(), 1);
    assert_eq!(quotas[0].0, &entity(user));
    assert_eq!(quotas[0].1, &[(QuotaKey::RequestPercentage, 12.34)].into());
    alter(&mut table, user, &[("request_percentage", None)]).unwrap();
    assert_eq!(table, QuotaTable::default());
    // One bad quota refuses the others of the entity.
    alter(
        &mut table,
        user,
        &[("producer_byte_rate", Some(1.0)), ("bad", Some(1.0))],
    )
    .unwrap_err();
    assert_eq!(table, QuotaTable::default());
}

#[test]
fn a_request_may_change_many_entities_and_name_each_once() {
    let one = [("producer_byte_rate", Some(1.0))];
    let user: Parts<'_> = &[("user", Some("a"))];
    let alterations = vec![
        alteration(user, &one),
        alteration(&[("user", None)], &one),
        alteration(user, &[("producer_byte_rate", Some(2.0))]),
        alteration(&[("other", None)], &one),
    ];
    let (results, changes) = QuotaTable::default().alter(alterations, 100, &|_| true);
    assert_eq!(results.len(), 3);
    assert!(results[&raw(&[("user", None)])].is_ok());
    assert!(results[&raw(&[("other", None)])].is_err());
    assert_eq!(
        results[&raw(user)].as_ref().unwrap_err().code,
        ErrorCode::InvalidRequest
    );
    let first = changes.iter().find(|change| change.0 == entity(user)).unwrap();
    assert_eq!(first.1, [(QuotaKey::ProducerByteRate, 1.0)].into());
}

#[test]
fn a_change_without_effect_is_no_change() {
    let mut table = QuotaTable::default();
    let user: Parts<'_> = &[("user", Some("a"))];
    let one = [("producer_byte_rate", Some(1.0))];
    alter(&mut table, user, &one).unwrap();
    assert!(table.alter(vec![alteration(user, &one)], 100, &|_| true).1.is_empty());
    let nothing = vec![alteration(&[("user", Some("b"))], &[("producer_byte_rate", None)])];
    let (results, changes) = QuotaTable::default().alter(nothing, 100, &|_| true);
    assert!(results.values().all(Result::is_ok));
    assert!(changes.iter().all(|change| change.1.is_empty()));
}

#[test]
fn the_number_of_entities_is_bounded() {
    let mut table = QuotaTable::default();
    let one = [("producer_byte_rate", Some(1.0))];
    for name in ["a", "b"] {
        alter(&mut table, &[("user", Some(name))], &one).unwrap();
    }
    let alterations = vec![
        alteration(&[("user", Some("c"))], &one),
        alteration(&[("user", Some("b"))], &[("producer_byte_rate", Some(2.0))]),
    ];
    let (results, changes) = table.alter(alterations, 2, &|_| true);
    let refused = results[&raw(&[("user", Some("c"))])].as_ref().unwrap_err();
    assert_eq!(refused.code, ErrorCode::PolicyViolation);
    assert!(refused.text.contains("milena.max.quota.entities"), "{refused}");
    assert_eq!(changes.len(), 1);
}

#[test]
fn a_filter_finds_what_kafkas_finds() {
    let mut table = QuotaTable::default();
    let clients: [Parts<'_>; 11] = [
        &[("user", Some("user-1")), ("client-id", Some("client-id-1"))],
        &[("user", Some("user-2")), ("client-id", Some("client-id-1"))],
        &[("user", Some("user-3")), ("client-id", Some("client-id-2"))],
        &[("user", Some("user-1")), ("client-id", None)],
        &[("user", None), ("client-id", None)],
        &[("user", Some("user-2"))],
        &[("user", Some("user-3"))],
        &[("user", Some("user-1"))],
        &[("user", None), ("client-id", Some("client-id-1"))],
        &[("user", None)],
        &[("client-id", Some("client-id-2"))],
    ];
    for parts in clients {
        alter(&mut table, parts, &[("request_percentage", Some(1.0))]).unwrap();
    }
    for ip in [Some("1.2.3.4"), None] {
        alter(&mut table, &[("ip", ip)], &[("connection_creation_rate", Some(1.0))]).unwrap();
    }
    for (strict, filters, expected) in [
        (false, &[("user", 0, Some("user-1"))][..], 3),
        (false, &[("user", 0, Some("unknown"))], 0),
        (false, &[("client-id", 0, Some("client-id-2"))], 2),
        (false, &[("user", 1, None)], 3),
        (true, &[("user", 0, Some("user-2"))], 1),
        (true, &[("client-id", 0, Some("client-id-1"))], 0),
        (true, &[("user", 2, None)], 4),
        (false, &[("user", 2, None)], 10),
        (true, &[("client-id", 2, None)], 1),
        (false, &[("client-id", 2, None)], 7),
        (false, &[("ip", 2, None)], 2),
        (true, &[("user", 1, None), ("client-id", 1, None)], 1),
        (true, &[("user", 0, Some("user-2")), ("client-id", 1, None)], 0),
        (false, &[], 13),
        (true, &[], 0),
    ] {
        assert_eq!(found(&table, strict, filters), expected, "{strict} {filters:?}");
    }
}

#[test]
fn invalid_filters_are_refused() {
    let add = |entity_type, match_type, name| QuotaFilter::new(false).add(entity_type, match_type, name);
    for (entity_type, match_type, name) in [
        ("", 0, Some("a")),
        ("user", 0, None),
        ("user", 1, Some("a")),
        ("user", 2, Some("a")),
        ("user", 3, None),
        ("user", -1, None),
    ] {
        let error = add(entity_type, match_type, name).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidRequest, "{entity_type} {match_type}");
    }
    assert_eq!(
        add("other", 0, Some("a")).unwrap_err().code,
        ErrorCode::UnsupportedVersion
    );
    let mut twice = QuotaFilter::new(false);
    twice.add("user", 2, None).unwrap();
    assert_eq!(twice.add("user", 1, None).unwrap_err().code, ErrorCode::InvalidRequest);
    for other in ["user", "client-id"] {
        let mut mixed = QuotaFilter::new(false);
        mixed.add("ip", 2, None).unwrap();
        mixed.add(other, 2, None).unwrap();
        assert_eq!(mixed.check().unwrap_err().code, ErrorCode::InvalidRequest);
    }
}
