//! Help, completion scripts and manual pages.

use std::process::Command;

use crate::command::milena;

fn help(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    // Sets the width of the help without a terminal.
    let output = command
        .args(arguments)
        .arg("--help")
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names in the list of commands.
fn commands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_help_fits_a_terminal() {
    let top = help(&[]);
    assert!(top.lines().count() <= 24, "{top}");
    for hidden in ["protocol", "completion", "man"] {
        assert!(top.contains(hidden), "{top}");
    }
    assert!(top.lines().all(|line| line.chars().count() <= 80), "{top}");
    for command in ["up", "broker", "consume", "produce", "cert", "completion", "man"] {
        let text = help(&[command]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    for command in [
        "topic", "group", "cluster", "config", "txn", "acl", "user", "quota", "perf", "protocol", "outbox", "sql",
        "saga",
    ] {
        let names = commands(&help(&[command]));
        assert!(!names.is_empty(), "{command}");
        for name in names.iter().filter(|name| *name != "help") {
            let text = help(&[command, name]);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }
}

#[test]
fn options_of_the_connection_stand_under_a_heading() {
    let text = help(&["topic", "list"]);
    let heading = text.find("\nConnection:\n").unwrap();
    assert!(text.find("--bootstrap-server").unwrap() > heading, "{text}");
    assert!(text.find("--internal").unwrap() < heading, "{text}");
}

#[test]
fn every_shell_has_a_completion_script() {
    for (shell, part) in [
        ("bash", "complete -F _milena"),
        ("zsh", "#compdef milena"),
        ("fish", "complete -c milena"),
        ("elvish", "set edit:completion:arg-completer[milena]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let output = milena(&["completion", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains(part) && script.contains("delete-offsets"), "{shell}");
        assert!(script.contains("allow-principal"), "{shell}");
        assert!(
            script.contains("keep-published") && script.contains("protocol"),
            "{shell}"
        );
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let output = milena(&["man", dir.path().join("man1").to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    for page in [
        "milena.1",
        "milena-consume.1",
        "milena-group-reset.1",
        "milena-topic-create.1",
        "milena-acl-create.1",
        "milena-protocol-apis.1",
        "milena-outbox-relay.1",
        "milena-sql-init.1",
    ] {
        let text = std::fs::read_to_string(dir.path().join("man1").join(page)).unwrap();
        assert!(text.contains(".TH milena"), "{page}: {text}");
    }
}
