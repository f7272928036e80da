//! `milena run`.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::{
    client::batch,
    process::Process,
    run::{fails, milena},
};

#[test]
fn an_application_of_programs_runs_until_it_is_told_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.create_topic("answers", 1, &[]);
    client.produce("letters", 0, batch(&["Dear Franz", "Dear Max"]));
    let file = dir.path().join("app.toml");
    let script = r#"while read -r line; do
        id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\),"topic".*/\1/')
        echo "{\"id\":$id,\"emit\":[{\"topic\":\"answers\",\"value\":\"Dear Milena\"}]}"
    done"#;
    let text = format!(
        "group = \"readers\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n",
        broker.address
    );
    fs::write(&file, text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_milena"))
        .arg("run")
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "RUNNING\n");
    let answers = milena(&[
        "consume",
        "-b",
        &broker.address,
        "-t",
        "answers",
        "-n",
        "2",
        "-f",
        "%s\n",
    ]);
    assert_eq!(
        String::from_utf8_lossy(&answers.stdout),
        "Dear Milena\nDear Milena\n",
        "{answers:?}"
    );
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    assert!(child.wait().unwrap().success());
    let committed = milena(&["group", "describe", "-b", &broker.address, "readers", "-o", "json"]);
    let committed = String::from_utf8(committed.stdout).unwrap();
    assert!(
        committed.contains("\"lag\": 0") || committed.contains("\"lag\":0"),
        "{committed}"
    );
}

#[test]
fn a_file_with_slips_is_refused_with_all_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.toml");
    fs::write(
        &file,
        "gruop = \"readers\"\n[[handlers]]\ntopic = \"letters\"\nretry = { atempts = 3 }\n",
    )
    .unwrap();
    let told = fails(&["run", &file.to_string_lossy()]);
    assert!(told.contains("gruop is not known; did you mean group?"), "{told}");
    assert!(
        told.contains("handlers[0].retry.atempts is not known; did you mean attempts?"),
        "{told}"
    );
    fs::write(&file, "group = \"readers\"\n[[handlers]]\ntopic = \"letters\"\n").unwrap();
    let told = fails(&["run", &file.to_string_lossy()]);
    assert!(
        told.contains("app.toml:2: handlers[0]: set either command or http"),
        "{told}"
    );
}
