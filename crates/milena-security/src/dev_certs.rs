//! Certificates for development and tests: a CA, servers and clients, as PEM and PKCS#12.
//!
//! The CA's key is a plain file, and nothing is revoked: for laptops and test clusters, not for production.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use p12_keystore::{Certificate, KeyStore, KeyStoreEntry, PrivateKey, PrivateKeyChain};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber, date_time_ymd,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use crate::Secret;

/// Clocks of two machines may differ by this much.
const BACKDATED: Duration = Duration::from_secs(3600);
const ORGANIZATION: &str = "Milena development";

/// A certificate authority for development.
pub struct DevCa {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A private key with its certificate chain.
pub struct DevIdentity {
    name: String,
    key: KeyPair,
    chain: Vec<CertificateDer<'static>>,
    pem: String,
}

impl DevCa {
    /// Makes a new authority that is valid for a number of days.
    pub fn new(days: u32) -> Result<Self, DevCertError> {
        let mut params = params(ORGANIZATION, days)?;
        // Names of two authorities must differ, or a trust store with both finds the wrong one.
        let common_name = format!("Milena development CA {}", random(4)?);
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            issuer: Issuer::new(params, key),
        })
    }

    /// An authority that was made before, from its certificate and key in PEM.
    pub fn load(certificate_pem: &str, key_pem: &Secret) -> Result<Self, DevCertError> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| DevCertError(format!("the certificate of the CA cannot be read: {error}")))?;
        let key = KeyPair::from_pem(key_pem.expose())?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key)?;
        crate::store::read_pem_pair(certificate_pem.as_bytes(), key_pem.expose().as_bytes(), None)
            .map_err(|_| DevCertError("the key of the CA does not belong to its certificate".to_owned()))?;
        Ok(Self {
            issuer,
            certificate,
            pem: certificate_pem.to_owned(),
        })
    }

    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    pub fn key_pem(&self) -> Secret {
        Secret::from(self.issuer.key().serialize_pem())
    }

    /// A trust store with the certificate of this authority, as Java wants it.
    pub fn pkcs12(&self, password: &Secret) -> Result<Vec<u8>, DevCertError> {
        let mut store = KeyStore::new();
        let certificate = Certificate::from_der(&self.certificate)?;
        store.add_entry("ca", KeyStoreEntry::Certificate(certificate));
        Ok(store.writer(password.expose()).write()?)
    }

    /// Makes a certificate for a server with these names and addresses. The first is its common name.
    pub fn server(&self, hosts: &[String], days: u32) -> Result<DevIdentity, DevCertError> {
        let name = hosts.first().map_or("localhost", String::as_str);
        let mut names = Vec::new();
        for host in hosts {
            names.push(match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(
                    host.as_str()
                        .try_into()
                        .map_err(|_| DevCertError(format!("`{host}` is neither a DNS name nor an IP address")))?,
                ),
            });
        }
        let mut params = self.leaf(name, days)?;
        params.subject_alt_names = names;
        // A broker is a client of other brokers.
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, &params)
    }

    /// Makes a certificate for a client. Its subject is only the common name, so that the principal is `User:CN=<name>`.
    pub fn client(&self, name: &str, days: u32) -> Result<DevIdentity, DevCertError> {
        if name.trim().is_empty() {
            return Err(DevCertError("a client needs a name".to_owned()));
        }
        let mut params = params("", days)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, &params)
    }

    fn leaf(&self, name: &str, days: u32) -> Result<CertificateParams, DevCertError> {
        let mut params = params(ORGANIZATION, days)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Ok(params)
    }

    fn sign(&self, name: &str, params: &CertificateParams) -> Result<DevIdentity, DevCertError> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(DevIdentity {
            name: name.to_owned(),
            pem: certificate.pem(),
            chain: vec![certificate.der().clone(), self.certificate.clone()],
            key,
        })
    }
}

impl DevIdentity {
    /// The certificate alone.
    pub fn certificate_pem(&self) -> &str {
        &self.pem
    }

    pub fn key_pem(&self) -> Secret {
        Secret::from(self.key.serialize_pem())
    }

    /// Key and certificate in one text, as `ssl.keystore.location` takes it with the type PEM.
    pub fn pem(&self) -> Secret {
        Secret::from(format!("{}{}", self.key.serialize_pem(), self.pem))
    }

    /// A key store for Java.
    pub fn pkcs12(&self, password: &Secret) -> Result<Vec<u8>, DevCertError> {
        let chain = self.chain.iter().map(|certificate| Certificate::from_der(certificate));
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKey::from_der(self.key.serialized_der())?;
        let mut store = KeyStore::new();
        // Java compares aliases in lower case.
        let alias = self.name.to_lowercase();
        store.add_entry(
            &alias,
            KeyStoreEntry::PrivateKeyChain(PrivateKeyChain::new(alias.as_str(), key, chain)),
        );
        Ok(store.writer(password.expose()).write()?)
    }
}

/// A random password for key stores.
pub fn random_password() -> Result<Secret, DevCertError> {
    Ok(Secret::from(random(18)?))
}

fn random(bytes: usize) -> Result<String, DevCertError> {
    let mut random = vec![0; bytes];
    SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| DevCertError("the system has no random numbers".to_owned()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(random))
}

/// Parameters that all certificates share: validity, organization, serial number.
fn params(organization: &str, days: u32) -> Result<CertificateParams, DevCertError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + now.saturating_sub(BACKDATED);
    // The last year that a certificate can have is 9999.
    let days = days.min(365 * 1000);
    params.not_after = epoch + now + Duration::from_secs(u64::from(days) * 86_400);
    params.distinguished_name = rcgen::DistinguishedName::new();
    if !organization.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    let mut serial = vec![0; 16];
    SystemRandom::new()
        .fill(&mut serial)
        .map_err(|_| DevCertError("the system has no random numbers".to_owned()))?;
    // A serial number is positive.
    if let Some(first) = serial.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// A certificate that cannot be made.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct DevCertError(String);

impl From<rcgen::Error> for DevCertError {
    fn from(error: rcgen::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<p12_keystore::error::Error> for DevCertError {
    fn from(error: p12_keystore::error::Error) -> Self {
        Self(error.to_string())
    }
}
