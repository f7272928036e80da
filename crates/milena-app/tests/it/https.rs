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
    outside::{self, HttpHandler, HttpHandlerError, HttpTls},
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
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
    },
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
        self.serve_clients(name, Arc::new(NoClientAuth)).await
    }

    /// The same for a service that demands certificates of its clients, which this CA must have signed.
    async fn serve_known(&self, name: &str) -> (u16, Arc<AtomicUsize>) {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.file).unwrap()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        self.serve_clients(name, verifier.build().unwrap()).await
    }

    /// Files with a certificate of a client and its key.
    fn client(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (directory.join("client.pem"), directory.join("client.key"));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }

    async fn serve_clients(&self, name: &str, clients: Arc<dyn ClientCertVerifier>) -> (u16, Arc<AtomicUsize>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
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
fn file(broker: &TestBroker, address: &str, authority: &Path, more: &str) -> AppFile {
    let text = format!(
        "group = \"{GROUP}\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n[[handlers]]\ntopic = \"orders\"\norder = \"partition\"\n\
         http = \"{address}\"\nhttp_ca = \"{}\"\npause_when_down = false\nretry = {{ attempts = 1 }}\n{more}",
        broker.bootstrap_servers(),
        authority.display()
    );
    AppFile::parse(&text).unwrap()
}

/// Handles three records with the service. Returns the reason of the first dead letter.
async fn run(address: &str, authority: &Path) -> Option<String> {
    run_with(address, authority, "").await
}

async fn run_with(address: &str, authority: &Path, more: &str) -> Option<String> {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, ["a", "b", "c"]);
    let app = outside::app(&file(&broker, address, authority, more)).unwrap();
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
    assert!(reason.contains("http_ca"), "{reason}");
    let (port, _) = ours.serve("elsewhere.example").await;
    let reason = run(&format!("https://localhost:{port}/orders"), &ours.file)
        .await
        .unwrap();
    assert!(reason.contains("elsewhere.example"), "{reason}");
}

#[tokio::test]
async fn a_service_that_demands_a_certificate_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    let ours = Authority::new(directory.path(), "ours");
    let (port, _) = ours.serve_known("localhost").await;
    let address = format!("https://localhost:{port}/orders");
    let (certificate, key) = ours.client(directory.path());
    let more = format!(
        "http_certificate = \"{}\"\nhttp_key = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    assert_eq!(run_with(&address, &ours.file, &more).await, None);
    let reason = run(&address, &ours.file).await.unwrap();
    assert!(reason.to_lowercase().contains("certificate"), "{reason}");
    let without_key = format!("http_certificate = \"{}\"\n", certificate.display());
    let broker = TestBroker::start();
    let refused = outside::app(&file(&broker, &address, &ours.file, &without_key));
    assert!(refused.err().unwrap().to_string().contains("http_key"));
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
    let with = |address, file: &Path| {
        let mut tls = HttpTls::default();
        tls.ca = Some(file.to_owned());
        HttpHandler::with_tls(address, &tls)
    };
    let plain = with("http://localhost/", &ours.file);
    assert!(matches!(plain, Err(HttpHandlerError::NotTls { .. })));
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for file in [empty, directory.path().join("missing.pem")] {
        let bad = with("https://localhost/", &file);
        assert!(matches!(bad, Err(HttpHandlerError::Tls { .. })), "{bad:?}");
    }
    assert!(with("https://[::1]:8443/x", &ours.file).is_ok());
    let odd = with("https://no name/", &ours.file);
    assert!(matches!(odd, Err(HttpHandlerError::Http(HttpError::Url(_)))));
}
