//! Examples about groups and partitions, each with its own broker.

use crate::{hot_tenant, own_assignor, range_or_round_robin, rolling_restart, stale_commit, static_ids};

#[tokio::test]
async fn a_rolling_restart_stops_less_where_partitions_move_one_by_one() {
    let mut stopped = vec![];
    for (_, settings) in rolling_restart::PROTOCOLS {
        stopped.push(rolling_restart::roll(settings, 4, 12).await.unwrap());
    }
    // All partitions of the others, when a member leaves and when it joins.
    assert!(stopped[0] >= 4 * (9 + 12), "{stopped:?}");
    assert_eq!(stopped[1], 4 * 3, "{stopped:?}");
    assert!(stopped[2] < stopped[0] / 3, "{stopped:?}");
}

#[tokio::test]
async fn others_hear_nothing_of_a_restart_with_an_id() {
    let without = static_ids::restart(false).await.unwrap();
    assert!(without.stopped >= 3 && without.changes >= 3, "{without:?}");
    let with = static_ids::restart(true).await.unwrap();
    let nothing = static_ids::Cost {
        stopped: 0,
        changes: 0,
        same_again: true,
    };
    assert_eq!(with, nothing);
}

#[tokio::test]
async fn range_gives_the_odd_ones_to_the_first() {
    let sizes = |owned: std::collections::BTreeMap<String, Vec<String>>| {
        let sizes = owned.into_values().map(|partitions| partitions.len());
        sizes.collect::<Vec<_>>()
    };
    let range = range_or_round_robin::assigned("range").await.unwrap();
    assert_eq!(range["anna"], ["orders-0", "orders-1", "payments-0", "payments-1"]);
    assert_eq!(sizes(range), [4, 2, 2]);
    let dealt = range_or_round_robin::assigned("roundrobin").await.unwrap();
    assert_eq!(sizes(dealt), [3, 3, 2]);
}

#[tokio::test]
async fn a_hot_tenant_is_spread_over_four_partitions() {
    let usual = hot_tenant::spread(hot_tenant::usual()).await.unwrap();
    assert_eq!(usual.iter().filter(|(_, hot)| *hot > 0).count(), 1);
    let spread = hot_tenant::spread(hot_tenant::for_hot_keys()).await.unwrap();
    assert_eq!(spread.iter().filter(|(_, hot)| *hot > 0).count(), 4);
    let most = |counts: &[(usize, usize)]| counts.iter().map(|(all, _)| *all).max().unwrap();
    assert!(most(&usual) >= 900 && most(&spread) < 500, "{usual:?} {spread:?}");
    let all: usize = spread.iter().map(|(all, _)| all).sum();
    assert_eq!(all, hot_tenant::ORDERS);
}

#[tokio::test]
async fn a_stale_commit_overwrites_a_newer_one_only_if_it_is_sent_again() {
    use stale_commit::Then;
    assert_eq!(stale_commit::committed(Then::Again).await.unwrap(), Some(5));
    assert_eq!(stale_commit::committed(Then::Nothing).await.unwrap(), Some(10));
}

#[tokio::test]
async fn an_own_assignor_shares_by_weight() {
    assert_eq!(own_assignor::shares(&[2, 1]).await.unwrap(), [6, 3]);
    assert_eq!(own_assignor::shares(&[1, 1, 1]).await.unwrap(), [3, 3, 3]);
}
