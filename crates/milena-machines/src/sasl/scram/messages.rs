//! The four messages of SCRAM, as RFC 5802 and Kafka's grammar have them.
//!
//! Parsers keep slices of the received text: the signatures cover the exact bytes, extensions included. `m=` marks a
//! mandatory extension that the reader does not know, so it is refused as the RFC demands.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::sasl::name;

/// The part of a message that is wrong, as texts in errors and logs.
pub(super) type Problem = &'static str;

/// `gs2-header`, then `n=user,r=nonce` with extensions.
pub(super) struct ClientFirstMessage<'a> {
    pub(super) gs2_header: &'a str,
    /// Everything behind the header.
    pub(super) bare: &'a str,
    pub(super) username: String,
    /// Empty if the client has sent none.
    pub(super) authorization_id: String,
    pub(super) nonce: &'a str,
    pub(super) is_token_login: bool,
}

impl<'a> ClientFirstMessage<'a> {
    pub(super) fn parse(message: &'a str) -> Result<Self, Problem> {
        let rest = message
            .strip_prefix("n,")
            .ok_or("it asks for channel binding, which Kafka does not have")?;
        let (authorization_id, bare) = rest.split_once(',').ok_or("its header is incomplete")?;
        let gs2_header = message.get(..message.len() - bare.len()).unwrap_or_default();
        let authorization_id = match authorization_id.strip_prefix("a=") {
            Some(id) => name::unescape(id).ok_or("its authorization id is invalid")?,
            None if authorization_id.is_empty() => String::new(),
            None => return Err("its header is invalid"),
        };
        let mut attributes = bare.split(',');
        let username = attribute(attributes.next(), "n=").ok_or("it does not begin with the user name")?;
        let username = name::unescape(username).ok_or("its user name is invalid")?;
        let nonce = attribute(attributes.next(), "r=").filter(|nonce| is_printable(nonce));
        let nonce = nonce.ok_or("it has no valid nonce")?;
        let mut is_token_login = false;
        for extension in attributes {
            let (key, value) = parse_extension(extension)?;
            is_token_login |= key == "tokenauth" && value.eq_ignore_ascii_case("true");
        }
        Ok(Self {
            gs2_header,
            bare,
            username,
            authorization_id,
            nonce,
            is_token_login,
        })
    }
}

/// `r=nonce,s=salt,i=iterations` with extensions.
pub(super) struct ServerFirstMessage<'a> {
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u64,
}

impl<'a> ServerFirstMessage<'a> {
    pub(super) fn parse(message: &'a str) -> Result<Self, Problem> {
        let mut attributes = message.split(',');
        let nonce = attribute(attributes.next(), "r=").filter(|nonce| is_printable(nonce));
        let nonce = nonce.ok_or("it has no valid nonce")?;
        let salt = attribute(attributes.next(), "s=").and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or("it has no valid salt")?;
        let iterations = attribute(attributes.next(), "i=").filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let iterations = iterations
            .and_then(|iterations| iterations.parse().ok())
            .ok_or("it has no valid number of iterations")?;
        for extension in attributes {
            parse_extension(extension)?;
        }
        Ok(Self {
            nonce,
            salt,
            iterations,
        })
    }
}

/// `c=binding,r=nonce`, extensions, and `p=proof` at the end.
pub(super) struct ClientFinalMessage<'a> {
    pub(super) channel_binding: Vec<u8>,
    pub(super) nonce: &'a str,
    pub(super) without_proof: &'a str,
    pub(super) proof: Vec<u8>,
}

impl<'a> ClientFinalMessage<'a> {
    pub(super) fn parse(message: &'a str) -> Result<Self, Problem> {
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or("it has no proof")?;
        let proof = STANDARD.decode(proof).map_err(|_| "its proof is not base64")?;
        let mut attributes = without_proof.split(',');
        let binding = attribute(attributes.next(), "c=").and_then(|binding| STANDARD.decode(binding).ok());
        let channel_binding = binding.ok_or("it does not begin with the channel binding")?;
        let nonce = attribute(attributes.next(), "r=").filter(|nonce| is_printable(nonce));
        let nonce = nonce.ok_or("it has no valid nonce")?;
        for extension in attributes {
            parse_extension(extension)?;
        }
        Ok(Self {
            channel_binding,
            nonce,
            without_proof,
            proof,
        })
    }
}

/// `v=signature` or `e=error`, with extensions.
pub(super) enum ServerFinalMessage<'a> {
    Signature(Vec<u8>),
    Error(&'a str),
}

impl<'a> ServerFinalMessage<'a> {
    pub(super) fn parse(message: &'a str) -> Result<Self, Problem> {
        let mut attributes = message.split(',');
        let first = attributes.next();
        for extension in attributes {
            parse_extension(extension)?;
        }
        if let Some(error) = attribute(first, "e=") {
            return Ok(Self::Error(error));
        }
        let signature = attribute(first, "v=").ok_or("it has neither a signature nor an error")?;
        let signature = STANDARD.decode(signature).map_err(|_| "its signature is not base64")?;
        Ok(Self::Signature(signature))
    }
}

fn attribute<'a>(text: Option<&'a str>, prefix: &str) -> Option<&'a str> {
    text?.strip_prefix(prefix)
}

fn parse_extension(text: &str) -> Result<(&str, &str), Problem> {
    let (key, value) = text.split_once('=').ok_or("an extension has no value")?;
    if key == "m" {
        return Err("it has a mandatory extension");
    }
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_value = !value.is_empty() && value.bytes().all(|byte| matches!(byte, 1..=0x7f));
    if is_key && is_value {
        Ok((key, value))
    } else {
        Err("an extension is invalid")
    }
}

/// Visible ASCII; the commas are gone already.
fn is_printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21..=0x7e))
}
