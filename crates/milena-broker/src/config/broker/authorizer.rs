//! The keys of the authorizer.

use milena_config::choices;
use milena_machines::authorizer::AuthorizerConfig;

use super::{
    super::{BrokerOverrides, ConfigError},
    config::wrong,
};

/// The class whose name turns on ACLs.
pub(super) const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// `milena.authorizer`: whether there are ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorizerKind {
    None,
    Acl,
}

choices! { AuthorizerKind { None = "none", Acl = "acl" } }

/// The settings of the authorizer; `None` if there is none. `super.users` must be valid in any case.
pub(super) fn resolve(raw: &BrokerOverrides) -> Result<Option<AuthorizerConfig>, ConfigError> {
    let name = "super.users";
    let text: String = raw.get(name)?;
    let super_users = AuthorizerConfig::parse_super_users(&text).map_err(|entry| {
        let problem = format!("`{entry}` has no type; write principals as User:name, separated by semicolons");
        wrong(name, &text, problem)
    })?;
    let class: String = raw.get("authorizer.class.name")?;
    let is_on = class == STANDARD_AUTHORIZER || raw.get::<AuthorizerKind>("milena.authorizer")? == AuthorizerKind::Acl;
    let config = AuthorizerConfig {
        super_users,
        allow_if_no_acl: raw.get("allow.everyone.if.no.acl.found")?,
    };
    Ok(is_on.then_some(config))
}
