//! DescribeUserScramCredentials 0. Mechanisms and iterations only; keys and salts stay in the broker.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::sasl::ScramMechanism;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
        describe_user_scram_credentials_response::{CredentialInfo, DescribeUserScramCredentialsResult},
    },
};

use super::common::{Outcome, RequestContext};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: DescribeUserScramCredentialsRequest,
) -> Outcome<DescribeUserScramCredentialsResponse> {
    let known = cx.node.scram.iterations();
    let names = request.users.unwrap_or_default().into_iter().map(|user| user.name);
    let mut counts: BTreeMap<ByteString, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    // No name stands for all users.
    if counts.is_empty() {
        counts.extend(known.keys().map(|name| (name.as_str().into(), 1)));
    }
    let results = counts.into_iter().map(|(name, count)| describe(&known, name, count));
    Outcome::Ready(DescribeUserScramCredentialsResponse {
        results: results.collect(),
        error_message: None,
        ..Default::default()
    })
}

/// The texts are Kafka's.
fn describe(
    known: &BTreeMap<String, Vec<(ScramMechanism, u32)>>,
    user: ByteString,
    count: usize,
) -> DescribeUserScramCredentialsResult {
    let refused = |error: ErrorCode, text: &str| DescribeUserScramCredentialsResult {
        error_code: error.code(),
        error_message: Some(format!("{text}{user}").into()),
        user: user.clone(),
        ..Default::default()
    };
    if count > 1 {
        let text = "Cannot describe SCRAM credentials for the same user twice in a single request: ";
        return refused(ErrorCode::DuplicateResource, text);
    }
    let Some(credentials) = known.get(&*user) else {
        let text = "Attempt to describe a user credential that does not exist: ";
        return refused(ErrorCode::ResourceNotFound, text);
    };
    let info = |(mechanism, iterations): &(ScramMechanism, u32)| CredentialInfo {
        mechanism: mechanism.code(),
        iterations: i32::try_from(*iterations).unwrap_or(i32::MAX),
        ..Default::default()
    };
    DescribeUserScramCredentialsResult {
        credential_infos: credentials.iter().map(info).collect(),
        error_message: None,
        user,
        ..Default::default()
    }
}
