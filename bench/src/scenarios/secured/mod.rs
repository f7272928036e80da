//! Costs of TLS, ACLs and log-ins.

pub mod acls;
pub mod logins;
pub mod tls;
