//! Subscriptions by regular expression.

use milena_wire::errors::ErrorCode;

use super::harness::*;

fn joining_by(member_id: &'static str, regex: &str) -> Client {
    let mut client = Client::new(member_id);
    client.regex = Some(regex.to_owned().into());
    client
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    let mut world = World::with_topics(&[("t", 1)]);
    assert_eq!(
        world.refused(joining_by("a", "(").request()),
        ErrorCode::InvalidRegularExpression
    );
    let mut a = world.join("a", &["t"]);
    let mut request = beating("a", a.epoch);
    request.subscribed_topic_regex = Some("[".into());
    assert_eq!(world.refused(request), ErrorCode::InvalidRegularExpression);
    assert_eq!(
        world.refused(joining_by("b", "(").request()),
        ErrorCode::InvalidRegularExpression
    );
    world.settle(&mut [&mut a]);
}

#[test]
fn a_pattern_brings_all_topics_that_it_matches_whole() {
    let mut world = World::with_topics(&[("foo-1", 1), ("foo-2", 2), ("a-foo", 1)]);
    let mut a = joining_by("a", "foo.*");
    a.beat(&mut world);
    assert_eq!(a.owned, owned(&[("foo-1", &[0]), ("foo-2", &[0, 1])]));
    world.settle(&mut [&mut a]);
    world.restart();
}

#[test]
fn names_and_a_pattern_add_up() {
    let mut world = World::with_topics(&[("foo-1", 1), ("bar", 1), ("other", 1)]);
    let mut a = joining_by("a", "foo.*");
    a.topics = names(&["bar", "foo-1"]);
    a.beat(&mut world);
    assert_eq!(a.owned, owned(&[("foo-1", &[0]), ("bar", &[0])]));
}

#[test]
fn a_topic_that_is_created_later_is_found_and_one_that_is_deleted_goes() {
    let mut world = World::with_topics(&[("foo-1", 1)]);
    let mut a = joining_by("a", "foo.*");
    let mut b = joining_by("b", "foo.*");
    world.settle(&mut [&mut a, &mut b]);
    world.create_topic("foo-2", 3);
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!((a.count(), b.count()), (2, 2));
    world.create_topic("unrelated", 3);
    world.settle(&mut [&mut a, &mut b]);
    world.delete_topic("foo-2");
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!(a.count() + b.count(), 1);
    world.restart();
    world.settle(&mut [&mut a, &mut b]);
}

#[test]
fn topics_are_looked_for_again_in_every_interval() {
    let mut world = World::with_topics(&[("foo-1", 1)]);
    let mut a = joining_by("a", "foo.*");
    world.settle(&mut [&mut a]);
    for _ in 0..30 {
        world.pass(30_000);
        a.beat(&mut world);
    }
    assert_eq!(a.count(), 1);
    world.create_topic("foo-2", 1);
    a.beat(&mut world);
    assert_eq!(a.count(), 2);
}

#[test]
fn an_unused_pattern_is_removed() {
    let mut world = World::with_topics(&[("foo-1", 1), ("bar", 1)]);
    let mut a = joining_by("a", "foo.*");
    let mut b = joining_by("b", "bar");
    world.settle(&mut [&mut a, &mut b]);
    let mut request = beating("a", a.epoch);
    request.subscribed_topic_regex = Some("".into());
    request.subscribed_topic_names = Some(vec![]);
    let response = world.granted(request);
    a.take_in(&response);
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!((a.count(), b.count()), (0, 1));
    b.leave(&mut world);
    // No member subscribes to a topic now, so that a new one concerns none.
    world.settle(&mut [&mut a]);
    let epoch = world.describe(GROUP).group_epoch;
    world.create_topic("foo-2", 1);
    world.settle(&mut [&mut a]);
    assert_eq!(world.describe(GROUP).group_epoch, epoch);
    world.restart();
}
