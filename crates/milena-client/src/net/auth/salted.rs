//! Derived passwords of SCRAM, which take milliseconds to compute.

use std::sync::Arc;

use bytes::Bytes;
use milena_machines::sasl::{SaltedPassword, ScramMechanism};
use milena_security::Secret;
use tokio::sync::Mutex;

/// Most derived passwords that are kept. Brokers of one cluster have the same salt, so that one is the rule.
const KEPT_MAX: usize = 8;

/// The derived passwords of one user, by salt and iterations.
#[derive(Debug, Default)]
pub(super) struct SaltedPasswords {
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    salt: Bytes,
    iterations: u32,
    password: Arc<SaltedPassword>,
}

impl SaltedPasswords {
    /// Returns the derived password. It is computed once, on another thread, however many connections wait for it.
    ///
    /// `None` if the runtime is ending.
    pub(super) async fn derive(
        &self,
        mechanism: ScramMechanism,
        password: &Secret,
        salt: &Bytes,
        iterations: u32,
    ) -> Option<Arc<SaltedPassword>> {
        let mut kept = self.kept.lock().await;
        let known = kept
            .iter()
            .find(|kept| kept.salt == *salt && kept.iterations == iterations);
        if let Some(known) = known {
            return Some(Arc::clone(&known.password));
        }
        let (password, own_salt) = (password.clone(), salt.clone());
        let derived = tokio::task::spawn_blocking(move || {
            SaltedPassword::derive(mechanism, password.expose().as_bytes(), &own_salt, iterations)
        });
        let password = Arc::new(derived.await.ok()?);
        if kept.len() >= KEPT_MAX {
            kept.remove(0);
        }
        kept.push(Kept {
            salt: salt.clone(),
            iterations,
            password: Arc::clone(&password),
        });
        Some(password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_derived_once_for_each_salt_and_count() {
        let passwords = SaltedPasswords::default();
        let (password, salt) = (Secret::from("pencil"), Bytes::from_static(b"salt"));
        let derive = |iterations| passwords.derive(ScramMechanism::Sha256, &password, &salt, iterations);
        let (first, again) = tokio::join!(derive(4096), derive(4096));
        let (first, again) = (first.unwrap(), again.unwrap());
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!Arc::ptr_eq(&first, &derive(4097).await.unwrap()));
        for iterations in 5000..5020 {
            derive(iterations).await.unwrap();
        }
        assert_eq!(passwords.kept.lock().await.len(), KEPT_MAX);
    }
}
