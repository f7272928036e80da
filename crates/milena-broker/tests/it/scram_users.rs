//! SCRAM users: their APIs, in Kafka's words, and their place on disk.

use bytes::Bytes;
use milena_machines::sasl::{SaltedPassword, ScramMechanism};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest, SaslAuthenticateRequest,
        SaslHandshakeRequest,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
        describe_user_scram_credentials_request::UserName,
    },
};

use crate::{client::Client, running::start};

const SHA_256: i8 = 1;
const SHA_512: i8 = 2;

fn upsertion(name: &str, mechanism: i8, iterations: i32) -> ScramCredentialUpsertion {
    let hash = ScramMechanism::from_code(mechanism).unwrap_or(ScramMechanism::Sha256);
    let salted = SaltedPassword::derive(hash, b"hunter2", b"salt", 4096);
    ScramCredentialUpsertion {
        name: name.to_owned().into(),
        mechanism,
        iterations,
        salt: "salt".into(),
        salted_password: Bytes::copy_from_slice(salted.as_bytes()),
        ..Default::default()
    }
}

fn deletion(name: &str, mechanism: i8) -> ScramCredentialDeletion {
    ScramCredentialDeletion {
        name: name.to_owned().into(),
        mechanism,
        ..Default::default()
    }
}

type Row = (String, ErrorCode, Option<String>);

fn alter(
    client: &mut Client,
    upsertions: Vec<ScramCredentialUpsertion>,
    deletions: Vec<ScramCredentialDeletion>,
) -> Vec<Row> {
    let request = AlterUserScramCredentialsRequest {
        upsertions,
        deletions,
        ..Default::default()
    };
    let response = client.call(&request, 0);
    let rows = response.results.into_iter().map(|result| {
        let error = ErrorCode::from_code(result.error_code).unwrap();
        (
            result.user.to_string(),
            error,
            result.error_message.map(|text| text.to_string()),
        )
    });
    rows.collect()
}

/// A user with its mechanisms and iterations, or its error.
type Described = (String, ErrorCode, Vec<(i8, i32)>);

/// Describes users.
fn describe(client: &mut Client, users: Option<&[&str]>) -> Vec<Described> {
    let name = |name: &&str| UserName {
        name: (*name).to_owned().into(),
        ..Default::default()
    };
    let request = DescribeUserScramCredentialsRequest {
        users: users.map(|users| users.iter().map(name).collect()),
        ..Default::default()
    };
    let response = client.call(&request, 0);
    assert_eq!(response.error_code, 0);
    let rows = response.results.into_iter().map(|result| {
        let error = ErrorCode::from_code(result.error_code).unwrap();
        let infos = result
            .credential_infos
            .iter()
            .map(|info| (info.mechanism, info.iterations));
        (result.user.to_string(), error, infos.collect())
    });
    rows.collect()
}

fn ok(user: &str) -> Row {
    (user.to_owned(), ErrorCode::None, None)
}

fn refused(user: &str, error: ErrorCode, text: &str) -> Row {
    (user.to_owned(), error, Some(text.to_owned()))
}

