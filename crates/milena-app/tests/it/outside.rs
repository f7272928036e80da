//! Handlers in other languages.

use milena_app::{AppFile, failure, outside};
use milena_test::TestBroker;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::rig::{GROUP, committed, read, text};

#[tokio::test]
async fn a_program_gets_lines_of_json_and_its_replies_count() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.create_topic("bills", 1);
    // Replies to each line according to its content.
    let script = r#"while read -r line; do
        id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\),"topic".*/\1/')
        case "$line" in
            *'"value":"bad"'*) echo "{\"id\":$id,\"error\":\"not this one\",\"intent\":\"poison\"}" ;;
            *) echo "{\"id\":$id,\"emit\":[{\"topic\":\"bills\",\"value\":\"a bill\"}]}" ;;
        esac
    done"#;
    let file = format!(
        "group = \"{GROUP}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[[handlers]]\ntopic = \"orders\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n",
        broker.bootstrap_servers()
    );
    broker.produce("orders", 0, ["good", "bad", "good"]);
    let app = outside::app(&AppFile::parse(&file).unwrap()).unwrap();
    let running = app.start().await.unwrap();
    committed(&broker, GROUP, "orders", 0, 3).await;
    assert_eq!(text(read(&broker, "bills", 1, 2).await[1].value()), "a bill");
    let dead = read(&broker, "orders.dlq", 1, 1).await;
    assert_eq!(failure::read(dead[0].headers()).unwrap().failure.reason, "not this one");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_service_gets_a_request_for_each_record() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = String::new();
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                    request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
                    if !request.ends_with('}') {
                        continue;
                    }
                    assert!(request.starts_with("POST /orders HTTP/1.1\r\n"), "{request}");
                    let answer: &[u8] = if request.contains("\"value\":\"bad\"") {
                        b"HTTP/1.1 422 Unprocessable\r\nContent-Length: 7\r\n\r\nno good"
                    } else {
                        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
                    };
                    stream.write_all(answer).await.unwrap();
                    request.clear();
                }
            });
        }
    });
    let file = format!(
        "group = \"{GROUP}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[[handlers]]\ntopic = \"orders\"\nhttp = \"http://{address}/orders\"\n",
        broker.bootstrap_servers()
    );
    broker.produce("orders", 0, ["good", "bad", "good", "good"]);
    let app = outside::app(&AppFile::parse(&file).unwrap()).unwrap();
    let running = app.start().await.unwrap();
    committed(&broker, GROUP, "orders", 0, 4).await;
    let dead = read(&broker, "orders.dlq", 1, 1).await;
    let reason = failure::read(dead[0].headers()).unwrap().failure.reason;
    assert!(reason.ends_with("responded with 422: no good"), "{reason}");
    running.stop().await.unwrap();
}
