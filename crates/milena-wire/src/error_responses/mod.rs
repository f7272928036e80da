//! Error responses that cannot be generated: their API has no `error_code` at the top of every version.
//!
//! `cargo xtask generate` writes [`Request::error_response`](crate::message::Request::error_response) of every API, and
//! calls a function of this module, named after the API, where a response has one error for each row.

mod admin;
mod data;
mod groups;
mod share;
mod transactions;

pub(crate) use admin::*;
pub(crate) use data::*;
pub(crate) use groups::*;
pub(crate) use share::*;
pub(crate) use transactions::*;

/// One row of the response for each item that the request names.
fn rows<Item, Row>(items: &[Item], row: impl FnMut(&Item) -> Row) -> Vec<Row> {
    items.iter().map(row).collect()
}
