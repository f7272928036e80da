//! Secrets, by the name of their key: for texts of which no definition is known yet.

/// Whether a key may have a secret as its value. Errs on the side of secrecy.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SECRETS.iter().any(|word| key.contains(word))
}

/// A value as messages may show it.
pub(crate) fn shown(value: &str, is_secret: bool) -> String {
    if is_secret { "(hidden)" } else { value }.to_owned()
}

const SECRETS: &[&str] = &[
    "certificate",
    "credential",
    "jaas",
    "keystore.key",
    "passphrase",
    "password",
    "pem",
    "secret",
    "token",
    "user.info",
];
