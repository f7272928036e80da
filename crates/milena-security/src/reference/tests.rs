//! Providers with real files and variables.

use std::fs;

use proptest::prelude::*;

use super::*;

const PACKAGE: &str = "org.apache.kafka.common.config.provider";

fn resolved(text: &str) -> Result<String, String> {
    let resolved = resolve(text).map_err(|error| error.to_string())?;
    Ok(resolved.expose().to_owned())
}

#[test]
fn files_directories_and_variables_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets.properties");
    fs::write(&path, "db.password = hunter\\u0032\nother: x\n").unwrap();
    fs::write(directory.path().join("token"), "abc\n").unwrap();
    let (file, folder) = (path.display(), directory.path().display());
    assert_eq!(
        resolved(&format!("a ${{file:{file}:db.password}} b ${{file:{file}:other}}")),
        Ok("a hunter2 b x".to_owned())
    );
    assert_eq!(resolved(&format!("${{dir:{folder}:token}}")), Ok("abc\n".to_owned()));
    // Cargo sets it for every test.
    assert_eq!(resolved("${env:CARGO_PKG_NAME}"), Ok("milena-security".to_owned()));
}

#[test]
fn text_without_references_stays() {
    for text in ["", "plain", "${", "${}", "${nothing}", "$1 {a:b}", "a}b${c", "${a}${b}"] {
        assert_eq!(resolved(text), Ok(text.to_owned()));
        assert!(!has_reference(text));
    }
    assert!(has_reference("x${env:HOME}"));
}

#[test]
fn anything_missing_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets.properties");
    fs::write(&path, "a=hunter2").unwrap();
    let file = path.display();
    for (text, part) in [
        (format!("${{file:{file}:b}}"), "has no key `b`"),
        (format!("${{file:{file}x:a}}"), "cannot be read"),
        ("${file:a}".to_owned(), "write ${file:path:key}"),
        ("${dir:/tmp:../etc/passwd}".to_owned(), "is not the name of a file"),
        ("${dir:/tmp:..}".to_owned(), "is not the name of a file"),
        ("${dir:/tmp:no-such-file}".to_owned(), "cannot be read"),
        ("${env:MILENA_NO_SUCH_VARIABLE}".to_owned(), "is not set"),
        ("${env:a:b}".to_owned(), "without a path"),
        (
            "${vault:secret/db:password}".to_owned(),
            "no provider `vault`, only dir, env, file",
        ),
    ] {
        let error = resolved(&text).unwrap_err();
        assert!(error.contains(part) && !error.contains("hunter2"), "{text}: {error}");
    }
}

#[test]
fn declared_providers_have_kafkas_names_and_parameters() {
    let directory = tempfile::tempdir().unwrap();
    let allowed = directory.path().join("allowed");
    fs::create_dir(&allowed).unwrap();
    fs::write(allowed.join("s.properties"), "a=1").unwrap();
    fs::write(directory.path().join("s.properties"), "a=2").unwrap();
    let classes = [
        format!("{PACKAGE}.FileConfigProvider"),
        format!("{PACKAGE}.EnvVarConfigProvider"),
    ];
    let paths = allowed.display().to_string();
    let resolver = Resolver::from_config([
        ("config.providers", "secrets, vars"),
        ("config.providers.secrets.class", &classes[0]),
        ("config.providers.secrets.param.allowed.paths", &paths),
        ("config.providers.vars.class", &classes[1]),
        ("config.providers.vars.param.allowlist.pattern", "CARGO_PKG_.*"),
        ("bootstrap.servers", "x"),
    ])
    .unwrap();
    let resolve = |text: String| {
        let resolved = resolver.resolve(&text).map_err(|error| error.to_string())?;
        Ok::<_, String>(resolved.expose().to_owned())
    };
    assert_eq!(
        resolve(format!("${{secrets:{paths}/s.properties:a}}")),
        Ok("1".to_owned())
    );
    let outside = resolve(format!("${{secrets:{paths}/../s.properties:a}}")).unwrap_err();
    assert!(outside.contains("allowed.paths does not allow"), "{outside}");
    assert_eq!(
        resolve("${vars:CARGO_PKG_NAME}".to_owned()),
        Ok("milena-security".to_owned())
    );
    let outside = resolve("${vars:HOME}".to_owned()).unwrap_err();
    assert!(outside.contains("allowlist.pattern does not allow `HOME`"), "{outside}");
}

#[test]
fn wrong_declarations_are_errors() {
    let file = format!("{PACKAGE}.FileConfigProvider");
    for (settings, part) in [
        (vec![("config.providers", "a")], "config.providers.a.class: is missing"),
        (
            vec![
                ("config.providers", "a"),
                ("config.providers.a.class", "com.acme.Vault"),
            ],
            "com.acme.Vault is not supported",
        ),
        (
            vec![
                ("config.providers", "a"),
                ("config.providers.a.class", file.as_str()),
                ("config.providers.a.param.color", "red"),
            ],
            "no parameter `color`",
        ),
        (
            vec![
                ("config.providers", "a"),
                ("config.providers.a.class", file.as_str()),
                ("config.providers.a.param.allowed.paths", "relative"),
            ],
            "not an absolute path",
        ),
    ] {
        let error = Resolver::from_config(settings).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn paths_end_at_the_first_colon_except_behind_a_drive() {
    assert_eq!(split_path("/p/s:a:b"), (Some("/p/s"), "a:b"));
    assert_eq!(split_path("NAME"), (None, "NAME"));
    assert_eq!(split_path("C:\\s.properties:a"), (Some("C:\\s.properties"), "a"));
    assert_eq!(split_path(":a"), (Some(""), "a"));
}

proptest! {
    #[test]
    fn no_text_panics(text in r"([${}:]|env|file|[a-zé/]{0,3}){0,12}") {
        let _ = resolve(&text);
        let _ = has_reference(&text);
    }
}
