//! Bad input: every error names the key, its origin and the remedy.

use crate::{Alias, Allowed, ConfigErrors, ConfigMap, ConfigValue, Definition, Origin, Resolver, Schema, Table, Unit};

const KEYS: &[Definition] = crate::definitions! {
    "acks" String = "all", allowed(Allowed::OneOf(&["all", "0", "1"]));
    "buffer.bytes" Long = "1024", at_least(16), alias(&[Alias::kilobytes("buffer.kbytes")]);
    "codec" String = "none", allowed(Allowed::OneOfInAnyCase(&["NONE", "GZIP"]));
    "linger.ms" Int = "5", allowed(Allowed::Between(0, 1000)), alias(&[Alias::same("linger")]);
    "ratio" Double = "0.5", allowed(Allowed::Between(0, 1));
    "reset" String = "latest", value_aliases(&[("largest", "latest")]);
    "ssl.key.password" Password;
    "threads" Int = "8", default_only("the runtime decides");
    "topics" List = "", allowed(Allowed::Each(&["a", "b"]));
};

static OTHER: Schema = Schema::new(
    "the other",
    &[Table::new(
        crate::definitions! { "group.id" String, about("A group."); },
    )],
);

static SCHEMA: Schema = Schema {
    page: Some("docs/test.md"),
    prefixes: &["kafka."],
    old_names: &[("delay", "linger.ms")],
    others: &[&OTHER],
    unsupported: &[("there is no JMX", &["jmx."])],
    ..Schema::new("the test", &[Table::new(KEYS)])
};

fn resolve(map: &ConfigMap) -> Result<Resolver, ConfigErrors> {
    Resolver::new(&SCHEMA, map).finish()?;
    let mut resolver = Resolver::new(&SCHEMA, map);
    resolver.add_defaults();
    Ok(resolver)
}

/// The errors of a file, one in each line.
fn errors(text: &str) -> Vec<String> {
    let result = ConfigMap::parse_properties(text, "f").and_then(|map| resolve(&map).map(drop));
    let errors = result.map_err(|errors| errors.to_string()).err().unwrap_or_default();
    errors.lines().map(str::to_owned).collect()
}

