//! The vectors that Kafka's own classes wrote: `cargo xtask golden` makes them.

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;

/// One message as Kafka wrote it.
pub struct Vector {
    pub name: String,
    pub version: i16,
    pub variant: String,
    pub bytes: Bytes,
}

pub fn messages() -> Vec<Vector> {
    let text = unzip(include_bytes!("../golden/messages.txt.gz"));
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap();
            Vector {
                name: word().to_owned(),
                version: word().parse().unwrap(),
                variant: word().to_owned(),
                bytes: unhex(word()),
            }
        })
        .collect()
}

pub fn message(name: &str, version: i16, variant: &str) -> Vector {
    messages()
        .into_iter()
        .find(|vector| (vector.name.as_str(), vector.version, vector.variant.as_str()) == (name, version, variant))
        .unwrap()
}

pub fn unzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

pub fn unhex(text: &str) -> Bytes {
    let digit = |c: u8| (c as char).to_digit(16).unwrap() as u8;
    text.as_bytes()
        .chunks_exact(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}
