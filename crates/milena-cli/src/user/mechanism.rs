//! SCRAM mechanisms on the command line.

use milena_client::admin::ScramMechanism;

/// A mechanism by Kafka's name, or by the name of its hash.
pub(super) fn parse(text: &str) -> Result<ScramMechanism, String> {
    let name = match text.to_ascii_uppercase().as_str() {
        "SHA-256" | "SHA256" => "SCRAM-SHA-256".to_owned(),
        "SHA-512" | "SHA512" => "SCRAM-SHA-512".to_owned(),
        other => other.to_owned(),
    };
    ScramMechanism::parse(&name).ok_or_else(|| "use SCRAM-SHA-256 or SCRAM-SHA-512".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_has_a_short_name() {
        for text in ["SCRAM-SHA-512", "scram-sha-512", "sha-512"] {
            assert_eq!(parse(text), Ok(ScramMechanism::Sha512));
        }
        assert!(parse("PLAIN").is_err());
    }
}
