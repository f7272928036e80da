//! A certificate authority of the test, and clients with TLS.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use milena_security::tls::{
    ClientTls, Source, TlsOptions,
    rustls::{ClientConfig, ClientConnection, StreamOwned},
    server_name,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use crate::client::Client;

/// A CA with files of its certificates, all in one directory.
pub struct TestCa {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl TestCa {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test CA");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { dir, issuer }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The file with the certificate of the CA.
    pub fn ca_file(&self) -> PathBuf {
        self.path().join("ca.pem")
    }

    /// Writes a PEM file with the key and the chain of a certificate for localhost, and returns its path. An existing
    /// file is replaced.
    pub fn write(&self, file: &str, common_name: &str) -> PathBuf {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = self.path().join(file);
        let temporary = self.path().join("new.pem");
        fs::write(
            &temporary,
            format!("{}{}{}", key.serialize_pem(), certificate.pem(), self.issuer.pem()),
        )
        .unwrap();
        fs::rename(temporary, &path).unwrap();
        path
    }

    /// The configuration of clients that trust this CA. `identity` is a PEM file with a key and a certificate.
    pub fn client_config(&self, identity: Option<&Path>) -> Arc<ClientConfig> {
        let options = TlsOptions {
            truststore: Some(Source::file(self.ca_file())),
            keystore: identity.map(Source::file),
            ..TlsOptions::default()
        };
        ClientTls::new(&options).unwrap().config()
    }
}

pub type TlsSocket = StreamOwned<ClientConnection, TcpStream>;

/// Connects with TLS. The handshake takes place with the first read or write.
pub fn connect_tls(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsSocket {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket.set_nodelay(true).unwrap();
    let connection = ClientConnection::new(Arc::clone(config), server_name("localhost").unwrap()).unwrap();
    StreamOwned::new(connection, socket)
}

pub fn tls_client(address: SocketAddr, config: &Arc<ClientConfig>) -> Client {
    Client::over(connect_tls(address, config))
}
