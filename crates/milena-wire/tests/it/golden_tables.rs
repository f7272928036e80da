//! The version table and the error codes, against Kafka's own.

use milena_wire::{api::ApiKey, errors::ErrorCode, message::VersionRange};

fn rows(kind: &str) -> Vec<Vec<&'static str>> {
    let rows: Vec<Vec<_>> = include_str!("../golden/tables.txt")
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|row| row[0] == kind)
        .collect();
    assert!(rows.len() > 50, "{} rows of {kind}", rows.len());
    rows
}

#[test]
fn apis_have_kafkas_names_and_stable_versions() {
    let apis = rows("api");
    assert_eq!(apis.len(), ApiKey::ALL.len());
    for row in apis {
        let key = ApiKey::from_id(row[1].parse().unwrap()).unwrap();
        let stable = VersionRange::new(row[3].parse().unwrap(), row[4].parse().unwrap());
        assert_eq!(key.name(), row[2]);
        match key {
            ApiKey::Produce => assert_eq!(key.broker_versions(), Some(VersionRange::new(0, stable.max))),
            _ => assert_eq!(key.broker_versions(), Some(stable), "{key}"),
        }
        if let Some(client) = key.client_versions() {
            assert_eq!(client.intersect(stable), Some(client), "{key}");
        }
    }
}

#[test]
fn headers_have_kafkas_versions() {
    for row in rows("header") {
        let key = ApiKey::from_id(row[1].parse().unwrap()).unwrap();
        let version = row[2].parse().unwrap();
        assert_eq!(
            key.request_header_version(version),
            row[3].parse::<i16>().unwrap(),
            "{key} {version}"
        );
        assert_eq!(
            key.response_header_version(version),
            row[4].parse::<i16>().unwrap(),
            "{key} {version}"
        );
    }
}

#[test]
fn errors_are_kafkas() {
    let errors = rows("error");
    assert_eq!(errors.len(), ErrorCode::ALL.len());
    for row in errors {
        let error = ErrorCode::from_code(row[1].parse().unwrap()).unwrap();
        let exception = if error.exception().is_empty() {
            "-"
        } else {
            error.exception()
        };
        assert_eq!((error.name(), exception), (row[2], row[3]));
        assert_eq!(error.is_retriable().to_string(), row[4], "{error}");
        assert_eq!(error.invalidates_metadata().to_string(), row[5], "{error}");
    }
}
