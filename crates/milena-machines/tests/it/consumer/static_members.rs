//! Static members: they keep their partitions over restarts.

use milena_wire::errors::ErrorCode;

use super::harness::*;

fn join(world: &mut World, member_id: &'static str, instance_id: &str) -> Client {
    let mut client = Client::new(member_id);
    client.topics = names(&["t"]);
    client.instance_id = Some(instance_id.to_owned().into());
    client.beat(world);
    client
}

#[test]
fn an_instance_id_has_one_member() {
    let mut world = World::with_topics(&[("t", 2)]);
    join(&mut world, "a", "one");
    let mut request = joining("b", &["t"]);
    request.instance_id = Some("one".into());
    assert_eq!(world.refused(request), ErrorCode::UnreleasedInstanceId);
}

#[test]
fn who_left_for_a_while_comes_back_to_what_it_had() {
    let mut world = World::with_topics(&[("t", 4)]);
    let mut a = join(&mut world, "a", "one");
    let mut b = join(&mut world, "b", "two");
    world.settle(&mut [&mut a, &mut b]);
    let (had, epoch) = (a.owned.clone(), world.describe(GROUP).group_epoch);

    let mut away = beating("a", -2);
    away.instance_id = Some("one".into());
    let response = world.granted(away);
    assert_eq!(response.member_epoch, -2);
    world.restart();
    b.beat(&mut world);
    let mut again = join(&mut world, "a2", "one");
    assert_eq!(again.owned, had);
    assert_eq!(world.describe(GROUP).group_epoch, epoch, "nobody else is disturbed");
    world.settle(&mut [&mut again, &mut b]);
    assert_eq!(world.refused(beating("a", 3)), ErrorCode::UnknownMemberId);
    let mut old = beating("a", 3);
    old.instance_id = Some("one".into());
    assert_eq!(world.refused(old), ErrorCode::FencedInstanceId);
    world.restart();
}

#[test]
fn who_comes_back_may_have_the_same_id() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = join(&mut world, "a", "one");
    let had = a.owned.clone();
    let mut away = beating("a", -2);
    away.instance_id = Some("one".into());
    world.granted(away.clone());
    a.epoch = 0;
    a.owned.clear();
    a.beat(&mut world);
    assert_eq!(a.owned, had);
    world.restart();
}

#[test]
fn who_does_not_come_back_in_time_is_gone() {
    let mut world = World::with_topics(&[("t", 2)]);
    join(&mut world, "a", "one");
    let mut away = beating("a", -2);
    away.instance_id = Some("one".into());
    world.granted(away);
    world.pass(45_000);
    assert_eq!(world.state(), "Empty");
    world.restart();
}

#[test]
fn only_the_member_of_an_instance_id_may_leave_with_it() {
    let mut world = World::with_topics(&[("t", 2)]);
    join(&mut world, "a", "one");
    for epoch in [-1, -2] {
        let mut request = beating("b", epoch);
        request.instance_id = Some("one".into());
        assert_eq!(world.refused(request.clone()), ErrorCode::FencedInstanceId);
        request.instance_id = Some("two".into());
        assert_eq!(world.refused(request), ErrorCode::UnknownMemberId);
    }
    let mut request = beating("a", -1);
    request.instance_id = Some("one".into());
    world.granted(request);
    assert_eq!(world.state(), "Empty");
}

#[test]
fn who_is_away_may_not_go_on_where_it_was() {
    let mut world = World::with_topics(&[("t", 2)]);
    let a = join(&mut world, "a", "one");
    let mut away = beating("a", -2);
    away.instance_id = Some("one".into());
    world.granted(away);
    let mut request = beating("a", a.epoch);
    request.instance_id = Some("one".into());
    assert_eq!(world.refused(request), ErrorCode::FencedMemberEpoch);
}

fn leave_for_a_while(world: &mut World, member_id: &str, instance_id: &str) {
    let mut away = beating(member_id, -2);
    away.instance_id = Some(instance_id.to_owned().into());
    world.granted(away);
}

#[test]
fn what_a_member_had_yet_to_give_up_is_free_when_it_leaves_for_a_while() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = join(&mut world, "a", "one");
    let mut b = world.join("b", &["t"]);
    a.beat(&mut world);
    b.beat(&mut world);
    assert_eq!((a.count(), b.count()), (1, 0), "a has not said that it let go");
    leave_for_a_while(&mut world, "a", "one");
    b.beat(&mut world);
    assert_eq!(b.count(), 1);
    let mut again = join(&mut world, "a2", "one");
    assert_eq!(again.owned, a.owned, "it has what was not taken from it");
    world.settle(&mut [&mut again, &mut b]);
    world.restart();
}

/// As in Kafka: no commit counts as one of a former owner, whatever its epoch.
#[test]
fn who_leaves_for_a_while_has_its_partitions_since_epoch_0() {
    let mut world = World::with_topics(&[("t", 2)]);
    join(&mut world, "a", "one");
    leave_for_a_while(&mut world, "a", "one");
    let (_, away) = world.currents("a").pop().unwrap();
    assert_eq!(away.member_epoch, -2);
    assert_eq!(away.assigned_partitions[0].partitions, [0, 1]);
    assert_eq!(away.assigned_partitions[0].assignment_epochs, Some(vec![0, 0]));
    join(&mut world, "a2", "one");
    let (_, back) = world.currents("a2").pop().unwrap();
    assert_eq!(back.assigned_partitions[0].assignment_epochs, Some(vec![0, 0]));
}

/// As in Kafka: no epoch of the former member is one of the new member.
#[test]
fn who_takes_the_place_of_a_static_member_begins_with_epoch_0() {
    let mut world = World::with_topics(&[("t", 2)]);
    let a = join(&mut world, "a", "one");
    leave_for_a_while(&mut world, "a", "one");
    let again = join(&mut world, "a2", "one");
    assert_eq!(again.epoch, a.epoch);
    let epochs = world.currents("a2").into_iter();
    let epochs: Vec<_> = epochs
        .map(|(_, current)| (current.member_epoch, current.previous_member_epoch))
        .collect();
    assert_eq!(epochs, [(0, 0), (a.epoch, 0)]);
}
