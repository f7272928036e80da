//! A reader of DER, as strict as certificates need it. It copies nothing and never recurses.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Bytes that are not the expected DER.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DerError {
    #[error("the data ends too early")]
    Truncated,
    #[error("unsupported DER: a long tag or an indefinite length")]
    Unsupported,
    #[error("expected the DER tag {expected:#04x}, found {found:#04x}")]
    Tag { expected: u8, found: u8 },
    #[error("invalid {0}")]
    Value(&'static str),
}

/// One tagged value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) value: &'a [u8],
    /// Tag, length and value.
    pub(crate) whole: &'a [u8],
}

/// A sequence of elements that is read from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The tag of the next element, without reading it.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn any(&mut self) -> Result<Element<'a>, DerError> {
        let [tag, first, rest @ ..] = self.rest else {
            return Err(DerError::Truncated);
        };
        if tag & 0x1f == 0x1f {
            return Err(DerError::Unsupported);
        }
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest
                    .split_at_checked(usize::from(first & 0x7f))
                    .ok_or(DerError::Truncated)?;
                let length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return Err(DerError::Unsupported),
        };
        let (value, rest) = rest.split_at_checked(length).ok_or(DerError::Truncated)?;
        let whole = self.rest.get(..self.rest.len() - rest.len()).unwrap_or_default();
        self.rest = rest;
        Ok(Element {
            tag: *tag,
            value,
            whole,
        })
    }

    pub(crate) fn expect(&mut self, tag: u8) -> Result<Element<'a>, DerError> {
        let element = self.any()?;
        if element.tag == tag {
            Ok(element)
        } else {
            Err(DerError::Tag {
                expected: tag,
                found: element.tag,
            })
        }
    }

    /// Reads an element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<Element<'a>>, DerError> {
        (self.peek() == Some(tag)).then(|| self.expect(tag)).transpose()
    }

    pub(crate) fn sequence(&mut self) -> Result<Self, DerError> {
        Ok(Self::new(self.expect(SEQUENCE)?.value))
    }
}

/// The dotted form of an object identifier.
pub(crate) fn dotted(value: &[u8]) -> Result<String, DerError> {
    let bad = || DerError::Value("object identifier");
    let mut text = String::new();
    let mut arc: u64 = 0;
    let mut is_complete = false;
    for byte in value {
        arc = arc.checked_mul(128).ok_or_else(bad)? | u64::from(byte & 0x7f);
        is_complete = byte & 0x80 == 0;
        if is_complete {
            if text.is_empty() {
                let root = (arc / 40).min(2);
                text = format!("{root}.{}", arc - root * 40);
            } else {
                text.push('.');
                text.push_str(&arc.to_string());
            }
            arc = 0;
        }
    }
    if is_complete { Ok(text) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_written_with_dots() {
        for (bytes, text) in [
            (&[0x55, 4, 3][..], "2.5.4.3"),
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "1.2.840.113549.1.9.1"),
            (&[0x88, 0x37, 3], "2.999.3"),
            (&[0], "0.0"),
        ] {
            assert_eq!(dotted(bytes).unwrap(), text);
        }
        assert!(dotted(&[]).is_err());
        assert!(dotted(&[0x55, 0x84]).is_err());
        assert!(dotted(&[0xff; 30]).is_err());
    }

    #[test]
    fn lengths_are_bounded_by_the_data() {
        let read = |bytes: &[u8]| Reader::new(bytes).any().map(|element| element.value.len());
        assert_eq!(read(&[0x30, 2, 1, 2, 9]), Ok(2));
        assert_eq!(read(&[0x30, 0x81, 1, 7]), Ok(1));
        assert_eq!(read(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), Err(DerError::Truncated));
        assert_eq!(read(&[0x30, 0x80, 0, 0]), Err(DerError::Unsupported));
        assert_eq!(read(&[0x1f, 1, 0]), Err(DerError::Unsupported));
        assert_eq!(read(&[0x30]), Err(DerError::Truncated));
    }
}
