//! The arithmetic: rates, throttle times, token buckets.

use milena_machines::quota::{Rate, TokenBucket, Window, throttle_ms};

fn window(samples: u32, seconds: i64) -> Window {
    Window {
        samples,
        sample_ms: seconds * 1000,
    }
}

#[test]
fn a_rate_without_earlier_samples_counts_them_as_empty() {
    for (samples, seconds) in [(1, 1), (1, 11), (11, 1), (11, 11)] {
        let window = window(samples, seconds);
        let (mut rate, start) = (Rate::default(), 1_000_000);
        rate.record(window, 50.0, start);
        let elapsed = seconds * 1000 - 1;
        let span = elapsed as f64 / 1000.0 + f64::from(samples - 1) * seconds as f64;
        assert!((rate.measure(window, start + elapsed) - 50.0 / span).abs() < 1e-6);
    }
}

#[test]
fn a_rate_is_consistent_after_the_first_window() {
    let window = window(2, 1);
    let steps = [0, 99, 100, 100, 100, 100, 100, 100, 100, 100, 100];
    let (mut rate, mut now) = (Rate::default(), 5_000);
    for step in steps {
        now += step;
        rate.record(window, 1.0, now);
    }
    now += 101;
    for step in steps {
        now += step;
        rate.record(window, 1.0, now);
        let measured = rate.measure(window, now);
        assert!((10.0..=11.0).contains(&measured), "{measured}");
        assert_eq!(rate.measure(window, now), measured);
    }
}

#[test]
fn a_rate_of_no_time_spans_a_millisecond() {
    let window = window(1, 1);
    let mut rate = Rate::default();
    rate.record(window, 3.0, 7);
    assert_eq!(rate.span_ms(window, 7), 1);
    assert_eq!(rate.measure(window, 7), 3000.0);
}

#[test]
fn throttle_times_are_those_of_kafka() {
    // Rate, quota, samples of one second: the span of a new rate is one sample less.
    for (rate, quota, samples, expected) in [
        (16.5, 16.5, 10, 0),
        (16.5, 16.5, 11, 0),
        (100.0, 50.0, 3, 2000),
        (55.0, 50.0, 2, 100),
        (100.0, 50.0, 10, 9000),
    ] {
        let span = Rate::default().span_ms(window(samples, 1), 0);
        assert_eq!(throttle_ms(rate, quota, span), expected, "{rate} {quota} {samples}");
    }
    assert!(throttle_ms(16.5, 20.4, 9000) < 0);
    assert_eq!(throttle_ms(1e300, f64::MIN_POSITIVE, 1000), i64::MAX);
}

#[test]
fn a_token_bucket_is_full_at_first_and_fills_up_to_its_size() {
    let (window, quota) = (window(10, 2), 5.0);
    let (mut bucket, now) = (TokenBucket::default(), 1_000_000);
    assert_eq!(bucket.measure(window, quota, now), 100.0);
    bucket.record(window, quota, 60.0, now);
    assert_eq!(bucket.measure(window, quota, now), 40.0);
    bucket.record(window, quota, 5.0, now + 2000);
    assert_eq!(bucket.measure(window, quota, now + 2000), 45.0);
    bucket.record(window, quota, 60.0, now + 4000);
    assert_eq!(bucket.measure(window, quota, now + 4000), -5.0);
}

#[test]
fn tokens_that_are_given_back_do_not_exceed_the_size() {
    let (window, quota) = (window(10, 2), 5.0);
    let (mut bucket, now) = (TokenBucket::default(), 1_000_000);
    bucket.record(window, quota, -60.0, now);
    assert_eq!(bucket.measure(window, quota, now), 100.0);
    bucket.record(window, quota, 60.0, now + 2000);
    assert_eq!(bucket.measure(window, quota, now + 2000), 40.0);
    bucket.record(window, quota, -60.0, now + 4000);
    assert_eq!(bucket.measure(window, quota, now + 4000), 100.0);
}

#[test]
fn a_clock_that_goes_back_gives_no_tokens_and_no_panic() {
    let window = Window::default();
    let mut bucket = TokenBucket::default();
    bucket.record(window, 1.0, 11.0, 1000);
    assert_eq!(bucket.measure(window, 1.0, 0), 0.0);
    let mut rate = Rate::default();
    rate.record(window, 5.0, 1000);
    rate.record(window, 5.0, 0);
    assert!(rate.measure(window, 0) > 0.0);
}

#[test]
fn an_overdrawn_bucket_throttles_until_its_debt_is_gone() {
    for (tokens, expected) in [(0.0, 0), (-5.0, 500), (-10.0, 1000), (3.0, 0)] {
        assert_eq!(TokenBucket::throttle_ms(tokens, 10.0), expected);
    }
}
