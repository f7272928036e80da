//! Fields of a certificate.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::{
    der::{self, DerError, Element, Reader},
    distinguished_name::rfc2253,
    time::parse_seconds,
};

const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// A certificate, as far as messages, principals and checks need it. Its signature is not looked at.
#[derive(Clone, Debug)]
pub(crate) struct Certificate<'a> {
    /// The whole `Name` in DER.
    pub(crate) subject: &'a [u8],
    pub(crate) issuer: &'a [u8],
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) alternative_names: Vec<AlternativeName>,
    /// 1 for X.509 v1, which TLS stacks refuse.
    pub(crate) version: u8,
}

/// A name in the extension for alternative names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AlternativeName {
    Dns(String),
    Ip(IpAddr),
    /// A mail address, URI or anything else: its tag and bytes.
    Other(u8, Vec<u8>),
}

impl<'a> Certificate<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, DerError> {
        let mut whole = Reader::new(bytes).sequence()?;
        let mut body = whole.sequence()?;
        let version = match body.optional(0xa0)? {
            Some(version) => {
                let number = Reader::new(version.value).expect(der::INTEGER)?.value;
                number.last().copied().unwrap_or(0).saturating_add(1)
            }
            None => 1,
        };
        body.expect(der::INTEGER)?;
        body.expect(der::SEQUENCE)?;
        let issuer = body.expect(der::SEQUENCE)?.whole;
        let mut validity = body.sequence()?;
        let not_before = parse_seconds(validity.any()?)?;
        let not_after = parse_seconds(validity.any()?)?;
        let subject = body.expect(der::SEQUENCE)?.whole;
        body.expect(der::SEQUENCE)?;
        body.optional(0x81)?;
        body.optional(0x82)?;
        let alternative_names = match body.optional(0xa3)? {
            Some(extensions) => alternative_names(extensions)?,
            None => Vec::new(),
        };
        Ok(Self {
            subject,
            issuer,
            not_before,
            not_after,
            alternative_names,
            version,
        })
    }

    /// The subject as of RFC 2253, or a placeholder if it is malformed.
    pub(crate) fn subject_text(&self) -> String {
        rfc2253(self.subject).unwrap_or_else(|_| "(unreadable subject)".to_owned())
    }

    pub(crate) fn issuer_text(&self) -> String {
        rfc2253(self.issuer).unwrap_or_else(|_| "(unreadable issuer)".to_owned())
    }

    pub(crate) fn is_self_signed(&self) -> bool {
        self.subject == self.issuer
    }

    /// Whether the subject has a common name, which old clients took for the host.
    pub(crate) fn has_common_name(&self) -> bool {
        self.subject
            .windows(COMMON_NAME.len() + 2)
            .any(|window| window.strip_prefix(&[der::OBJECT_IDENTIFIER, 3]) == Some(COMMON_NAME))
    }
}

fn alternative_names(extensions: Element<'_>) -> Result<Vec<AlternativeName>, DerError> {
    let mut extensions = Reader::new(extensions.value).sequence()?;
    while !extensions.is_empty() {
        let mut extension = extensions.sequence()?;
        if extension.expect(der::OBJECT_IDENTIFIER)?.value != SUBJECT_ALTERNATIVE_NAME {
            continue;
        }
        // Whether it is critical.
        extension.optional(0x01)?;
        let value = extension.expect(der::OCTET_STRING)?.value;
        let mut names = Reader::new(value).sequence()?;
        let mut found = Vec::new();
        while !names.is_empty() {
            found.push(AlternativeName::from(names.any()?));
        }
        return Ok(found);
    }
    Ok(Vec::new())
}

impl From<Element<'_>> for AlternativeName {
    fn from(element: Element<'_>) -> Self {
        let other = || Self::Other(element.tag, element.value.to_vec());
        match element.tag {
            0x82 => String::from_utf8(element.value.to_vec()).map_or_else(|_| other(), Self::Dns),
            0x87 => {
                let four = <[u8; 4]>::try_from(element.value).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
                let address = four
                    .or_else(|_| <[u8; 16]>::try_from(element.value).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))));
                address.map_or_else(|_| other(), Self::Ip)
            }
            _ => other(),
        }
    }
}

impl fmt::Display for AlternativeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => write!(f, "DNS:{name}"),
            Self::Ip(address) => write!(f, "IP:{address}"),
            Self::Other(tag, value) => match (tag, str::from_utf8(value)) {
                (0x81, Ok(text)) => write!(f, "email:{text}"),
                (0x86, Ok(text)) => write!(f, "URI:{text}"),
                _ => f.write_str("(another kind of name)"),
            },
        }
    }
}
