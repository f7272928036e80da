//! The admin client against our own broker.

mod clusters;
mod configs;
mod errors;
mod group_offsets;
mod groups;
mod old_brokers;
mod records;
mod topics;
mod transactions;

use std::fmt::Debug;

use milena_client::{
    admin::{Admin, AdminError, ErrorCode, Results},
    config::AdminConfig,
};

use crate::broker::TestBroker;

fn admin(broker: &TestBroker) -> Admin {
    Admin::new(AdminConfig::builder(broker.address())).unwrap()
}

/// The only result, which must be `Ok`.
fn only<K: Debug, V: Debug>(results: Results<K, V>) -> V {
    let [(_, result)] = <[_; 1]>::try_from(results.into_iter().collect::<Vec<_>>()).unwrap();
    result.unwrap()
}

/// The only result, which must be an error.
fn only_error<K: Debug, V: Debug>(results: Results<K, V>) -> AdminError {
    let [(_, result)] = <[_; 1]>::try_from(results.into_iter().collect::<Vec<_>>()).unwrap();
    result.unwrap_err()
}

fn code<V: Debug>(result: &Result<V, AdminError>) -> Option<ErrorCode> {
    result.as_ref().err().and_then(AdminError::code)
}
