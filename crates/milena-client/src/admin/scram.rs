//! SCRAM credentials of users.

use std::{collections::BTreeMap, fmt};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    codes::named_codes,
    error::{BrokerError, Failure, check},
    own,
    route::Route,
};
use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::sasl::{self, SaltedPassword};
use milena_wire::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
    alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
    describe_user_scram_credentials_request::UserName,
    describe_user_scram_credentials_response::CredentialInfo,
};

/// The default of Kafka's own tools.
const ITERATIONS: u32 = 4096;
const SALT_BYTES: usize = 32;

named_codes! {
    /// The SCRAM mechanism.
    pub enum ScramMechanism: i8 {
        Sha256 = 1, "SCRAM-SHA-256";
        Sha512 = 2, "SCRAM-SHA-512";
    }
}

/// A SCRAM credential, without secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScramCredential {
    pub mechanism: ScramMechanism,
    pub iterations: i32,
}

/// A change of a user's credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum ScramChange {
    /// Sets the password, in place of an existing one.
    Set {
        mechanism: ScramMechanism,
        password: String,
        /// At least 4096. More slow down both guessing and authentication.
        iterations: u32,
    },
    Delete(ScramMechanism),
}

impl ScramChange {
    /// A password with the number of iterations of Kafka's own tools.
    pub fn set(mechanism: ScramMechanism, password: impl Into<String>) -> Self {
        Self::Set {
            mechanism,
            password: password.into(),
            iterations: ITERATIONS,
        }
    }
}

/// Without the password.
impl fmt::Debug for ScramChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set {
                mechanism, iterations, ..
            } => write!(f, "Set({mechanism}, {iterations} iterations)"),
            Self::Delete(mechanism) => write!(f, "Delete({mechanism})"),
        }
    }
}

impl Admin {
    /// Returns the credentials of users.
    pub async fn describe_scram_users<N: Into<ByteString>>(
        &self,
        users: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, Vec<ScramCredential>> {
        let name = |name: &ByteString| UserName {
            name: name.clone(),
            ..Default::default()
        };
        let call = AdminCall::new(
            "user",
            |_| Route::Any,
            move |batch| DescribeUserScramCredentialsRequest {
                users: Some(batch.keys.iter().map(name).collect()),
                ..Default::default()
            },
            |_: &CallContext<ByteString>, response: DescribeUserScramCredentialsResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                Ok(credentials(&response))
            },
        );
        self.call(call, users.into_iter().map(Into::into)).await
    }

    /// Returns the credentials of all users.
    pub async fn describe_all_scram_users(&self) -> Result<Results<ByteString, Vec<ScramCredential>>, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            |_| DescribeUserScramCredentialsRequest {
                users: None,
                ..Default::default()
            },
            |context: &CallContext<&str>, response: DescribeUserScramCredentialsResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                context.all(&credentials(&response))
            },
        );
        let users = self.call_one(call, "the list of users").await?.into_iter();
        let users = users.map(|(user, result)| {
            let item = format!("user {user}");
            (user, result.map_err(|error| Failure::Refused(error).into_error(item)))
        });
        Ok(users.collect())
    }

    /// Sets or removes passwords: one change for each user, since Kafka 4 refuses more. The password is not sent, only
    /// its salted hash.
    pub async fn alter_scram_users<N: Into<ByteString>>(
        &self,
        changes: impl IntoIterator<Item = (N, ScramChange)>,
    ) -> Results<ByteString, ()> {
        let mut prepared: BTreeMap<ByteString, Vec<Prepared>> = BTreeMap::new();
        let mut refused = Results::new();
        for (user, change) in changes {
            let user = user.into();
            match prepare(&user, change) {
                Ok(change) => prepared.entry(user).or_default().push(change),
                Err(error) => drop(refused.insert(user, Err(error))),
            }
        }
        prepared.retain(|user, _| !refused.contains_key(user));
        let users: Vec<ByteString> = prepared.keys().cloned().collect();
        let call = AdminCall::new(
            "user",
            |_| Route::Controller,
            move |batch| {
                let mut request = AlterUserScramCredentialsRequest::default();
                for change in batch.keys.iter().filter_map(|user| prepared.get(user)).flatten() {
                    match change {
                        Prepared::Deletion(deletion) => request.deletions.push(deletion.clone()),
                        Prepared::Upsertion(upsertion) => request.upsertions.push(upsertion.clone()),
                    }
                }
                request
            },
            |_, response| {
                let results = response.results.iter().map(|result| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    (own(&result.user), outcome)
                });
                Ok(results.collect())
            },
        );
        refused.extend(self.call(call, users).await);
        refused
    }
}