#[test]
fn users_are_made_described_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    assert_eq!(describe(&mut client, None), []);
    let rows = alter(
        &mut client,
        vec![upsertion("alice", SHA_256, 4096), upsertion("bob", SHA_512, 16_384)],
        vec![],
    );
    assert_eq!(rows, [ok("alice"), ok("bob")]);
    assert_eq!(
        alter(&mut client, vec![upsertion("alice", SHA_512, 5000)], vec![]),
        [ok("alice")]
    );
    let alice = (
        "alice".to_owned(),
        ErrorCode::None,
        vec![(SHA_256, 4096), (SHA_512, 5000)],
    );
    let bob = ("bob".to_owned(), ErrorCode::None, vec![(SHA_512, 16_384)]);
    // An empty list stands for all users, as null does.
    for users in [None, Some(&[][..])] {
        assert_eq!(describe(&mut client, users), [alice.clone(), bob.clone()]);
    }
    assert_eq!(
        describe(&mut client, Some(&["bob", "carol", "alice", "alice"])),
        [
            ("alice".to_owned(), ErrorCode::DuplicateResource, vec![]),
            bob.clone(),
            ("carol".to_owned(), ErrorCode::ResourceNotFound, vec![]),
        ]
    );
    let rows = alter(
        &mut client,
        vec![],
        vec![deletion("alice", SHA_256), deletion("bob", SHA_512)],
    );
    assert_eq!(rows, [ok("alice"), ok("bob")]);
    assert_eq!(
        describe(&mut client, None),
        [("alice".to_owned(), ErrorCode::None, vec![(SHA_512, 5000)])]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn refusals_have_kafkas_codes_and_texts() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("milena.max.scram.users", "2")]);
    let mut client = broker.client();
    let twice = "A user credential cannot be altered twice in the same request";
    let too_few = refused("alice", ErrorCode::UnacceptableCredential, "Too few iterations");
    for (upsertions, deletions, expected) in [
        (vec![upsertion("alice", SHA_256, 4095)], vec![], vec![too_few.clone()]),
        (vec![upsertion("alice", SHA_256, -1)], vec![], vec![too_few]),
        (
            vec![upsertion("alice", SHA_256, 16_385)],
            vec![],
            vec![refused(
                "alice",
                ErrorCode::UnacceptableCredential,
                "Too many iterations",
            )],
        ),
        (
            vec![upsertion("", SHA_256, 4096)],
            vec![],
            vec![refused(
                "",
                ErrorCode::UnacceptableCredential,
                "Username must not be empty",
            )],
        ),
        (
            vec![upsertion("alice", 3, 4096)],
            vec![],
            vec![refused(
                "alice",
                ErrorCode::UnsupportedSaslMechanism,
                "Unknown SCRAM mechanism",
            )],
        ),
        (
            vec![],
            vec![deletion("alice", 0)],
            vec![refused(
                "alice",
                ErrorCode::UnsupportedSaslMechanism,
                "Unknown SCRAM mechanism",
            )],
        ),
        (
            vec![],
            vec![deletion("alice", SHA_256)],
            vec![refused(
                "alice",
                ErrorCode::ResourceNotFound,
                "Attempt to delete a user credential that does not exist",
            )],
        ),
        // Whatever the mechanism, and nothing of it is done.
        (
            vec![
                upsertion("alice", SHA_256, 4096),
                upsertion("alice", SHA_512, 4096),
                upsertion("bob", SHA_256, 4096),
            ],
            vec![],
            vec![refused("alice", ErrorCode::DuplicateResource, twice), ok("bob")],
        ),
        (
            vec![upsertion("bob", SHA_512, 4096)],
            vec![deletion("bob", SHA_256)],
            vec![refused("bob", ErrorCode::DuplicateResource, twice)],
        ),
        // The first error of a user stands.
        (
            vec![upsertion("carol", SHA_512, 4096)],
            vec![deletion("carol", SHA_256)],
            vec![refused(
                "carol",
                ErrorCode::ResourceNotFound,
                "Attempt to delete a user credential that does not exist",
            )],
        ),
        (
            vec![upsertion("carol", SHA_512, 4096), upsertion("dave", SHA_512, 4096)],
            vec![],
            vec![
                ok("carol"),
                refused(
                    "dave",
                    ErrorCode::PolicyViolation,
                    "there are 2 SCRAM users, and milena.max.scram.users allows no more",
                ),
            ],
        ),
    ] {
        assert_eq!(alter(&mut client, upsertions, deletions), expected);
    }
    // Users that exist may still change.
    assert_eq!(
        alter(&mut client, vec![upsertion("bob", SHA_512, 4096)], vec![]),
        [ok("bob")]
    );
    let users: Vec<_> = describe(&mut client, None).into_iter().map(|(user, ..)| user).collect();
    assert_eq!(users, ["bob", "carol"]);
}

#[test]
fn salts_and_salted_passwords_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let good = upsertion("alice", SHA_256, 4096);
    for bad in [
        ScramCredentialUpsertion {
            salted_password: Bytes::from_static(&[1; 31]),
            ..good.clone()
        },
        ScramCredentialUpsertion {
            salt: Bytes::new(),
            ..good.clone()
        },
        ScramCredentialUpsertion {
            salt: Bytes::from_static(&[1; 1025]),
            ..good.clone()
        },
        ScramCredentialUpsertion {
            name: "a".repeat(1025).into(),
            ..good
        },
    ] {
        let rows = alter(&mut client, vec![bad], vec![]);
        assert_eq!(rows[0].1, ErrorCode::UnacceptableCredential);
    }
    assert_eq!(describe(&mut client, None), []);
}

#[test]
fn users_survive_a_kill_and_no_password_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    alter(
        &mut client,
        vec![upsertion("alice", SHA_256, 4096), upsertion("bob", SHA_256, 4096)],
        vec![],
    );
    alter(&mut client, vec![], vec![deletion("bob", SHA_256)]);
    drop(broker);
    let stored = std::fs::read(dir.path().join("metadata.log")).unwrap();
    let stored = String::from_utf8_lossy(&stored);
    assert!(stored.contains("alice") && !stored.contains("hunter2"));
    let broker = start(dir.path(), &[]);
    let rows = describe(&mut broker.client(), None);
    assert_eq!(rows, [("alice".to_owned(), ErrorCode::None, vec![(SHA_256, 4096)])]);
}

#[test]
fn sasl_requests_without_a_log_in_are_illegal() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    for version in 0..=1 {
        let request = SaslHandshakeRequest {
            mechanism: "PLAIN".into(),
        };
        let response = client.call(&request, version);
        assert_eq!(response.error_code, ErrorCode::IllegalSaslState.code());
        assert!(response.mechanisms.is_empty());
    }
    for version in 0..=2 {
        let response = client.call(&SaslAuthenticateRequest::default(), version);
        assert_eq!(response.error_code, ErrorCode::IllegalSaslState.code());
        assert_eq!(
            response.error_message.as_deref(),
            Some("SaslAuthenticate request received after successful authentication")
        );
    }
}
