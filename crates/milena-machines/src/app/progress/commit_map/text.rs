//! Alphabets: bytes as characters.

/// An alphabet of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// 6 bits, readable everywhere.
    Base64,
    /// 15 bits: Han characters and Hangul, one UTF-16 unit each, three bytes in UTF-8.
    Wide,
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Blocks of wide characters: the first code point and the number of characters.
const BLOCKS: [(u32, u32); 3] = [(0x3400, 6_592), (0x4e00, 20_992), (0xac00, 5_184)];

impl Alphabet {
    pub(super) fn choose(wide: bool) -> Self {
        if wide { Self::Wide } else { Self::Base64 }
    }

    fn bits(self) -> u32 {
        match self {
            Self::Base64 => 6,
            Self::Wide => 15,
        }
    }

    /// The number of bytes that fit into characters.
    pub(super) fn bytes(self, chars: usize) -> usize {
        chars.saturating_mul(self.bits() as usize) / 8
    }

    /// The length of the text of bytes, in bytes.
    pub(super) fn text_bytes(self, bytes: usize) -> usize {
        let chars = (bytes * 8).div_ceil(self.bits() as usize);
        match self {
            Self::Base64 => chars,
            Self::Wide => chars * 3,
        }
    }

    pub(super) fn write(self, bytes: &[u8], to: &mut String) {
        let bits = self.bits();
        let mut buffer = 0_u32;
        let mut held = 0;
        for byte in bytes {
            buffer = buffer << 8 | u32::from(*byte);
            held += 8;
            while held >= bits {
                held -= bits;
                to.push(self.char_of(buffer >> held & ((1 << bits) - 1)));
            }
            buffer &= (1 << held) - 1;
        }
        if held > 0 {
            to.push(self.char_of(buffer << (bits - held)));
        }
    }

    /// Decodes characters; bits that fill no byte are dropped.
    pub(super) fn read(self, text: &str) -> Option<Vec<u8>> {
        let bits = self.bits();
        let mut bytes = Vec::with_capacity(self.bytes(text.len()));
        let mut buffer = 0_u32;
        let mut held = 0;
        for char in text.chars() {
            buffer = buffer << bits | self.value_of(char)?;
            held += bits;
            while held >= 8 {
                held -= 8;
                bytes.push((buffer >> held) as u8);
            }
            buffer &= (1 << held) - 1;
        }
        Some(bytes)
    }

    fn char_of(self, value: u32) -> char {
        match self {
            Self::Base64 => BASE64.get(value as usize).map_or('A', |byte| char::from(*byte)),
            Self::Wide => {
                let mut left = value;
                for (first, count) in BLOCKS {
                    if left < count {
                        return char::from_u32(first + left).unwrap_or('\u{3400}');
                    }
                    left -= count;
                }
                '\u{3400}'
            }
        }
    }

    fn value_of(self, char: char) -> Option<u32> {
        let code = u32::from(char);
        match self {
            Self::Base64 => match char {
                'A'..='Z' => Some(code - u32::from('A')),
                'a'..='z' => Some(code - u32::from('a') + 26),
                '0'..='9' => Some(code - u32::from('0') + 52),
                '+' => Some(62),
                '/' => Some(63),
                _ => None,
            },
            Self::Wide => {
                let mut before = 0;
                for (first, count) in BLOCKS {
                    if (first..first + count).contains(&code) {
                        return Some(before + code - first);
                    }
                    before += count;
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_character_of_its_own_and_one_utf16_unit() {
        for alphabet in [Alphabet::Base64, Alphabet::Wide] {
            for value in 0..1 << alphabet.bits() {
                let char = alphabet.char_of(value);
                assert_eq!(alphabet.value_of(char), Some(value));
                assert_eq!(char.len_utf16(), 1);
            }
        }
    }

    #[test]
    fn base64_is_the_standard_one() {
        let mut text = String::new();
        Alphabet::Base64.write(b"any carnal pleas", &mut text);
        assert_eq!(text, "YW55IGNhcm5hbCBwbGVhcw");
    }

    #[test]
    fn what_is_written_is_read() {
        for alphabet in [Alphabet::Base64, Alphabet::Wide] {
            for length in 0..100_usize {
                let bytes: Vec<u8> = (0..length).map(|n| (n * 37 + 1) as u8).collect();
                let mut text = String::new();
                alphabet.write(&bytes, &mut text);
                assert_eq!(text.len(), alphabet.text_bytes(length));
                let read = alphabet.read(&text).unwrap();
                assert_eq!(read.get(..length), Some(bytes.as_slice()));
                assert!(read.iter().skip(length).all(|byte| *byte == 0));
                assert!(alphabet.bytes(text.chars().count()) >= length);
            }
        }
    }
}
