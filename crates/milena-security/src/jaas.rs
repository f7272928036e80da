//! Java's log-in texts: `sasl.jaas.config`.

use std::collections::BTreeMap;

use crate::Secret;

/// One log-in module with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasEntry {
    /// The class of the module, as `org.apache.kafka.common.security.plain.PlainLoginModule`.
    pub module: String,
    pub flag: ControlFlag,
    /// All values are treated as secrets, because passwords are among them under any name.
    pub options: BTreeMap<String, Secret>,
}

impl JaasEntry {
    pub fn option(&self, name: &str) -> Option<&Secret> {
        self.options.get(name)
    }

    /// The class of the module without its package.
    pub fn class_name(&self) -> &str {
        self.module.rsplit('.').next().unwrap_or(&self.module)
    }
}

/// Control flag of a module. Only one module is allowed, so that all four mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFlag {
    Required,
    Requisite,
    Sufficient,
    Optional,
}

/// Parses `<class> <flag> key=value …;` with exactly one module.
pub fn parse(text: &str) -> Result<JaasEntry, JaasError> {
    let _ = text;
    Err(JaasError::Syntax("not there yet".to_owned()))
}

/// A text that is not one log-in module. Never contains a value of it.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JaasError {
    #[error("JAAS config: {0}")]
    Syntax(String),
}
