//! Rebalances of the consumer protocol.

use milena_wire::errors::ErrorCode;

use super::harness::*;

#[test]
fn a_second_member_waits_until_the_first_has_let_go() {
    let mut world = World::with_topics(&[("t", 4)]);
    let mut a = world.join("a", &["t"]);
    let mut b = world.join("b", &["t"]);
    assert_eq!((b.count(), b.epoch), (0, 3), "all is still owned");
    assert_eq!(world.state(), "Reconciling");

    let response = world.granted(beating("a", a.epoch));
    assert_eq!(assignment(&response).unwrap(), owned(&[("t", &[0, 1])]));
    assert_eq!(
        response.member_epoch, 2,
        "the epoch stays while there is something to revoke"
    );
    world.granted(beating("a", a.epoch));
    b.beat(&mut world);
    assert_eq!(b.count(), 0, "a has not said that it let go");

    a.take_in(&response);
    a.beat(&mut world);
    assert_eq!(a.epoch, 3);
    b.beat(&mut world);
    assert_eq!(b.owned, owned(&[("t", &[2, 3])]));
    assert_eq!(world.state(), "Stable");
    world.restart();
}

#[test]
fn a_member_that_does_not_let_go_is_fenced_in_time() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = world.join("a", &["t"]);
    let mut b = world.join("b", &["t"]);
    let stuck = world.granted(beating("a", a.epoch));
    a.take_in(&stuck);
    for _ in 0..5 {
        world.pass(i64::from(REBALANCE_TIMEOUT_MS) / 6);
        world.granted(beating("a", 2));
        b.beat(&mut world);
    }
    world.pass(i64::from(REBALANCE_TIMEOUT_MS) / 6);
    assert_eq!(world.refused(beating("a", 2)), ErrorCode::UnknownMemberId);
    b.beat(&mut world);
    assert_eq!(b.owned, owned(&[("t", &[0, 1])]));
}

