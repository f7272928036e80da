//! Properties of every codec.

use proptest::prelude::*;

use super::*;

const LIMIT: usize = 1 << 20;
const COMPRESSED: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn compress(codec: Codec, input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Compressor::new(codec.into()).compress(input, &mut out).unwrap();
    out
}

fn sample() -> Vec<u8> {
    b"a small sample, a small sample, with small differences; ".repeat(4)
}

/// Anything from noise to long repetitions, up to 300 KB.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let unit = prop::collection::vec(any::<u8>(), 0..3000);
    (unit, 1usize..100, any::<u64>()).prop_map(|(unit, times, seed)| {
        let mut content = unit.repeat(times);
        // One byte in a while differs, so that not all is one repetition.
        let mut position = seed as usize % 997;
        while let Some(byte) = content.get_mut(position) {
            *byte ^= seed as u8;
            position += 1 + (seed >> 8) as usize % 997;
        }
        content
    })
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    (0usize..300_000, any::<u64>()).prop_map(|(length, seed)| {
        let mut state = seed | 1;
        let next = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        });
        next.take(length).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_was_compressed_comes_back(content in prop_oneof![contents(), noise()]) {
        let mut decompressor = Decompressor::new();
        for codec in Codec::ALL {
            let mut compressor = Compressor::new(codec.into());
            let mut out = b"before".to_vec();
            // Twice, because a context carries state over.
            for _ in 0..2 {
                let mut compressed = b"also before".to_vec();
                compressor.compress(&content, &mut compressed).unwrap();
                out.truncate(6);
                decompressor
                    .decompress(codec, &compressed[11..], &mut out, content.len())
                    .unwrap();
                prop_assert_eq!(&out[..6], b"before");
                prop_assert!(out[6..] == content[..], "{} differs", codec);
            }
        }
    }

    #[test]
    fn noise_as_input_is_harmless(input in prop::collection::vec(any::<u8>(), 0..200)) {
        for codec in COMPRESSED {
            let _ = check_harmless(codec, &input);
        }
    }

    #[test]
    fn levels_come_back(level in prop_oneof![-131_072i32..=22, -1i32..=22], content in contents()) {
        for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
            let Ok(compression) = Compression::with_level(codec, level) else {
                continue;
            };
            let mut compressed = Vec::new();
            Compressor::new(compression).compress(&content, &mut compressed).unwrap();
            let mut out = Vec::new();
            Decompressor::new().decompress(codec, &compressed, &mut out, content.len()).unwrap();
            prop_assert!(out == content);
        }
    }
}

/// For any input, the limit holds and an error leaves the output unchanged.
fn check_harmless(codec: Codec, input: &[u8]) -> Result<(), DecompressError> {
    let limit = 10_000;
    let mut out = b"before".to_vec();
    let result = Decompressor::new().decompress(codec, input, &mut out, limit);
    let appended = out.len() - 6;
    assert!(out.starts_with(b"before"));
    assert!(appended <= limit);
    assert!(out.capacity() <= limit + 7);
    assert!(result.is_ok() || appended == 0);
    result
}

#[test]
fn a_bomb_is_an_error_and_not_an_allocation() {
    let zeros = vec![0; 64 << 20];
    for codec in Codec::ALL {
        let bomb = compress(codec, &zeros);
        let mut out = Vec::new();
        assert_eq!(
            Decompressor::new().decompress(codec, &bomb, &mut out, LIMIT),
            Err(DecompressError::TooLarge { codec, limit: LIMIT })
        );
        assert!(out.capacity() <= LIMIT + 1, "{codec}: {}", out.capacity());
    }
}

#[test]
fn the_limit_is_exact() {
    let sample = sample();
    for codec in Codec::ALL {
        let compressed = compress(codec, &sample);
        for capacity in [0, 10_000] {
            let mut decompressor = Decompressor::new();
            let mut out = Vec::with_capacity(capacity);
            decompressor
                .decompress(codec, &compressed, &mut out, sample.len())
                .unwrap();
            assert_eq!(out, sample);
            out.clear();
            let result = decompressor.decompress(codec, &compressed, &mut out, sample.len() - 1);
            assert!(
                matches!(result, Err(DecompressError::TooLarge { .. })),
                "{codec}: {result:?}"
            );
            assert!(out.is_empty());
        }
    }
}

#[test]
fn input_that_ends_early_is_an_error() {
    const SNAPPY_HEADER: usize = 16;
    for codec in COMPRESSED {
        let compressed = compress(codec, &sample());
        for length in 0..compressed.len() {
            let result = check_harmless(codec, &compressed[..length]);
            // Snappy streams have no end mark: a header alone is an empty one.
            if codec == Codec::Snappy && length == SNAPPY_HEADER {
                assert_eq!(result, Ok(()));
            } else {
                assert!(result.is_err(), "{codec} cut to {length}");
            }
        }
        check_harmless(codec, &compressed).unwrap();
    }
}

#[test]
fn any_changed_byte_is_harmless() {
    for codec in COMPRESSED {
        let compressed = compress(codec, &sample());
        for position in 0..compressed.len() {
            for value in 0..=u8::MAX {
                let mut damaged = compressed.clone();
                damaged[position] = value;
                // Without a checksum some damage goes unnoticed.
                let _ = check_harmless(codec, &damaged);
            }
        }
    }
}

#[test]
fn one_decompressor_serves_all_codecs_also_after_errors() {
    let sample = sample();
    let mut decompressor = Decompressor::new();
    let mut out = Vec::new();
    for _ in 0..3 {
        for codec in COMPRESSED {
            let compressed = compress(codec, &sample);
            let cut = &compressed[..compressed.len() - 1];
            assert!(decompressor.decompress(codec, cut, &mut out, LIMIT).is_err());
            assert!(decompressor.decompress(codec, &compressed, &mut out, 1).is_err());
            decompressor.decompress(codec, &compressed, &mut out, LIMIT).unwrap();
            assert_eq!(out, sample);
            out.clear();
        }
    }
}

#[test]
fn empty_content_comes_back() {
    for codec in Codec::ALL {
        let mut out = Vec::new();
        Decompressor::new()
            .decompress(codec, &compress(codec, b""), &mut out, 0)
            .unwrap();
        assert!(out.is_empty());
    }
}

#[test]
fn both_can_move_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Decompressor>();
    is_send::<Compressor>();
}
