//! The decision about a request that alters SCRAM users.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::sasl::{ITERATIONS_MIN, SaltedPassword, ScramCredential, ScramMechanism};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterUserScramCredentialsRequest,
        alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
    },
};

use super::{StoredCredential, UserCredentials};
use crate::node::Refusal;

/// Kafka's limit. A log-in with more would cost clients too much.
const ITERATIONS_MAX: i32 = 16_384;
/// The longest user name and salt.
const LENGTH_MAX: usize = 1_024;

/// A change to one credential; without a value it is removed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScramChange {
    pub(crate) user: String,
    pub(crate) mechanism: ScramMechanism,
    pub(crate) credential: Option<StoredCredential>,
}

/// Decides about each user of the request, in its order. A user who is named twice is refused altogether.
pub(crate) fn plan(
    request: &AlterUserScramCredentialsRequest,
    users: &UserCredentials,
    users_max: usize,
) -> Vec<(ByteString, Result<ScramChange, Refusal>)> {
    let mut order: Vec<ByteString> = vec![];
    let mut outcomes: BTreeMap<ByteString, Result<ScramChange, Refusal>> = BTreeMap::new();
    let mut decide = |name: &ByteString, outcome: &mut dyn FnMut() -> Result<ScramChange, Refusal>| {
        match outcomes.get_mut(name) {
            None => {
                order.push(name.clone());
                outcomes.insert(name.clone(), outcome());
            }
            // The first error of a user stands, as in Kafka.
            Some(Err(_)) => {}
            Some(planned) => {
                let text = "A user credential cannot be altered twice in the same request";
                *planned = Err(Refusal::new(ErrorCode::DuplicateResource, text));
            }
        }
    };
    for deletion in &request.deletions {
        decide(&deletion.name, &mut || check_deletion(deletion, users));
    }
    for upsertion in &request.upsertions {
        decide(&upsertion.name, &mut || check_upsertion(upsertion));
    }
    let mut count = users.len();
    for name in &order {
        let Some(outcome) = outcomes.get_mut(name) else {
            continue;
        };
        let is_new = matches!(outcome, Ok(change) if change.credential.is_some()) && !users.contains_key(&**name);
        if is_new && count >= users_max {
            let text = format!("there are {count} SCRAM users, and milena.max.scram.users allows no more");
            *outcome = Err(Refusal::new(ErrorCode::PolicyViolation, text));
        } else if is_new {
            count += 1;
        }
    }
    let planned = order.into_iter().filter_map(|name| outcomes.remove_entry(&name));
    planned.collect()
}

fn check_deletion(deletion: &ScramCredentialDeletion, users: &UserCredentials) -> Result<ScramChange, Refusal> {
    let mechanism = check_name_and_mechanism(&deletion.name, deletion.mechanism)?;
    let credentials = users.get(&*deletion.name);
    if !credentials.is_some_and(|credentials| credentials.contains_key(mechanism.name())) {
        let text = "Attempt to delete a user credential that does not exist";
        return Err(Refusal::new(ErrorCode::ResourceNotFound, text));
    }
    Ok(ScramChange {
        user: deletion.name.to_string(),
        mechanism,
        credential: None,
    })
}

fn check_upsertion(upsertion: &ScramCredentialUpsertion) -> Result<ScramChange, Refusal> {
    let unacceptable = |text: &str| Refusal::new(ErrorCode::UnacceptableCredential, text);
    let mechanism = check_name_and_mechanism(&upsertion.name, upsertion.mechanism)?;
    let iterations = u32::try_from(upsertion.iterations)
        .ok()
        .filter(|iterations| *iterations >= ITERATIONS_MIN)
        .ok_or_else(|| unacceptable("Too few iterations"))?;
    if upsertion.iterations > ITERATIONS_MAX {
        return Err(unacceptable("Too many iterations"));
    }
    if upsertion.name.len() > LENGTH_MAX {
        return Err(unacceptable("Username is too long"));
    }
    if upsertion.salt.is_empty() || upsertion.salt.len() > LENGTH_MAX {
        return Err(unacceptable("Salt is empty or too long"));
    }
    let password = SaltedPassword::from_bytes(mechanism, &upsertion.salted_password)
        .ok_or_else(|| unacceptable("Salted password does not have the length of the mechanism's hash"))?;
    let credential = ScramCredential::from_salted_password(&password, upsertion.salt.clone(), iterations);
    Ok(ScramChange {
        user: upsertion.name.to_string(),
        mechanism,
        credential: Some(StoredCredential::new(&credential)),
    })
}

fn check_name_and_mechanism(name: &str, mechanism: i8) -> Result<ScramMechanism, Refusal> {
    if name.is_empty() {
        let text = "Username must not be empty";
        return Err(Refusal::new(ErrorCode::UnacceptableCredential, text));
    }
    ScramMechanism::from_code(mechanism)
        .ok_or_else(|| Refusal::new(ErrorCode::UnsupportedSaslMechanism, "Unknown SCRAM mechanism"))
}
