//! The broker's side: the log-in of one connection, and the renewals of its session.

mod action;
mod authenticator;
mod config;
mod exchange;

pub use action::{
    AuthenticationFailure, FailureResponse, Reauthentication, RequestVerdict, SaslResponse, ServerAction, Session,
    TokenRejection, VerifiedToken,
};
pub use authenticator::ServerAuthenticator;
pub use config::SaslServerConfig;
