//! Credentials of clients: SCRAM users in the metadata log, and the verification of tokens.

mod scram_plan;
mod scram_users;
mod tokens;

pub(crate) use scram_plan::{ScramChange, plan};
pub(crate) use scram_users::{ScramUsers, StoredCredential, UserCredentials};
pub(crate) use tokens::TokenVerifiers;