enum Prepared {
    Deletion(ScramCredentialDeletion),
    Upsertion(ScramCredentialUpsertion),
}

fn prepare(user: &ByteString, change: ScramChange) -> Result<Prepared, AdminError> {
    let invalid = |problem: String| AdminError::invalid(format!("user {user}"), problem);
    match change {
        ScramChange::Delete(mechanism) => Ok(Prepared::Deletion(ScramCredentialDeletion {
            name: user.clone(),
            mechanism: mechanism.code(),
            ..Default::default()
        })),
        ScramChange::Set {
            mechanism,
            password,
            iterations,
        } => {
            if password.is_empty() {
                return Err(invalid("the password is empty; choose one".to_owned()));
            }
            let salt = salt().map_err(|error| invalid(format!("cannot generate a salt: {error}")))?;
            let salted = salted(mechanism, password.as_bytes(), &salt, iterations)
                .ok_or_else(|| invalid(format!("the mechanism {mechanism} is not supported")))?;
            Ok(Prepared::Upsertion(ScramCredentialUpsertion {
                name: user.clone(),
                mechanism: mechanism.code(),
                iterations: i32::try_from(iterations).unwrap_or(i32::MAX),
                salt: Bytes::copy_from_slice(&salt),
                salted_password: salted,
                ..Default::default()
            }))
        }
    }
}

fn salt() -> std::io::Result<[u8; SALT_BYTES]> {
    let mut salt = [0; SALT_BYTES];
    let mut filled = 0;
    while let Some(rest) = salt.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(salt)
}

/// `SaltedPassword` of RFC 5802.
fn salted(mechanism: ScramMechanism, password: &[u8], salt: &[u8], iterations: u32) -> Option<Bytes> {
    let mechanism = sasl::ScramMechanism::from_code(mechanism.code())?;
    let salted = SaltedPassword::derive(mechanism, password, salt, iterations);
    Some(Bytes::copy_from_slice(salted.as_bytes()))
}

fn credentials(
    response: &DescribeUserScramCredentialsResponse,
) -> Vec<(ByteString, Result<Vec<ScramCredential>, BrokerError>)> {
    let credential = |info: &CredentialInfo| ScramCredential {
        mechanism: info.mechanism.into(),
        iterations: info.iterations,
    };
    let users = response.results.iter().map(|user| {
        let outcome = check(user.error_code, user.error_message.as_deref());
        let mut credentials: Vec<ScramCredential> = user.credential_infos.iter().map(credential).collect();
        // Brokers return them in any order.
        credentials.sort_by_key(|credential| credential.mechanism);
        (own(&user.user), outcome.map(|()| credentials))
    });
    users.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn a_password_is_salted_as_the_standard_says() {
        let salt = [
            0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81,
        ];
        let salted = salted(ScramMechanism::Sha256, b"pencil", &salt, 4096).unwrap();
        let expected = "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d";
        let hex: String = salted.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn no_salt_is_like_another() {
        assert_ne!(salt().unwrap(), salt().unwrap());
    }

    #[test]
    fn nobody_sees_the_password() {
        let change = ScramChange::set(ScramMechanism::Sha512, "secret");
        assert_eq!(format!("{change:?}"), "Set(SCRAM-SHA-512, 4096 iterations)");
    }
}
