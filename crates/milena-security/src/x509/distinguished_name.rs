//! Distinguished names as text.

use std::fmt::Write;

use super::der::{self, DerError, Reader};

/// Attribute types with a name of their own; all others are written with dots.
const KEYWORDS: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// `UTF8String`, `PrintableString`, `T61String`, `IA5String`, `GeneralString`, `BMPString`: the strings that Java writes as
/// text.
const STRINGS: &[u8] = &[0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

/// Characters that are escaped, more than RFC 2253 demands, because Java does.
const ESCAPED: &str = ",=+<>#;\"\\";

/// The text of a `Name` in DER as of RFC 2253, exactly as Java's `X500Principal.getName()` writes it.
///
/// The last component comes first, and values of attributes without a keyword are hexadecimal.
pub(crate) fn rfc2253(name: &[u8]) -> Result<String, DerError> {
    let mut components = Reader::new(name).sequence()?;
    let mut texts = Vec::new();
    while !components.is_empty() {
        let mut attributes = Reader::new(components.expect(der::SET)?.value);
        let mut text = String::new();
        while !attributes.is_empty() {
            if !text.is_empty() {
                text.push('+');
            }
            write_attribute(&mut text, attributes.sequence()?)?;
        }
        texts.push(text);
    }
    texts.reverse();
    Ok(texts.join(","))
}

fn write_attribute(text: &mut String, mut attribute: Reader<'_>) -> Result<(), DerError> {
    let identifier = der::dotted(attribute.expect(der::OBJECT_IDENTIFIER)?.value)?;
    let value = attribute.any()?;
    let keyword = KEYWORDS.iter().find(|(dotted, _)| *dotted == identifier);
    match keyword {
        Some((_, keyword)) if STRINGS.contains(&value.tag) => {
            text.push_str(keyword);
            text.push('=');
            // Java reads all kinds of strings as UTF-8.
            text.push_str(&escape(&String::from_utf8_lossy(value.value)));
        }
        _ => {
            text.push_str(keyword.map_or(identifier.as_str(), |(_, keyword)| keyword));
            text.push_str("=#");
            for byte in value.whole {
                let _ = write!(text, "{byte:02x}");
            }
        }
    }
    Ok(())
}

/// Escapes special characters, and spaces at both ends.
fn escape(value: &str) -> String {
    let is_space = |character: char| matches!(character, ' ' | '\r');
    let leading = value.chars().take_while(|character| is_space(*character)).count();
    let count = value.chars().count();
    let trailing = value.chars().rev().take_while(|character| is_space(*character)).count();
    let mut escaped = String::with_capacity(value.len());
    for (place, character) in value.chars().enumerate() {
        let is_outer = place < leading || place >= count - trailing;
        match character {
            '\0' => escaped.push_str("\\00"),
            _ if is_outer || ESCAPED.contains(character) => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}
