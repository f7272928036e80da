//! Output formats of records.

use std::{
    io::{self, Write},
    str::Chars,
};

use milena_client::consumer::{RecordRef, deserialize::RecordField};

use super::{decode::Decoding, json};
use crate::time::TimeFormat;

/// The value of `-f`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Pieces(Vec<Piece>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Field(Field),
    /// The timestamp in a given format.
    Time(TimeFormat),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Topic,
    Partition,
    Offset,
    Key,
    Value,
    Timestamp,
    Headers,
    KeyLength,
    ValueLength,
}

/// The letters are those of kcat.
const FIELDS: [(char, Field, &str); 9] = [
    ('t', Field::Topic, "topic"),
    ('p', Field::Partition, "partition"),
    ('o', Field::Offset, "offset"),
    ('k', Field::Key, "key"),
    ('s', Field::Value, "value"),
    ('T', Field::Timestamp, "timestamp"),
    ('h', Field::Headers, "headers"),
    ('K', Field::KeyLength, "length of the key"),
    ('S', Field::ValueLength, "length of the value"),
];

pub(super) fn parse(text: &str) -> Result<Format, String> {
    if text == "json" {
        return Ok(Format::Json);
    }
    let mut pieces = Vec::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '%' => match characters.next() {
                Some('%') => push_text(&mut pieces, '%'),
                Some('T') if characters.as_str().starts_with('{') => pieces.push(time(&mut characters)?),
                Some(letter) => pieces.push(Piece::Field(field(letter)?)),
                None => return Err("a single % at the end; write %% for a percent sign".to_owned()),
            },
            '\\' => push_text(&mut pieces, escaped(characters.next())?),
            character => push_text(&mut pieces, character),
        }
    }
    let has_fields = pieces.iter().any(|piece| !matches!(piece, Piece::Text(_)));
    if !has_fields {
        return Err(format!(
            "neither json nor a text with fields of the record; fields are {}",
            known_fields()
        ));
    }
    Ok(Format::Pieces(pieces))
}

/// The format between the braces of `%T{…}`.
fn time(characters: &mut Chars<'_>) -> Result<Piece, String> {
    let Some((form, rest)) = characters.as_str().trim_start_matches('{').split_once('}') else {
        return Err("%T{ has no closing }".to_owned());
    };
    *characters = rest.chars();
    TimeFormat::parse(form).map(Piece::Time)
}

fn field(letter: char) -> Result<Field, String> {
    let found = FIELDS.iter().find(|(known, ..)| *known == letter);
    found
        .map(|(_, field, _)| *field)
        .ok_or_else(|| format!("unknown field %{letter}; fields are {}", known_fields()))
}

fn known_fields() -> String {
    let fields = FIELDS.map(|(letter, _, name)| format!("%{letter} {name}"));
    format!("{}, and %% for a percent sign", fields.join(", "))
}

/// The character that a backslash and this letter stand for.
pub(crate) fn escaped(letter: Option<char>) -> Result<char, String> {
    match letter {
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('t') => Ok('\t'),
        Some('0') => Ok('\0'),
        Some('\\') => Ok('\\'),
        Some(letter) => Err(format!(
            "unknown escape \\{letter}; escapes are \\n, \\r, \\t, \\0 and \\\\"
        )),
        None => Err("a single \\ at the end; write \\\\ for a backslash".to_owned()),
    }
}

fn push_text(pieces: &mut Vec<Piece>, character: char) {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).as_bytes();
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.extend_from_slice(bytes),
        _ => pieces.push(Piece::Text(bytes.to_vec())),
    }
}

impl Format {
    pub(super) fn write(&self, out: &mut impl Write, record: &RecordRef<'_>, decoding: Decoding) -> io::Result<()> {
        let pieces = match self {
            Self::Json => return json::write(out, record, decoding),
            Self::Pieces(pieces) => pieces,
        };
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.write_all(text)?,
                Piece::Field(field) => field.write(out, record, decoding)?,
                // The pattern was checked by `parse`.
                Piece::Time(form) => out.write_all(form.write(record.timestamp()).unwrap_or_default().as_bytes())?,
            }
        }
        Ok(())
    }
}

impl Field {
    fn write(self, out: &mut impl Write, record: &RecordRef<'_>, decoding: Decoding) -> io::Result<()> {
        match self {
            Self::Topic => out.write_all(record.topic().as_bytes()),
            Self::Partition => write!(out, "{}", record.partition()),
            Self::Offset => write!(out, "{}", record.offset()),
            Self::Key => decoding.write(out, record, RecordField::Key),
            Self::Value => decoding.write(out, record, RecordField::Value),
            Self::Timestamp => write!(out, "{}", record.timestamp()),
            Self::Headers => write_headers(out, record),
            Self::KeyLength => write_length(out, record.key()),
            Self::ValueLength => write_length(out, record.value()),
        }
    }
}

/// The length of a null field is -1, as in Kafka's formats.
fn write_length(out: &mut impl Write, bytes: Option<&[u8]>) -> io::Result<()> {
    match bytes {
        Some(bytes) => write!(out, "{}", bytes.len()),
        None => out.write_all(b"-1"),
    }
}

fn write_headers(out: &mut impl Write, record: &RecordRef<'_>) -> io::Result<()> {
    for (place, header) in record.headers().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        out.write_all(header.key)?;
        out.write_all(b"=")?;
        out.write_all(header.value.unwrap_or(b"NULL"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_pieces() {
        let text = |text: &str| Piece::Text(text.as_bytes().to_vec());
        let expected = vec![
            Piece::Field(Field::Key),
            text("\t100%: ä"),
            Piece::Field(Field::Value),
            text("\\\n"),
        ];
        assert_eq!(parse("%k\\t100%%: ä%s\\\\\\n"), Ok(Format::Pieces(expected)));
        assert_eq!(parse("json"), Ok(Format::Json));
        let time = Piece::Time(TimeFormat::Pattern("%H:%M".to_owned()));
        assert_eq!(
            parse("%T{%H:%M} %s"),
            Ok(Format::Pieces(vec![time, text(" "), Piece::Field(Field::Value)]))
        );
    }

    #[test]
    fn unknown_fields_are_named() {
        for (wrong, named) in [
            ("%s %z", "unknown field %z; fields are %t topic, %p partition"),
            ("%s\\q", "unknown escape \\q"),
            ("%s %", "single %"),
            ("%s\\", "single \\"),
            ("%T{%H", "no closing }"),
            ("%T{%Q}", "unknown time field %Q"),
            ("jsn", "neither json nor"),
            ("", "neither json nor"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(named), "{wrong}: {error}");
        }
    }
}
