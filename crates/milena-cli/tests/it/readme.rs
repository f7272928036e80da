//! The commands of README.md, run in the order of the page.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::process::Process;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of all shell blocks.
fn commands() -> Vec<String> {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let mut is_shell = false;
    let mut commands = vec![];
    for line in text.lines() {
        match line {
            "```sh" => is_shell = true,
            "```" => is_shell = false,
            line if is_shell => commands.push(line.to_owned()),
            _ => {}
        }
    }
    commands
}

/// Runs a line as a shell with `milena` in its PATH does.
fn shell(line: &str, broker: &Process) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_milena"));
    let path = std::env::join_paths(
        [binary.parent().unwrap().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path.unwrap());
    // The broker of the test listens on its own port.
    command.env("MILENA_BOOTSTRAP", &broker.address).env_remove("RUST_LOG");
    command.output().unwrap()
}

#[test]
fn the_commands_work_in_the_order_printed() {
    let commands = commands();
    let first: Vec<&str> = commands
        .iter()
        .take(5)
        .map(|line| line.split('#').next().unwrap().trim())
        .collect();
    assert_eq!(first[0], "cargo install --path crates/milena-cli");
    assert!(root().join("crates/milena-cli/Cargo.toml").exists());
    assert_eq!(first[1], "milena up");
    let home = tempfile::tempdir().unwrap();
    let broker = Process::up(home.path());
    for line in &commands[2..] {
        let output = shell(line, &broker);
        assert!(output.status.success(), "{line}: {output:?}");
        if line.starts_with("milena consume letters -e ") && !line.contains("-f") {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "Dear Milena,\n", "{line}");
        }
    }
    // Guards against blocks that the parser missed.
    assert!(
        commands.iter().any(|line| line.starts_with("milena txn list")),
        "{commands:?}"
    );
    assert!(
        first[2].contains("| milena produce") && first[3].starts_with("milena consume"),
        "{first:?}"
    );
}
