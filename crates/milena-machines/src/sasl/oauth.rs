//! OAUTHBEARER: a token and extensions in one message, and errors as JSON.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use zeroize::Zeroizing;

use super::{SaslError, name};

/// The client's message after it got an error.
pub(super) const ERROR_ACKNOWLEDGEMENT: &[u8] = b"\x01";

const SEPARATOR: char = '\u{1}';
const AUTH: &str = "auth";

/// The token of a client and the extensions it sent, for the driver to verify.
pub struct BearerToken {
    token: Zeroizing<String>,
    authorization_id: String,
    extensions: BTreeMap<String, String>,
}

impl BearerToken {
    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn extensions(&self) -> &BTreeMap<String, String> {
        &self.extensions
    }

    /// The user the client asks to act as; empty if it does not.
    pub fn authorization_id(&self) -> &str {
        &self.authorization_id
    }
}

/// Without the token.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken")
            .field("authorization_id", &self.authorization_id)
            .finish_non_exhaustive()
    }
}

/// Encodes the client's first message.
pub(super) fn encode(
    token: &str,
    authorization_id: &str,
    extensions: &BTreeMap<String, String>,
) -> Result<Bytes, SaslError> {
    if !is_token(token) {
        return Err(SaslError::TokenCharacters);
    }
    let mut message = String::from("n,");
    if !authorization_id.is_empty() {
        message.push_str("a=");
        message.push_str(&name::escape(authorization_id));
    }
    message.push(',');
    message.push(SEPARATOR);
    message.push_str("auth=Bearer ");
    message.push_str(token);
    for (name, value) in extensions {
        if !is_extension_name(name) {
            return Err(SaslError::ExtensionName { name: name.clone() });
        }
        if !is_extension_value(value) {
            return Err(SaslError::ExtensionValue { name: name.clone() });
        }
        message.push(SEPARATOR);
        message.push_str(name);
        message.push('=');
        message.push_str(value);
    }
    message.push(SEPARATOR);
    message.push(SEPARATOR);
    Ok(Bytes::from(message))
}

/// Reads the client's first message. The error is for the log.
pub(super) fn parse(message: &[u8]) -> Result<BearerToken, &'static str> {
    const INVALID: &str = "Invalid OAUTHBEARER client first message";
    let text = std::str::from_utf8(message).map_err(|_| INVALID)?;
    let rest = text.strip_prefix("n,").ok_or(INVALID)?;
    let (authorization_id, rest) = rest.split_once(',').ok_or(INVALID)?;
    let authorization_id = match authorization_id.strip_prefix("a=") {
        Some(id) => name::unescape(id).ok_or(INVALID)?,
        None if authorization_id.is_empty() => String::new(),
        None => return Err(INVALID),
    };
    let pairs = rest
        .strip_prefix(SEPARATOR)
        .and_then(|rest| rest.strip_suffix(SEPARATOR));
    let mut pairs = parse_pairs(pairs.ok_or(INVALID)?).ok_or(INVALID)?;
    let auth = pairs
        .remove(AUTH)
        .map(Zeroizing::new)
        .ok_or("Invalid OAUTHBEARER client first message: 'auth' not specified")?;
    let (scheme, token) = auth
        .split_once(' ')
        .ok_or("Invalid OAUTHBEARER client first message: invalid 'auth' format")?;
    let token = token.trim_start_matches(' ');
    if !is_token(token) {
        return Err("Invalid OAUTHBEARER client first message: invalid 'auth' format");
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err("Invalid scheme in OAUTHBEARER client first message");
    }
    Ok(BearerToken {
        token: Zeroizing::new(token.to_owned()),
        authorization_id,
        extensions: pairs,
    })
}

/// Reads `key=value` pairs, each with the separator behind it. A later pair replaces an earlier one of its key.
fn parse_pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (pair, tail) = rest.split_once(SEPARATOR)?;
        let (key, value) = pair.split_once('=')?;
        if !is_key(key) || !is_extension_value(value) {
            return None;
        }
        pairs.insert(key.to_owned(), value.to_owned());
        rest = tail;
    }
    Some(pairs)
}

