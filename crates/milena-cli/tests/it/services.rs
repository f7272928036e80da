//! Handlers of `milena run` that are HTTP services: down, overloaded, wrong.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::application::{Application, broker_with, dead_letters, head, header, is_committed};

fn handler(address: &str, more: &str) -> String {
    format!("[[handlers]]\ntopic = \"letters\"\nhttp = \"http://{address}/\"\nretry = {{ attempts = 1 }}\n{more}\n")
}

/// Replies to the nth request with the nth status, and to all later ones with the last. Returns the request counter.
fn serve(listener: TcpListener, statuses: &'static [u16]) -> Arc<AtomicUsize> {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, count) = (stream.unwrap(), Arc::clone(&count));
            thread::spawn(move || while serve_one(&stream, &count, statuses).is_some() {});
        }
    });
    served
}

fn serve_one(stream: &TcpStream, count: &AtomicUsize, statuses: &[u16]) -> Option<()> {
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
    reader.read_exact(&mut vec![0; length]).ok()?;
    let turn = count.fetch_add(1, Ordering::SeqCst);
    let status = statuses.get(turn).or_else(|| statuses.last()).unwrap();
    let reply = format!("HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n");
    (&mut &*stream).write_all(reply.as_bytes()).ok()
}

#[test]
fn a_service_that_is_down_pauses_and_makes_no_dead_letters() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a", "b", "c"]);
    // A port that was free a moment ago, without a listener.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let file = head(&broker) + &handler(&address, "");
    let application = Application::start(dir.path(), &file, &[]);
    application.logs(&format!("http://{address}/ is down, waiting ("));
    serve(TcpListener::bind(&address).unwrap(), &[204]);
    is_committed(&broker, &application, 3);
    application.logs(&format!("http://{address}/ is up again"));
    assert_eq!(dead_letters(&broker).len(), 0, "{}", application.log());
    application.stop();
}

#[test]
fn a_service_that_is_overloaded_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a", "b", "c"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = serve(listener, &[503, 502, 504, 204]);
    let file = head(&broker) + &handler(&address, "concurrency = 1");
    let application = Application::start(dir.path(), &file, &[]);
    is_committed(&broker, &application, 3);
    assert_eq!(dead_letters(&broker).len(), 0, "{}", application.log());
    assert_eq!(served.load(Ordering::SeqCst), 6);
    application.stop();
}

#[test]
fn a_record_that_a_service_fails_with_becomes_a_dead_letter_with_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a", "b"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    serve(listener, &[500, 204]);
    let file = head(&broker) + &handler(&address, "concurrency = 1");
    let application = Application::start(dir.path(), &file, &[]);
    is_committed(&broker, &application, 2);
    let dead = dead_letters(&broker);
    assert_eq!(dead.len(), 1, "{}", application.log());
    assert_eq!(header(&dead[0], "dlq.failure.exception"), "http.500");
    application.stop();
}

#[test]
fn a_handler_can_fail_instead_of_waiting_for_its_service() {
    let dir = tempfile::tempdir().unwrap();
    let broker = broker_with(dir.path(), &["a"]);
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let file = head(&broker) + &handler(&address, "pause_when_down = false");
    let application = Application::start(dir.path(), &file, &[]);
    is_committed(&broker, &application, 1);
    let dead = dead_letters(&broker);
    assert_eq!(header(&dead[0], "dlq.failure.exception"), "http.unreachable");
    application.stop();
}
