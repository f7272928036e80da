//! Names of clients from their certificates: `ssl.principal.mapping.rules`.

/// Rules that turn the subject of a certificate into the name of a principal.
#[derive(Clone, Debug)]
pub struct PrincipalMapper {}

impl PrincipalMapper {
    /// Parses rules in Kafka's syntax: a comma-separated list of `DEFAULT` and `RULE:pattern/replacement/[LU]`.
    pub fn parse(rules: &str) -> Result<Self, PrincipalError> {
        let _ = rules;
        Ok(Self {})
    }

    /// The principal's name for a client's certificate in DER: its subject as of RFC 2253, changed by the first rule that matches.
    pub fn name(&self, leaf_der: &[u8]) -> Result<String, PrincipalError> {
        let _ = leaf_der;
        Err(PrincipalError::Certificate("not there yet".to_owned()))
    }

    /// The name for a distinguished name as of RFC 2253.
    pub fn map(&self, distinguished_name: &str) -> Result<String, PrincipalError> {
        Ok(distinguished_name.to_owned())
    }
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrincipalError {
    /// Not a rule of Kafka's syntax.
    #[error("ssl.principal.mapping.rules: {0}")]
    Rule(String),
    #[error("no rule of ssl.principal.mapping.rules applies to {distinguished_name}")]
    NoRule { distinguished_name: String },
    #[error("cannot read the subject of the client's certificate: {0}")]
    Certificate(String),
}
