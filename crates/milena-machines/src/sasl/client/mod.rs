//! The client's side: the messages of a mechanism, and the requests around them.

mod authenticator;
mod exchange;
mod session;

pub use authenticator::{ClientAction, ClientAuthError, ClientAuthenticator};
pub use exchange::{ClientExchange, ClientStep, ScramLogin};
pub use session::reauthenticate_after_ms;
