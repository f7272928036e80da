//! Requests on the command line, and handlers of `milena run` that answer them.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

use crate::{
    application::{Application, head},
    process::Process,
};

fn ask(broker: &Process, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command.args(["produce", "-b", &broker.address, "quotes", "--request"]);
    let piped = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn broker(dir: &Path) -> Process {
    let broker = Process::start(&dir.join("data"), &[]);
    broker.client().create_topic("quotes", 2, &[]);
    broker
}

/// Returns the body of each request in an envelope of its own.
fn serve(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let body = format!("quote for {}", record["value"].as_str().unwrap());
    let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    (&mut &*stream).write_all(reply.as_bytes()).ok()
}

#[test]
fn programs_answer_requests() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let program = r#"
        while read -r line; do
            id=$(printf %s "$line" | sed 's/^{"id":\([0-9]*\),.*/\1/')
            case "$line" in
                *'"value":"ghost"'*) echo "{\"id\":$id,\"reply\":{\"error\":\"no such share\"}}" ;;
                *'"value":"poison"'*) echo "{\"id\":$id,\"error\":\"poisoned\",\"intent\":\"poison\"}" ;;
                *) echo "{\"id\":$id,\"reply\":{\"value\":\"quote $id\"}}" ;;
            esac
        done
    "#;
    std::fs::write(dir.path().join("quote.sh"), program).unwrap();
    let handler = "[[handlers]]\ntopic = \"quotes\"\ncommand = [\"sh\", \"quote.sh\"]\norder = \"partition\"\n\
                   replies = { topics = [\"replies\", \"answers\"] }\n";
    let application = Application::start(dir.path(), &(head(&broker) + handler), &[]);
    let output = ask(
        &broker,
        &["-k", "k", "--timeout", "60s"],
        "acme\nghost\npoison\nacme\n",
    );
    let (replies, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(!output.status.success(), "{errors}");
    assert_eq!(replies.lines().count(), 2, "{replies}");
    assert!(replies.lines().all(|reply| reply.starts_with("quote ")), "{replies}");
    for error in [
        "the service failed: no such share",
        "the service failed: poisoned",
        "2 requests got no reply",
    ] {
        assert!(errors.contains(error), "{errors}");
    }
    let elsewhere = ask(&broker, &["--reply-topic", "answers", "--timeout", "60s"], "acme\n");
    assert!(elsewhere.status.success(), "{elsewhere:?}");
    application.stop();
}

#[test]
fn the_body_of_a_service_is_the_reply() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || while serve(&stream).is_some() {});
        }
    });
    let handler = format!(
        "[[handlers]]\ntopic = \"quotes\"\nhttp = \"http://{address}/\"\nhttp_response = \"reply\"\nreplies = {{}}\n"
    );
    let application = Application::start(dir.path(), &(head(&broker) + &handler), &[]);
    let output = ask(&broker, &["--timeout", "60s"], "acme\nghost\n");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "quote for acme\nquote for ghost\n"
    );
    application.stop();
}

#[test]
fn a_request_without_a_service_fails_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker(dir.path());
    let output = ask(&broker, &["--timeout", "50ms"], "acme\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(
        errors.contains("no reply within 50 ms") && errors.contains("1 request got no reply"),
        "{errors}"
    );
}
