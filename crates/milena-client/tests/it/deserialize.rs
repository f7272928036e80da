//! Deserializers, compared with Kafka's own (`golden/Serialized.java`).

use bytes::Bytes;
use milena_client::{
    config::{ConsumerConfig, DeserializerName},
    consumer::deserialize::{
        AnyDeserializer, AnyValue, BoxError, DeserializeError, Deserializer, Json, NotPlain, NullField, Nullable,
        Plain, RecordField, Source,
    },
};
use milena_machines::TopicPartition;
use milena_wire::{
    Uuid,
    pool::BufferPool,
    records::{BatchBuilder, BatchOptions, Batches, Header, NewRecord, RecordDecoder, RecordSet},
};

fn value(data: Option<&[u8]>) -> Source<'_> {
    Source::new("orders", RecordField::Value, data)
}

fn read<T>(deserializer: impl Deserializer<T>, data: Option<&[u8]>) -> Result<T, String> {
    deserializer
        .deserialize(&value(data))
        .map_err(|error| error.to_string())
}

#[test]
fn values_are_what_kafka_reads() {
    let lines: Vec<_> = include_str!("../golden/serialized.txt").lines().collect();
    assert!(lines.len() > 60);
    for line in lines {
        let [class, hex, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let config = ConsumerConfig::builder("h:1")
            .set("value.deserializer", class)
            .build()
            .unwrap();
        let data = (hex != "null").then(|| from_hex(hex));
        let read = read(AnyDeserializer::from(config.value_deserializer), data.as_deref());
        match expected {
            "no" => assert!(read.is_err(), "{line}: {read:?}"),
            text => assert_eq!(read.map(|value| value.to_string()).as_deref(), Ok(text), "{line}"),
        }
    }
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| str::from_utf8(pair).expect("ASCII"));
    digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
        .collect()
}

#[test]
fn the_type_says_how_to_read() {
    assert_eq!(read(Plain, Some(b"abc")), Ok("abc".to_owned()));
    assert_eq!(read(Plain, Some(b"abc")), Ok(b"abc".to_vec()));
    assert_eq!(read(Plain, Some(b"abc")), Ok(Bytes::from_static(b"abc")));
    assert_eq!(read(Plain, Some(&[0xff, 0xfe])), Ok(-2_i16));
    assert_eq!(read(Plain, Some(&1.5_f64.to_be_bytes())), Ok(1.5_f64));
    let id = read::<Uuid>(Plain, Some(b"00112233-4455-6677-8899-aabbccddeeff")).unwrap();
    assert_eq!(id.as_bytes()[..4], [0, 0x11, 0x22, 0x33]);
    for wrong in [
        "00112233445566778899aabbccddeeff",
        "+0112233-4455-6677-8899-aabbccddeeff",
        "1-1-1-1-1",
    ] {
        assert_eq!(
            read::<Uuid>(Plain, Some(wrong.as_bytes())),
            Err(NotPlain::Uuid.to_string())
        );
    }
    assert_eq!(
        read::<String>(Plain, Some(b"ab\xff")),
        Err("invalid UTF-8 at byte 2".to_owned())
    );
    assert_eq!(
        read::<i64>(Plain, Some(b"abc")),
        Err("expected 8 bytes, found 3".to_owned())
    );
}

#[test]
fn nothing_is_an_error_unless_it_is_expected() {
    let field = RecordField::Value;
    let null = NullField { field }.to_string();
    assert_eq!(
        null,
        "the value is null and its type is not optional; use an Option, or Nullable"
    );
    assert_eq!(read::<String>(Plain, None), Err(null.clone()));
    assert_eq!(read::<i32>(Json, None), Err(null.clone()));
    assert_eq!(read::<Option<String>>(Plain, None), Ok(None));
    assert_eq!(read::<Option<i32>>(Json, None), Ok(None));
    assert_eq!(read::<Option<i32>>(Json, Some(b"null")), Ok(None));
    assert_eq!(read::<()>(Plain, None), Ok(()));
    let length = |source: &Source<'_>| -> Result<usize, BoxError> { Ok(source.required()?.len()) };
    assert_eq!(read(length, None), Err(null));
    assert_eq!(read(Nullable(length), None), Ok(None));
    assert_eq!(read(Nullable(length), Some(b"ab")), Ok(Some(2)));
}

#[test]
fn json_becomes_what_serde_makes_of_it() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Order {
        id: u32,
        note: Option<String>,
    }
    let order = Order { id: 7, note: None };
    assert_eq!(read(Json, Some(br#"{"id": 7}"#)), Ok(order));
    let error = read::<Order>(Json, Some(br#"{"id": 7} x"#)).unwrap_err();
    assert!(error.contains("trailing characters at line 1 column 11"), "{error}");
}

#[test]
fn any_value_can_be_printed() {
    let print = |name: DeserializerName, data: &[u8]| read(AnyDeserializer { name }, Some(data)).unwrap().to_string();
    assert_eq!(print(DeserializerName::Bytes, b"gr\xc3\xbcn \xff\x00"), "grün \\xff\0");
    assert_eq!(print(DeserializerName::Json, b" { \"a\" : [1] } "), "{\"a\":[1]}");
    assert_eq!(
        read(AnyDeserializer::from(DeserializerName::Json), None),
        Ok(AnyValue::Null)
    );
}

/// The error has everything that a dead letter needs.
#[test]
fn a_record_that_cannot_be_read_is_in_its_error() {
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: 41,
        ..BatchOptions::default()
    });
    let record = NewRecord {
        timestamp: 1_700_000_000_000,
        key: Some(b"k"),
        value: Some(b"\xff"),
        headers: &[Header::new("h", b"1"), Header { key: b"h", value: None }],
    };
    builder.append(&record).unwrap();
    let batch = Batches::new(builder.finish()).next().unwrap().unwrap();
    let mut records = RecordSet::default();
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1024);
    batch.decode_into(&mut decoder, &mut records).unwrap();
    let record = records.get(0).unwrap();

    let source = value(record.value()).with_headers(record.headers());
    assert_eq!(source.headers.len(), 2);
    let reason = Deserializer::<String>::deserialize(&Plain, &source).unwrap_err();
    let partition = TopicPartition::new("orders", 3);
    let error = DeserializeError::new(&partition, &record, source.field, reason);
    assert_eq!(
        error.to_string(),
        "the value of orders-3 at offset 41 cannot be read: invalid UTF-8 at byte 0"
    );
    let cause = std::error::Error::source(&error).unwrap().downcast_ref();
    assert_eq!(cause, Some(&NotPlain::Utf8 { valid: 0 }));
    assert_eq!(
        (error.key.as_deref(), error.value.as_deref()),
        (Some(&b"k"[..]), Some(&b"\xff"[..]))
    );
    let header = Bytes::from_static(b"h");
    assert_eq!(
        error.headers,
        [(header.clone(), Some(Bytes::from_static(b"1"))), (header, None)]
    );
    assert_eq!((error.offset, error.timestamp), (41, 1_700_000_000_000));
}