#[test]
fn unknown_keys_are_explained() {
    for (text, expected) in [
        (
            "lingr.ms=1",
            "lingr.ms (f:1) is not a key of the test; did you mean linger.ms?",
        ),
        (
            "\n\nLINGER_MS=1",
            "LINGER_MS (f:3) is not a key of the test; did you mean linger.ms?",
        ),
        (
            "kafka.acks=1",
            "kafka.acks (f:1) is not a key of the test; did you mean acks?",
        ),
        (
            "delay=1",
            "delay (f:1) is not a key of the test; did you mean linger.ms?",
        ),
        (
            "colour=red",
            "colour (f:1) is not a key of the test; docs/test.md lists all keys",
        ),
        (
            "group.id=g",
            "group.id (f:1) is a key of the other, not of the test; move it to the configuration of the other",
        ),
        ("jmx.port=1", "jmx.port (f:1) is not supported: there is no JMX"),
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
}

#[test]
fn wrong_types_and_ranges_are_told_with_the_expected_value() {
    for (text, expected) in [
        (
            "linger.ms=soon",
            "linger.ms (f:1) cannot be \"soon\"; it must be a 32-bit integer",
        ),
        (
            "linger.ms=3000000000",
            "linger.ms (f:1) cannot be \"3000000000\"; it must be a 32-bit integer",
        ),
        (
            "linger.ms=1001",
            "linger.ms (f:1) cannot be \"1001\"; it must be 0 to 1000",
        ),
        (
            "buffer.bytes=15",
            "buffer.bytes (f:1) cannot be \"15\"; it must be at least 16",
        ),
        (
            "buffer.kbytes=x",
            "buffer.kbytes (f:1) cannot be \"x\"; it must be a number of kilobytes",
        ),
        (
            "buffer.kbytes=9223372036854775807",
            "buffer.kbytes (f:1) cannot be \"9223372036854775807\"; it must be a number of kilobytes",
        ),
        (
            "buffer.kbytes=-1",
            "buffer.kbytes (f:1) cannot be \"-1\"; it must be at least 16, counted in bytes",
        ),
        ("ratio=1.5", "ratio (f:1) cannot be \"1.5\"; it must be 0 to 1"),
        ("ratio=NaN", "ratio (f:1) cannot be \"NaN\"; it must be a number"),
        ("acks=ALL", "acks (f:1) cannot be \"ALL\"; it must be one of all, 0, 1"),
        (
            "codec=lzma",
            "codec (f:1) cannot be \"lzma\"; it must be one of none, gzip",
        ),
        (
            "topics=a,c",
            "topics (f:1) cannot be \"a,c\"; it must be a list of a, b",
        ),
        (
            "topics=a,,b",
            "topics (f:1) cannot be \"a,,b\"; it must be a comma-separated list without empty elements",
        ),
        ("threads=9", "threads (f:1) is not supported: the runtime decides"),
        ("threads=many", "threads (f:1) is not supported: the runtime decides"),
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
    for fine in ["threads=8", "codec=gzip", "ratio=1", "topics=b,a,b", "linger.ms= 7 "] {
        assert_eq!(errors(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn all_errors_are_reported_at_once_with_their_lines() {
    let text = "# a comment\nacks=2\nlinger.ms=\\\n  x\n\nlingr.ms=1\nratio=2";
    let expected = [
        "lingr.ms (f:6) is not a key of the test; did you mean linger.ms?",
        "acks (f:2) cannot be \"2\"; it must be one of all, 0, 1",
        "linger.ms (f:3) cannot be \"x\"; it must be a 32-bit integer",
        "ratio (f:7) cannot be \"2\"; it must be 0 to 1",
    ];
    assert_eq!(errors(text), expected);
}

#[test]
fn duplicate_keys_are_refused_in_one_source_and_layered_across_sources() {
    let twice = "acks=0\nacks=0\n\nacks=1";
    assert_eq!(
        errors(twice),
        ["acks=0 (f:2) conflicts with acks=1 (f:4): one source gives the key two values; remove one of them"]
    );
    assert_eq!(
        errors("linger.ms=1\nlinger=2"),
        ["linger.ms=1 (f:1) conflicts with linger=2 (f:2): both are names of the same key; remove one of them"]
    );
    let arguments = ConfigMap::parse_arguments(["acks=0", "acks=1", "x"], "-X").unwrap_err();
    assert_eq!(
        arguments.to_string(),
        "acks=0 (-X) conflicts with acks=1 (-X): one source gives the key two values; remove one of them\n\
         -X: \"x\" is not of the form key=value"
    );
    let mut map = ConfigMap::parse_file("linger = 1", "a.toml").unwrap();
    map.merge(ConfigMap::parse_file("linger.ms=2", "b.properties").unwrap());
    assert_eq!(resolve(&map).unwrap().read::<i32>("linger.ms"), 2);
    map.merge(ConfigMap::parse_arguments(["linger=3"], "-X").unwrap());
    assert_eq!(resolve(&map).unwrap().read::<i32>("linger.ms"), 3);
    assert_eq!(map.origin("linger"), Some(&Origin::Named("-X".into())));
}

#[test]
fn secrets_are_in_no_message() {
    let text = "ssl.key.password=hunter2\nssl.key.password=hunter3\nmy.token=hunter4\nmy.token=hunter5";
    let shown = errors(text).join("\n");
    assert!(shown.contains("(hidden)") && !shown.contains("hunter"), "{shown}");
    let map = ConfigMap::from([("db.password", "hunter2"), ("acks", "0")]);
    let debugged = format!(
        "{map:?} {:?}",
        SCHEMA.parse("ssl.key.password", "hunter2", &Origin::Code).is_ok()
    );
    assert!(!debugged.contains("hunter"), "{debugged}");
}

#[test]
fn requests_are_not_named_in_messages() {
    let error = SCHEMA.parse("linger.ms", "x", &Origin::Request).unwrap_err();
    assert_eq!(
        error.to_string(),
        "linger.ms cannot be \"x\"; it must be a 32-bit integer"
    );
}

#[test]
fn values_have_other_names_and_units() {
    let mut map = ConfigMap::new();
    map.set("reset", "largest").set("buffer.kbytes", 2);
    let mut resolver = resolve(&map).unwrap();
    assert_eq!(resolver.text("reset").as_deref(), Some("latest"));
    assert_eq!(resolver.read::<i64>("buffer.bytes"), 2048);
    resolver.compare("linger.ms", "buffer.bytes", "too small", |linger, buffer| {
        linger > buffer
    });
    let (notes, _) = Resolver::new(&SCHEMA, &map).finish().unwrap();
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "buffer.kbytes (code) is read as buffer.bytes",
            "reset (code): largest is read as latest"
        ]
    );
    assert_eq!(
        resolver.finish().map(drop).unwrap_err().to_string(),
        "linger.ms=5 (default) conflicts with buffer.bytes=2048 (code): too small"
    );
    for (unit, text, expected) in [
        (Unit::Hours, "2", Some("7200000")),
        (Unit::Minutes, "-1", Some("-60000")),
        (Unit::Minutes, "1.5", None),
        (Unit::ZeroIsForever, " 0 ", Some("2147483647")),
        (Unit::ZeroIsMinusOne, "0", Some("-1")),
        (Unit::Same, "x", Some("x")),
    ] {
        assert_eq!(unit.convert(text).as_deref(), expected, "{unit:?} {text}");
    }
}

#[test]
fn doubles_are_printed_as_java_prints_them() {
    for (value, text) in [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e-4, "1.0E-4"),
        (1.5e7, "1.5E7"),
        (-2e10, "-2.0E10"),
    ] {
        assert_eq!(ConfigValue::Double(value).to_string(), text);
    }
}

/// Work grows with the size of the input, not with its square: a quadratic parser would take minutes here.
#[test]
fn huge_inputs_are_read() {
    let lines: String = (0..50_000).map(|number| format!("key.{number} = {number}\n")).collect();
    assert_eq!(ConfigMap::parse_properties(&lines, "f").unwrap().iter().count(), 50_000);
    let map = ConfigMap::parse_toml(&lines, "f").unwrap();
    assert_eq!(map.origin("key.49999").unwrap().to_string(), "f:50000");
    let list: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    assert_eq!(crate::split_list(&list.join(",")).len(), 100_000);
    let long = "x".repeat(1 << 20);
    assert_eq!(errors(&format!("{long}=1")).len(), 1);
    assert_eq!(errors(&format!("linger.ms={long}")).len(), 1);
}

#[test]
fn the_reference_lists_every_key_once() {
    let page = crate::document(&SCHEMA, "Introduction.\n");
    for definition in KEYS {
        assert_eq!(
            page.matches(&format!("\n| `{}` |", definition.name)).count(),
            1 + usize::from(definition.name == "reset")
        );
    }
    for expected in [
        "# Configuration of the test\n\nIntroduction.\n",
        "| `linger.ms` | `5` | int, 0 to 1000 | low |",
        "| `threads` | `8` |  | the runtime decides |",
        "| `buffer.kbytes` | `buffer.bytes` | in units of 1024 bytes |",
        "| `reset` | `largest` | `latest` |",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
}