#[test]
fn a_member_that_must_let_go_has_all_its_time_after_a_restart() {
    let mut world = World::with_topics(&[("t", 2)]);
    let a = world.join("a", &["t"]);
    let mut b = world.join("b", &["t"]);
    world.granted(beating("a", a.epoch));
    world.pass(30_000);
    world.restart();
    world.pass(40_000);
    world.granted(beating("a", a.epoch));
    b.beat(&mut world);
    world.pass(20_000);
    assert_eq!(world.refused(beating("a", 2)), ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_that_has_let_go_is_not_fenced() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = world.join("a", &["t"]);
    let mut b = world.join("b", &["t"]);
    world.settle(&mut [&mut a, &mut b]);
    for _ in 0..10 {
        world.pass(10_000);
        a.beat(&mut world);
        b.beat(&mut world);
    }
}

#[test]
fn when_a_member_leaves_the_others_take_over() {
    let mut world = World::with_topics(&[("t", 5)]);
    let mut a = world.join("a", &["t"]);
    let mut b = world.join("b", &["t"]);
    let mut c = world.join("c", &["t"]);
    world.settle(&mut [&mut a, &mut b, &mut c]);
    let before = (a.owned.clone(), b.owned.clone());
    let response = world.granted(beating("c", -1));
    assert_eq!((response.member_epoch, response.member_id.as_deref()), (-1, Some("c")));
    assert_eq!(world.state(), "Assigning");
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!(a.count() + b.count(), 5);
    assert!(before.0.values().all(|had| had.is_subset(&a.owned[&topic_id("t")])));
    assert!(before.1.values().all(|had| had.is_subset(&b.owned[&topic_id("t")])));
    a.leave(&mut world);
    b.leave(&mut world);
    assert_eq!(world.state(), "Empty");
    world.restart();
}

#[test]
fn a_new_subscription_moves_the_member_at_once() {
    let mut world = World::with_topics(&[("t", 2), ("u", 2)]);
    let mut a = world.join("a", &["t"]);
    let mut request = beating("a", a.epoch);
    request.subscribed_topic_names = Some(names(&["u"]));
    let response = world.granted(request);
    a.take_in(&response);
    assert_eq!(a.owned, owned(&[]), "t must be given up first");
    a.beat(&mut world);
    assert_eq!(a.owned, owned(&[("u", &[0, 1])]));
}

#[test]
fn topics_that_are_created_grown_or_deleted_reach_members() {
    let mut world = World::with_topics(&[("t", 1)]);
    let mut a = world.join("a", &["t", "later"]);
    let mut b = world.join("b", &["t", "later"]);
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!(a.count() + b.count(), 1);
    world.create_topic("unrelated", 1);
    world.settle(&mut [&mut a, &mut b]);
    let epoch = world.describe(GROUP).group_epoch;

    world.create_topic("later", 3);
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!((a.count(), b.count()), (2, 2));
    assert_eq!(world.describe(GROUP).group_epoch, epoch + 1);

    world.create_topic("t", 5);
    world.settle(&mut [&mut a, &mut b]);
    assert_eq!((a.count(), b.count()), (4, 4));

    world.delete_topic("later");
    world.settle(&mut [&mut a, &mut b]);
    let (most, least) = (a.count().max(b.count()), a.count().min(b.count()));
    assert_eq!((most, least), (3, 2));
    assert!(!a.owned.contains_key(&topic_id("later")));
    world.restart();
}

#[test]
fn topics_that_change_while_the_broker_is_down_reach_members() {
    let mut world = World::with_topics(&[("t", 1)]);
    let mut a = world.join("a", &["t"]);
    let image = milena_machines::TopicImage {
        id: topic_id("t"),
        partitions: 2,
    };
    world.topics.insert("t".into(), image);
    world.restart();
    world.settle(&mut [&mut a]);
    assert_eq!(a.count(), 2);
}

#[test]
fn members_choose_the_assignor_by_majority() {
    let mut world = World::with_topics(&[("t", 2), ("u", 2)]);
    let mut clients = ["a", "b", "c"].map(|member_id| {
        let mut client = Client::new(member_id);
        client.topics = names(&["t", "u"]);
        client.assignor = Some(if member_id == "a" { "uniform" } else { "range" }.into());
        client
    });
    clients[0].beat(&mut world);
    assert_eq!(world.describe(GROUP).assignor_name, "uniform");
    let mut clients: Vec<&mut Client> = clients.iter_mut().collect();
    world.settle(&mut clients);
    assert_eq!(world.describe(GROUP).assignor_name, "range");
    let owned_by: Vec<Owned> = clients.iter().map(|client| client.owned.clone()).collect();
    assert_eq!(
        owned_by,
        [
            owned(&[("t", &[0]), ("u", &[0])]),
            owned(&[("t", &[1]), ("u", &[1])]),
            owned(&[])
        ]
    );
}

/// Compaction may leave a log in which a member has got a partition before its former owner has revoked it.
#[test]
fn a_log_that_tells_of_the_next_owner_first_does_not_take_the_partition_from_it() {
    let mut world = World::with_topics(&[("t", 4)]);
    let mut clients = ["a", "b"].map(|member_id| {
        let mut client = Client::new(member_id);
        client.topics = names(&["t"]);
        client.assignor = Some("range".into());
        client
    });
    let [a, b] = &mut clients;
    world.settle(&mut [a, b]);
    assert_eq!(b.owned, owned(&[("t", &[2, 3])]));
    let (let_go, _) = world.currents("a").pop().unwrap();
    let (got, _) = world.currents("b").pop().unwrap();
    assert!(let_go < got);
    let record = world.log.remove(got);
    world.log.insert(let_go, record);
    world.restart();
    let mut c = Client::new("c");
    c.topics = names(&["t"]);
    c.assignor = Some("range".into());
    c.beat(&mut world);
    assert_eq!(c.count(), 0, "what c is to have is still with b");
    world.settle(&mut [a, b, &mut c]);
    assert_eq!(c.owned, owned(&[("t", &[3])]));
}
