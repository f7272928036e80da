//! `saslname` of RFC 5802: user names and authorization ids in which `,` and `=` are escaped.

use std::borrow::Cow;

/// Escapes `=` and `,`. The name is ASCII without NUL.
pub(super) fn escape(name: &str) -> Cow<'_, str> {
    if name.contains(['=', ',']) {
        Cow::Owned(name.replace('=', "=3D").replace(',', "=2C"))
    } else {
        Cow::Borrowed(name)
    }
}

/// Decodes an escaped name; `None` if it is empty or no `saslname`.
pub(super) fn unescape(name: &str) -> Option<String> {
    let is_plain = |c: char| matches!(c, '\u{1}'..='\u{7f}') && c != '=' && c != ',';
    let mut decoded = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if is_plain(c) {
            decoded.push(c);
            rest = rest.get(1..)?;
        } else if let Some(tail) = rest.strip_prefix("=2C") {
            decoded.push(',');
            rest = tail;
        } else {
            rest = rest.strip_prefix("=3D")?;
            decoded.push('=');
        }
    }
    (!decoded.is_empty()).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_escaping() {
        for (name, escaped) in [
            ("alice", "alice"),
            ("a=b,c", "a=3Db=2Cc"),
            ("=3D", "=3D3D"),
            (" space ", " space "),
        ] {
            assert_eq!(escape(name), escaped);
            assert_eq!(unescape(escaped).as_deref(), Some(name));
        }
    }

    #[test]
    fn other_escapes_and_characters_are_refused() {
        for name in ["", "a=2", "a=2c", "a=3E", "a,b", "=", "zoë", "a\0b"] {
            assert_eq!(unescape(name), None, "{name:?}");
        }
    }
}
