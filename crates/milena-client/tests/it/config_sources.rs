//! Sources of settings, and their precedence.

use std::fs;

use milena_client::config::{ConfigMap, ConsumerConfig, Origin, read_file};

fn pairs(map: &ConfigMap) -> Vec<(&str, &str)> {
    map.iter().collect()
}

#[test]
fn toml_becomes_kafkas_names() {
    let text = r#"
        "bootstrap.servers" = ["a:1", "b:2"]
        max.poll.records = 1_000
        [group]
        id = "orders"
        remote.assignor = "uniform"
        [fetch.max]
        wait.ms = 0x64
        "bytes" = 7
        [enable.auto]
        commit = false
        [milena]
        profile = 'latency'
    "#;
    let map = ConfigMap::parse_toml(text, "app.toml").unwrap();
    assert_eq!(
        pairs(&map),
        [
            ("bootstrap.servers", "a:1,b:2"),
            ("enable.auto.commit", "false"),
            ("fetch.max.bytes", "7"),
            ("fetch.max.wait.ms", "100"),
            ("group.id", "orders"),
            ("group.remote.assignor", "uniform"),
            ("max.poll.records", "1000"),
            ("milena.profile", "latency"),
        ]
    );
    assert_eq!(map.origin("group.id").unwrap().to_string(), "app.toml:5");
    assert_eq!(map.origin("fetch.max.bytes").unwrap().to_string(), "app.toml:9");
}

#[test]
fn errors_in_a_file_have_their_line() {
    for (text, expected) in [
        ("a = 1\nb = ", "f:2: "),
        (
            "a.b = 1979-05-27",
            "f:1: a.b must be text, a number, true, false or a list of those, not a date; put it in quotes if it is text",
        ),
        (
            "\na = [[1]]",
            "f:2: a must be text, a number, true, false or a list of those, not a nested list",
        ),
        ("a = 99999999999999999999", "f:1: "),
        (
            "a.b = 1\n'a.b' = 2",
            "a.b=1 (f:1) conflicts with a.b=2 (f:2): one source gives the key two values",
        ),
    ] {
        let error = ConfigMap::parse_toml(text, "f").unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let text = "a=\\u12g4\nb=1\n\nb=2\nc=\\ud83e";
    let error = ConfigMap::parse_properties(text, "f").unwrap_err().to_string();
    assert_eq!(
        error.lines().collect::<Vec<_>>(),
        [
            "f:1: \\u needs four hexadecimal digits",
            "b=1 (f:2) conflicts with b=2 (f:4): one source gives the key two values; remove one of them",
            "f:5: \\u is one half of a surrogate pair without the other",
        ]
    );
}

#[test]
fn the_later_source_wins_and_is_named() {
    let mut map =
        ConfigMap::parse_properties("group.id=a\nmax.poll.records=1\nfetch.min.bytes=x", "base.properties").unwrap();
    map.merge(ConfigMap::parse_toml("group.id = 'b'\n\nmax.poll.recods = 2", "local.toml").unwrap());
    map.set("bootstrap.servers", "h:1");
    map.set_from("max.poll.interval.ms", "0", Origin::Named("-X".into()));
    assert_eq!(map.get("group.id"), Some("b"));
    let text = ConsumerConfig::resolve(&map).unwrap_err().to_string();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "max.poll.recods (local.toml:3) is not a key of the consumer; did you mean max.poll.records?",
            "fetch.min.bytes (base.properties:3) cannot be \"x\"; it must be a 32-bit integer",
            "max.poll.interval.ms (-X) cannot be \"0\"; it must be at least 1",
        ]
    );
    assert_eq!(map.remove("max.poll.recods").as_deref(), Some("2"));
    assert_eq!(map.get("max.poll.recods"), None);
}

/// Precedence applies to the key, under any of its names.
#[test]
fn the_later_name_of_a_key_wins() {
    let parse = |text: &str, name: &str| ConfigMap::parse_properties(text, name).unwrap();
    let wait = |map: &ConfigMap| ConsumerConfig::resolve(map).map(|config| config.fetch_max_wait_ms);
    let mut map = parse("bootstrap.servers=h:1\nfetch.max.wait.ms=1", "first");
    map.merge(parse("fetch.wait.max.ms=2", "second"));
    assert_eq!(wait(&map), Ok(2));
    map.merge(parse("fetch.max.wait.ms=3", "third"));
    assert_eq!(wait(&map), Ok(3));

    let same = parse(
        "bootstrap.servers=h:1\nfetch.max.wait.ms=4\nfetch.wait.max.ms=4",
        "both",
    );
    assert_eq!(wait(&same), Ok(4));
    let text = "bootstrap.servers=h:1\nfetch.max.wait.ms=4\nfetch.wait.max.ms=5";
    let error = wait(&parse(text, "both")).unwrap_err().to_string();
    assert_eq!(
        error,
        "fetch.max.wait.ms=4 (both:2) conflicts with fetch.wait.max.ms=5 (both:3): both are names of the same key; \
         remove one of them"
    );
}

#[test]
fn files_are_read_by_their_ending() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a.toml"), "group.id = 'from toml'").unwrap();
    fs::write(path("a.properties"), "group.id: from\\\n  \\ properties").unwrap();
    assert_eq!(read_file(path("a.toml")).unwrap().get("group.id"), Some("from toml"));
    assert_eq!(
        read_file(path("a.properties")).unwrap().get("group.id"),
        Some("from properties")
    );
    let error = read_file(path("missing")).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read ") && error.contains("missing"),
        "{error}"
    );
    fs::write(path("latin1.properties"), b"group.id=caf\xe9").unwrap();
    assert!(read_file(path("latin1.properties")).is_err());
}
