//! `milena user`.

use std::fs;

use serde_json::json;

use super::{cells, fails, json, prints};
use crate::process::Process;

#[test]
fn users_are_created_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let file = dir.path().join("password");
    fs::write(&file, "hunter2\n").unwrap();
    let file = file.to_str().unwrap();
    let create = ["user", "create", "alice", "--password-file", file];
    assert_eq!(prints(&broker, &create), "set the password of alice (SCRAM-SHA-512)\n");
    let again = fails(&broker, &create);
    assert_eq!(
        again,
        "milena: user alice has a password for SCRAM-SHA-512 already; --replace sets a new one\n"
    );
    let both = [
        "-m",
        "sha-256",
        "-m",
        "SCRAM-SHA-512",
        "--replace",
        "--iterations",
        "8192",
    ];
    assert_eq!(
        prints(&broker, &[&create[..], &both].concat()),
        "set the password of alice (SCRAM-SHA-256)\nset the password of alice (SCRAM-SHA-512)\n"
    );
    prints(&broker, &["user", "create", "bob", "--password-file", file]);
    let listed = prints(&broker, &["users", "ls"]);
    assert_eq!(
        cells(&listed),
        [
            ["USER", "MECHANISM", "ITERATIONS"],
            ["alice", "SCRAM-SHA-256", "8192"],
            ["alice", "SCRAM-SHA-512", "8192"],
            ["bob", "SCRAM-SHA-512", "4096"],
        ]
    );
    assert_eq!(
        json(&broker, &["user", "list", "bob"]),
        json!([{"user": "bob", "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}]}])
    );
    let missing = fails(&broker, &["user", "list", "carol"]);
    assert!(missing.contains("user carol: RESOURCE_NOT_FOUND (91)"), "{missing}");
    assert_eq!(
        prints(&broker, &["user", "delete", "alice", "-m", "sha-256"]),
        "deleted the password of alice (SCRAM-SHA-256)\n"
    );
    let deleted = prints(&broker, &["user", "delete", "alice", "bob"]);
    assert_eq!(
        deleted,
        "deleted the password of alice (SCRAM-SHA-512)\ndeleted the password of bob (SCRAM-SHA-512)\n"
    );
    let missing = fails(&broker, &["user", "delete", "bob"]);
    assert!(missing.contains("user bob has no such SCRAM password"), "{missing}");
    // The password is nowhere in clear text.
    for entry in fs::read_dir(dir.path().join("data")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            assert!(
                !String::from_utf8_lossy(&bytes).contains("hunter2"),
                "{}",
                path.display()
            );
        }
    }
}