fn is_key(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_extension_name(name: &str) -> bool {
    is_key(name) && name != AUTH
}

fn is_extension_value(value: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x20..=0x7e | b'\t' | b'\r' | b'\n');
    !value.is_empty() && value.bytes().all(is_allowed)
}

/// `b68token` of RFC 6750.
fn is_token(token: &str) -> bool {
    let body = token.trim_end_matches('=');
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !body.is_empty() && body.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extensions(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn messages_read_back() {
        let sent = extensions(&[("traceId", "123"), ("reason", "a = b, \"quoted\"\r\n\t")]);
        let message = encode("a.b-c_d~e+f/0==", "user,x", &sent).unwrap();
        assert_eq!(
            std::str::from_utf8(&message).unwrap(),
            "n,a=user=2Cx,\u{1}auth=Bearer a.b-c_d~e+f/0==\u{1}reason=a = b, \"quoted\"\r\n\t\u{1}traceId=123\u{1}\u{1}"
        );
        let token = parse(&message).unwrap();
        assert_eq!(token.token(), "a.b-c_d~e+f/0==");
        assert_eq!(token.authorization_id(), "user,x");
        assert_eq!(token.extensions(), &sent);
        assert_eq!(format!("{token:?}"), "BearerToken { authorization_id: \"user,x\", .. }");
    }

    #[test]
    fn messages_of_kafkas_clients_are_read() {
        for (message, token, authorization_id, sent) in [
            ("n,,\u{1}auth=Bearer 123.345.567\u{1}\u{1}", "123.345.567", "", &[][..]),
            ("n,a=myuser,\u{1}auth=Bearer 345\u{1}\u{1}", "345", "myuser", &[][..]),
            (
                "n,a=myuser,\u{1}propA=valueA1, valueA2\u{1}auth=bEARER   567\u{1}propB=valueB\u{1}\u{1}",
                "567",
                "myuser",
                &[("propA", "valueA1, valueA2"), ("propB", "valueB")][..],
            ),
            (
                "n,,\u{1}host=server.example.com\u{1}port=143\u{1}auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\u{1}\u{1}",
                "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==",
                "",
                &[("host", "server.example.com"), ("port", "143")][..],
            ),
        ] {
            let parsed = parse(message.as_bytes()).unwrap();
            assert_eq!((parsed.token(), parsed.authorization_id()), (token, authorization_id));
            assert_eq!(parsed.extensions(), &extensions(sent));
        }
    }

    #[test]
    fn other_messages_are_refused() {
        for message in [
            "",
            "n,,",
            "n,,\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 345\u{1}",
            "n,,auth=Bearer 345\u{1}\u{1}",
            "n,,\u{1}auth=Bearer \u{1}\u{1}",
            "n,,\u{1}auth=Bearer34\u{1}\u{1}",
            "n,,\u{1}auth=Basic 345\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 3=45\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 345\u{1}1a=b\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 345\u{1}a=\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 345\u{1}a\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 345\u{1}a=\u{2}\u{1}\u{1}",
            "n,,\u{1}auth=Bearer 345\u{1}\u{1}\u{1}",
            "n,a=,\u{1}auth=Bearer 345\u{1}\u{1}",
            "n,a=us=er,\u{1}auth=Bearer 345\u{1}\u{1}",
            "y,,\u{1}auth=Bearer 345\u{1}\u{1}",
        ] {
            assert!(parse(message.as_bytes()).is_err(), "{message:?}");
        }
        assert!(parse(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn tokens_and_extensions_that_cannot_be_sent_are_refused() {
        let none = BTreeMap::new();
        for token in ["", "=", "a b", "a\u{1}auth=Bearer b", "zoë"] {
            assert_eq!(encode(token, "", &none), Err(SaslError::TokenCharacters), "{token}");
        }
        for name in ["auth", "", "trace_id", "1"] {
            let refused = encode("t", "", &extensions(&[(name, "x")]));
            assert!(matches!(refused, Err(SaslError::ExtensionName { .. })), "{name}");
        }
        for value in ["", "a\u{1}b", "zoë", "\0"] {
            let refused = encode("t", "", &extensions(&[("trace", value)]));
            assert!(matches!(refused, Err(SaslError::ExtensionValue { .. })), "{value:?}");
        }
    }
}
