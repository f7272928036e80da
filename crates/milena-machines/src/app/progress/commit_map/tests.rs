use super::*;
use crate::{Random, app::tracker::tests::finished};

const ROOM: Room = Room {
    chars: 4_096,
    wide: true,
};

/// Delivers `count` offsets from `base` on, and completes those that `done` selects.
fn tracker(base: i64, count: i64, mut done: impl FnMut(i64) -> bool) -> Tracker {
    let mut tracker = Tracker::new(1, base, vec![]);
    for offset in base..base + count {
        tracker.deliver(offset, None, 1);
    }
    for offset in base + 1..base + count {
        if done(offset) {
            tracker.complete(1, offset, 1);
        }
    }
    tracker
}

#[test]
fn nothing_done_above_the_commit_is_no_text() {
    assert_eq!(encode(&tracker(5, 100, |_| false), ROOM), EncodedMap::default());
    assert_eq!(decode("", 5), Ok(vec![]));
}

#[test]
fn what_is_written_is_read_again() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let share = random.below(101);
        let base = [0, 7, i64::MAX / 2][random.below(3) as usize];
        let tracker = tracker(base, 1 + random.below(20_000) as i64, |_| random.below(100) < share);
        let encoded = encode(&tracker, ROOM);
        assert!(!encoded.cut);
        let ranges = decode(&encoded.text, tracker.frontier()).unwrap();
        assert_eq!(ranges, finished(&tracker));
        let told: i64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(told as u64, encoded.told);
    }
}

#[test]
fn base64_is_used_as_long_as_it_fits() {
    let small = encode(&tracker(0, 1_000, |offset| offset % 2 == 0), ROOM);
    assert!(small.text.starts_with("M1:"), "{}", small.text);
    let mut random = Random::new(1);
    let large = encode(&tracker(0, 60_000, |_| random.below(2) == 0), ROOM);
    assert!(large.text.starts_with("M1;"));
    assert!(!large.cut);
    assert!(large.text.encode_utf16().count() <= 4_096);
}

#[test]
fn few_holes_in_many_offsets_are_short() {
    let mut random = Random::new(3);
    let text = encode(&tracker(0, 100_000, |_| random.below(100) > 0), ROOM).text;
    assert!(text.encode_utf16().count() <= 3_200, "{}", text.encode_utf16().count());
    assert!(text.starts_with("M1:"));
}

/// Never more than fits, never an unfinished offset.
#[test]
fn what_does_not_fit_is_cut_and_not_dropped() {
    let mut random = Random::new(4);
    let tracker = tracker(10, 300_000, |_| random.below(2) == 0);
    for room in [ROOM, Room { wide: false, ..ROOM }, Room { chars: 60, ..ROOM }] {
        let encoded = encode(&tracker, room);
        assert!(encoded.cut);
        assert!(encoded.text.encode_utf16().count() <= room.chars);
        let ranges = decode(&encoded.text, 10).unwrap();
        let told: i64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(told as u64, encoded.told);
        assert!(told as u64 > room.offsets() / 3);
        let all = finished(&tracker);
        for range in ranges {
            assert!(
                all.iter()
                    .any(|whole| whole.start == range.start && range.end <= whole.end)
            );
        }
    }
    assert_eq!(
        encode(&tracker, Room { chars: 3, ..ROOM }),
        EncodedMap {
            cut: true,
            ..EncodedMap::default()
        }
    );
}

#[test]
fn whatever_is_done_within_the_room_fits() {
    for wide in [true, false] {
        let room = Room { wide, ..ROOM };
        let offsets = room.offsets() as i64;
        assert!(offsets >= if wide { 60_000 } else { 24_000 });
        let encoded = encode(&tracker(1 << 60, offsets, |offset| offset % 2 == 1), room);
        assert!(!encoded.cut);
        assert!(encoded.text.encode_utf16().count() <= room.chars);
    }
}

#[test]
fn a_map_for_another_offset_is_refused() {
    let encoded = encode(&tracker(50, 10, |offset| offset == 55), ROOM);
    let error = MapError::OtherBase {
        made_for: 50,
        committed: 51,
    };
    assert_eq!(decode(&encoded.text, 51), Err(error));
}

#[test]
fn metadata_of_others_is_recognised() {
    assert_eq!(decode("AQAAAYsgW2gA", 0), Err(MapError::KafkaStreams));
    assert_eq!(decode("AgAAAYsgW2gAAAAAAA==", 0), Err(MapError::KafkaStreams));
    assert_eq!(decode("bAAFLw==", 0), Err(MapError::ParallelConsumer));
    assert_eq!(decode("bgABAAI=", 0), Err(MapError::ParallelConsumer));
    assert_eq!(decode("deployed by ci", 0), Err(MapError::Foreign));
    assert_eq!(decode("M", 0), Err(MapError::Foreign));
    assert_eq!(decode("M2:AAAA", 0), Err(MapError::Version('2')));
    assert_eq!(decode("M1:AAAA", 0), Err(MapError::Damaged));
}

