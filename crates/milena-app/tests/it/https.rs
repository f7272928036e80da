//! Handlers that are services behind TLS.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use milena_app::{
    AppFile, failure,
    outside::{self, HttpHandler, HttpHandlerError},
};
use milena_http::HttpError;
use milena_test::TestBroker;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::rig::{GROUP, committed, read};

/// A CA, and the file with its certificate.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        // CAs are distinguished by their names.
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let file = directory.join(format!("{name}.pem"));
        std::fs::write(&file, certificate.pem()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            file,
        }
    }

    /// A service with a certificate for this name that reports every record as done. Returns its port and the number of
    /// connections.
    async fn serve(&self, name: &str) -> (u16, Arc<AtomicUsize>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connected = Arc::new(AtomicUsize::new(0));
        let count = connected.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust the certificate closes the connection.
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let mut request = vec![];
                    let mut bytes = [0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
                        request.extend_from_slice(&bytes[..read]);
                        if request.ends_with(b"}") {
                            request.clear();
                            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                            stream.flush().await.unwrap();
                        }
                    }
                });
            }
        });
        (port, connected)
    }
}

/// An application whose service is at this address; one failure makes a dead letter.
fn file(broker: &TestBroker, address: &str, authority: &Path) -> AppFile {
    let text = format!(
        "group = \"{GROUP}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[[handlers]]\ntopic = \"orders\"\norder = \"partition\"\n\
         http = \"{address}\"\nhttp_ca = \"{}\"\npause_when_down = false\nretry = {{ attempts = 1 }}\n",
        broker.bootstrap_servers(),
        authority.display()
    );
    AppFile::parse(&text).unwrap()
}

/// Handles three records with the service. Returns the reason of the first dead letter.
async fn run(address: &str, authority: &Path) -> Option<String> {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a", "b", "c"]);
    let app = outside::app(&file(&broker, address, authority)).unwrap();
    let running = app.start().await.unwrap();
    committed(&broker, GROUP, "orders", 0, 3).await;
    let failed = running.counts()[0].failed;
    running.stop().await.unwrap();
    if failed == 0 {
        return None;
    }
    let dead = read(&broker, "orders.dlq", 1, 1).await;
    Some(failure::read(dead[0].headers()).unwrap().failure.reason)
}

#[tokio::test]
async fn a_service_behind_tls_is_reached_and_its_connection_kept() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let (port, connected) = ours.serve("localhost").await;
    assert_eq!(run(&format!("https://localhost:{port}/orders"), &ours.file).await, None);
    assert_eq!(connected.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_a_failure_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let theirs = Authority::new(directory.path(), "theirs");
    let (port, _) = theirs.serve("localhost").await;
    let address = format!("https://localhost:{port}/orders");
    let reason = run(&address, &ours.file).await.unwrap();
    assert!(
        reason.contains("UnknownIssuer") && reason.contains("http_ca"),
        "{reason}"
    );
    let (port, _) = ours.serve("elsewhere.example").await;
    let reason = run(&format!("https://localhost:{port}/orders"), &ours.file)
        .await
        .unwrap();
    assert!(reason.contains("elsewhere.example"), "{reason}");
}

#[tokio::test]
async fn a_service_without_tls_is_distinguished_from_one_that_cannot_be_reached() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let reason = run(&format!("https://localhost:{port}/"), &ours.file).await.unwrap();
    assert!(reason.contains("without TLS"), "{reason}");
}

#[test]
fn errors_of_ca_certificates_are_reported_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let plain = HttpHandler::with_authority("http://localhost/", Some(&ours.file));
    assert!(matches!(plain, Err(HttpHandlerError::NotTls { .. })));
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for file in [empty, directory.path().join("missing.pem")] {
        let bad = HttpHandler::with_authority("https://localhost/", Some(&file));
        assert!(matches!(bad, Err(HttpHandlerError::Authority { .. })), "{bad:?}");
    }
    assert!(HttpHandler::with_authority("https://[::1]:8443/x", Some(&ours.file)).is_ok());
    let odd = HttpHandler::with_authority("https://no name/", Some(&ours.file));
    assert!(matches!(odd, Err(HttpHandlerError::Http(HttpError::Url(_)))));
}
