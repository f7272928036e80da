//! The most even balance.

use super::{network::Network, paths::Levels};

/// Balances the loads of all members as far as subscriptions allow: after this no member can pass partitions on, not
/// even by way of others, to a member that has two or more fewer. Of all ways to do so it is a cheapest one.
///
/// Members above the mean send to members below it until they cannot. If both are left then, nothing can flow from all
/// members that the loaded ones reach to the others, and each of these two parts is a smaller group of its own.
pub(super) fn balance(network: &mut Network) {
    let mut parts: Vec<Vec<usize>> = vec![(0..network.members.len()).collect()];
    while let Some(part) = parts.pop() {
        if let Some((upper, lower)) = settle(network, &part) {
            parts.extend([upper, lower]);
        }
    }
}

fn settle(network: &mut Network, part: &[usize]) -> Option<(Vec<usize>, Vec<usize>)> {
    network.enter(part);
    let total: usize = part.iter().map(|member| network.load(*member)).sum();
    let mean = total.checked_div(part.len())?;
    for level in [mean, mean + 1] {
        let levels = Levels {
            floor: level,
            ceiling: level,
        };
        network.send(part, levels, false);
        let some_above = part.iter().any(|member| network.load(*member) > level);
        let some_below = part.iter().any(|member| network.load(*member) < level);
        if some_above && some_below {
            return Some(network.split(part, level));
        }
    }
    // Every member has the mean now, or one more. It may be cheaper if others have the one more.
    let levels = Levels {
        floor: mean,
        ceiling: mean + 1,
    };
    network.send(part, levels, true);
    None
}