/// Damaged text never makes an unfinished offset count as done.
#[test]
fn damage_is_found() {
    let mut random = Random::new(6);
    for chars in [4_096, 120] {
        let map = encode(
            &tracker(50, 3_000, |offset| offset % 3 == 0),
            Room { chars, wide: true },
        );
        let text: Vec<char> = map.text.chars().collect();
        for _ in 0..2_000 {
            let mut broken = text.clone();
            match random.below(3) {
                0 => broken.truncate(random.below(text.len() as u64) as usize),
                1 => drop(broken.remove(random.below(text.len() as u64) as usize)),
                _ => {
                    let from = broken[random.below(text.len() as u64) as usize];
                    broken[random.below(text.len() as u64) as usize] = from;
                }
            }
            if broken != text && !broken.is_empty() {
                let broken: String = broken.into_iter().collect();
                assert!(decode(&broken, 50).is_err(), "{broken}");
            }
        }
    }
}

fn some_crashes(random: &mut Random, base: i64) -> CrashCounters {
    CrashCounters {
        count: 1 + random.below(1_000) as u32,
        reach: (random.below(2) == 0).then(|| base + 1 + random.below(1 << 40) as i64),
        alone: random.below(2) == 0,
    }
}

#[test]
fn what_is_told_of_owners_that_died_is_read_again() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let base = [0, 7, i64::MAX / 2][random.below(3) as usize];
        let share = random.below(101);
        let tracker = tracker(base, 1 + random.below(2_000) as i64, |_| random.below(100) < share);
        let crashes = some_crashes(&mut random, tracker.frontier());
        let encoded = encode_with(&tracker, crashes, ROOM);
        let told = read(&encoded.text, tracker.frontier()).unwrap();
        assert_eq!((told.finished, told.crashes), (finished(&tracker), crashes));
        // Without crashes the text is that of older versions.
        assert_eq!(
            encode_with(&tracker, CrashCounters::default(), ROOM),
            encode(&tracker, ROOM)
        );
    }
}

/// From a version without crash counters.
#[test]
fn older_maps_are_read_as_ever() {
    let told = read("M1:7JOLhAAlDA", 37).unwrap();
    assert_eq!(told.crashes, CrashCounters::default());
    assert_eq!(told.finished, [FinishedRange { start: 39, end: 41 }]);
}

/// The map only saves work; crash counters are written as long as they fit.
#[test]
fn where_room_is_little_the_map_is_cut_first() {
    let mut random = Random::new(5);
    let tracker = tracker(1 << 40, 30_000, |_| random.below(2) == 0);
    for chars in [4_096, 200, 60, 30] {
        for wide in [true, false] {
            let crashes = some_crashes(&mut random, tracker.frontier());
            let encoded = encode_with(&tracker, crashes, Room { chars, wide });
            assert!(encoded.text.encode_utf16().count() <= chars);
            assert_eq!(read(&encoded.text, tracker.frontier()).unwrap().crashes, crashes);
        }
    }
    let none = encode_with(
        &tracker,
        some_crashes(&mut random, 1 << 40),
        Room { chars: 8, wide: false },
    );
    assert_eq!(none.text, "");
}

/// Any client that can commit can write any metadata with a valid checksum.
#[test]
fn nothing_that_strangers_write_is_too_much() {
    let mut random = Random::new(8);
    for _ in 0..20_000 {
        let mut payload = vec![0, 0, 0, 0, random.below(5) as u8];
        write_varint(&mut payload, 50);
        for _ in 0..random.below(24) {
            payload.push([0xff, 0x80, 0x7f, random.next_u64() as u8][random.below(4) as usize]);
        }
        while payload.last() == Some(&0) {
            payload.pop();
        }
        let text = to_text(payload, 4_093, false);
        if let Ok(told) = read(&text, 50) {
            assert!(told.finished.len() < 24 * 8);
            assert!(told.crashes.reach.is_none_or(|reach| reach > 50));
        }
    }
}

#[test]
fn metadata_of_an_offset_that_was_left_behind_tells_what_is_above() {
    let range = |start, end| FinishedRange { start, end };
    let metadata = |reach| CommitMetadata {
        finished: vec![range(51, 53), range(54, 58)],
        crashes: CrashCounters {
            count: 2,
            reach,
            alone: true,
        },
    };
    assert_eq!(metadata(Some(60)).since(50, 50), metadata(Some(60)));
    let above = metadata(Some(60)).since(50, 55);
    assert_eq!(above.finished, [range(55, 58)]);
    assert_eq!((above.crashes.count, above.crashes.alone), (2, false));
    // Those that crashed are past their records.
    for reach in [None, Some(55)] {
        assert_eq!(metadata(reach).since(50, 55).crashes, CrashCounters::default());
    }
}
