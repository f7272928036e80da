//! Hostile bytes: no panic, and no memory beyond their own size.

use bytes::{Bytes, BytesMut};
use milena_wire::frame::{FrameError, RequestFrame, frame_length};

use crate::{
    arbitrary::Source,
    every_message::{self, AnyMessage},
    vectors,
};

/// The most memory a decoded message may take for each byte of its frame. An empty string takes one byte on the wire
/// and 32 in memory, and that is the worst ratio there is up to the struct around it; an enemy can also announce a
/// count at each level of nesting that only the bytes left bound.
const MEMORY_PER_BYTE: u64 = 64;
/// Memory for the error itself.
const MEMORY_FIXED: u64 = 1024;

const SEEDS: u64 = 40;

fn decode_within_bound(message: &AnyMessage, bytes: &Bytes, version: i16) {
    let mut outcome = Ok(());
    let allocated = allocation_counter::measure(|| outcome = (message.decode)(bytes, version));
    let allowed = MEMORY_PER_BYTE * bytes.len() as u64 + MEMORY_FIXED;
    assert!(
        allocated.bytes_max <= allowed,
        "{} version {version}: {} bytes allocated for {}: {bytes:?}: {outcome:?}",
        message.name,
        allocated.bytes_max,
        bytes.len()
    );
}

/// Damage as an enemy would do it: counts that promise too much, random bytes, missing and repeated parts.
fn damage(source: &mut Source, bytes: &Bytes) -> Bytes {
    let mut bytes = BytesMut::from(&bytes[..]);
    for _ in 0..1 + source.below(3) {
        if bytes.is_empty() {
            break;
        }
        let place = source.below(bytes.len());
        match source.below(5) {
            0 => bytes[place] = source.next() as u8,
            1 => bytes[place..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            2 => bytes[place..]
                .iter_mut()
                .take(4)
                .zip([0x7f, 0xff, 0xff, 0xff])
                .for_each(|(byte, new)| *byte = new),
            3 => bytes.truncate(place),
            _ => {
                let tail = bytes.split_off(place);
                bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
                bytes.extend_from_slice(&tail);
            }
        }
    }
    bytes.freeze()
}

#[test]
fn damaged_messages_neither_panic_nor_allocate() {
    for seed in 0..SEEDS {
        let mut source = Source::new(seed);
        for message in every_message::ALL {
            for version in message.versions.iter() {
                let bytes = (message.round_trip)(&mut source, version).unwrap();
                decode_within_bound(message, &damage(&mut source, &bytes), version);
            }
        }
    }
}

#[test]
fn random_bytes_neither_panic_nor_allocate() {
    for seed in 0..SEEDS {
        let mut source = Source::new(seed);
        for message in every_message::ALL {
            for version in message.versions.iter() {
                let length = source.below(300);
                // Small numbers are the counts and lengths that lead deep into a message.
                let small = source.below(2) == 0;
                let bytes = (0..length).map(|_| {
                    if small {
                        source.below(4) as u8
                    } else {
                        source.next() as u8
                    }
                });
                decode_within_bound(message, &bytes.collect(), version);
            }
        }
    }
}

#[test]
fn a_cut_message_is_an_error_wherever_it_is_cut() {
    for vector in vectors::messages()
        .into_iter()
        .filter(|vector| vector.variant == "full")
    {
        let message = every_message::find(&vector.name);
        for length in 0..vector.bytes.len() {
            let cut = vector.bytes.slice(..length);
            let outcome = (message.decode)(&cut, vector.version);
            assert!(
                outcome.is_err(),
                "{} version {} cut at {length}",
                vector.name,
                vector.version
            );
        }
    }
}

#[test]
fn an_error_says_where() {
    let vector = vectors::message("FetchRequest", 12, "full");
    let message = every_message::find("FetchRequest");
    let cut = vector.bytes.slice(..10);
    let error = (message.decode)(&cut, 12).unwrap_err();
    assert_eq!(
        error,
        "FetchRequest version 12, field min_bytes, byte 8: 4 bytes needed, 2 left"
    );
    // Four bytes that made another library allocate gigabytes.
    let error = (every_message::find("MetadataRequest").decode)(&Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff]), 0);
    assert_eq!(
        error.unwrap_err(),
        "MetadataRequest version 0, field topics, byte 4: 2147483647 elements cannot fit in the 0 bytes left"
    );
}

#[test]
fn a_frame_length_is_checked_before_it_is_believed() {
    assert_eq!(frame_length([0, 0, 1, 0], 256), Ok(256));
    let too_long = FrameError::TooLong {
        length: 257,
        length_max: 256,
    };
    assert_eq!(frame_length([0, 0, 1, 1], 256), Err(too_long));
    // The start of an HTTP request: "GET ".
    assert!(matches!(
        frame_length(*b"GET ", 100 << 20),
        Err(FrameError::TooLong { .. })
    ));
    assert_eq!(frame_length([0xff; 4], 256), Err(FrameError::Negative { length: -1 }));
}

#[test]
fn random_request_frames_neither_panic_nor_allocate() {
    for seed in 0..20_000 {
        let mut source = Source::new(seed);
        let length = source.below(40);
        let mut bytes: Vec<u8> = (0..length).map(|_| source.next() as u8).collect();
        // Half of them with a key that exists.
        if let Some(start) = bytes.first_chunk_mut::<2>().filter(|_| seed % 2 == 0) {
            *start = [0, source.below(93) as u8];
        }
        let frame = Bytes::from(bytes);
        let allocated = allocation_counter::measure(|| drop(RequestFrame::parse(frame.clone())));
        assert!(allocated.bytes_max <= MEMORY_FIXED + MEMORY_PER_BYTE * length as u64);
    }
}
