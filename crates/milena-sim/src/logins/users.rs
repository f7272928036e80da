//! The users of the broker: two, with passwords that change.

use std::{cell::RefCell, collections::BTreeMap};

use bytes::Bytes;
use milena_machines::sasl::{
    BearerToken, ITERATIONS_MIN, PlainCredentials, SaltedPassword, ScramCredential, ScramMechanism, TokenRejection,
    VerifiedToken,
};

/// By mechanism, password and salt.
type SaltedPasswords = BTreeMap<(ScramMechanism, String, Vec<u8>), SaltedPassword>;

thread_local! {
    /// Salted passwords of all runs, because each costs thousands of hashes.
    static SALTED: RefCell<SaltedPasswords> = RefCell::default();
}

/// The number of the current password of each user.
#[derive(Debug, Default)]
pub(super) struct Users {
    versions: [u32; 2],
}

impl Users {
    pub(super) fn change_password(&mut self, user: u8) {
        if let Some(version) = self.versions.get_mut(usize::from(user)) {
            // Few different passwords, for the cache.
            *version = (*version + 1) % 4;
        }
    }

    pub(super) fn password(&self, user: u8) -> String {
        let version = self.versions.get(usize::from(user)).copied().unwrap_or(0);
        format!("password-{user}-{version}")
    }

    pub(super) fn accepts(&self, given: &PlainCredentials) -> bool {
        number(given.username()).is_some_and(|user| self.password(user) == given.password())
    }

    pub(super) fn credential(&self, mechanism: ScramMechanism, username: &str) -> Option<ScramCredential> {
        let password = self.password(number(username)?);
        // A new password has a new salt.
        let salt = Bytes::from(format!("salt of {password}"));
        let salted = salted(mechanism, &password, &salt, ITERATIONS_MIN);
        Some(ScramCredential::from_salted_password(&salted, salt, ITERATIONS_MIN))
    }

    /// A token is `<user>.<time of its end>`.
    pub(super) fn verify(token: &BearerToken, now: i64) -> Result<VerifiedToken, TokenRejection> {
        let invalid = || TokenRejection::Invalid {
            reason: "invalid".to_owned(),
        };
        let (name, end) = token.token().split_once('.').ok_or_else(invalid)?;
        let end: i64 = end.parse().map_err(|_| invalid())?;
        match (number(name), u64::try_from(end - now)) {
            (Some(_), Ok(lifetime_ms)) if lifetime_ms > 0 => Ok(VerifiedToken {
                principal: name.into(),
                lifetime_ms,
            }),
            _ => Err(invalid()),
        }
    }
}

pub(super) fn name(user: u8) -> &'static str {
    if user == 0 { "alice" } else { "bob" }
}

fn number(username: &str) -> Option<u8> {
    (0..2).find(|user| name(*user) == username)
}

pub(super) fn salted(mechanism: ScramMechanism, password: &str, salt: &[u8], iterations: u32) -> SaltedPassword {
    SALTED.with_borrow_mut(|cache| {
        let key = (mechanism, password.to_owned(), salt.to_vec());
        let derive = || SaltedPassword::derive(mechanism, password.as_bytes(), salt, iterations);
        cache.entry(key).or_insert_with(derive).clone()
    })
}
