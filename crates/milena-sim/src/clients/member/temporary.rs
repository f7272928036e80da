//! Stand-in until the real assignors are merged.
use milena_machines::{TopicPartition, assign::*};
use std::collections::{BTreeMap, BTreeSet};
#[derive(Debug)]
struct Old(bool);
pub(super) fn builtin(name: &str) -> Option<Box<dyn Assignor>> {
    Some(Box::new(Old(name == "cooperative-sticky")))
}
impl Assignor for Old {
    fn name(&self) -> &str {
        if self.0 { "cooperative-sticky" } else { "range" }
    }
    fn protocols(&self) -> &[RebalanceProtocol] {
        if self.0 {
            &[RebalanceProtocol::Eager, RebalanceProtocol::Cooperative]
        } else {
            &[RebalanceProtocol::Eager]
        }
    }
    fn assign(&mut self, topics: &ClusterLayout, subscribers: &[MemberSubscription]) -> GroupAssignment {
        let mut owners: BTreeMap<TopicPartition, &MemberSubscription> = BTreeMap::new();
        for s in subscribers {
            for p in &s.owned {
                let o = owners.entry(p.clone()).or_insert(s);
                if o.generation < s.generation {
                    *o = s;
                }
            }
        }
        let mut a: BTreeMap<_, BTreeSet<TopicPartition>> = subscribers
            .iter()
            .map(|s| (s.member_id.clone(), BTreeSet::new()))
            .collect();
        let wanted: BTreeSet<TopicPartition> = subscribers
            .iter()
            .flat_map(|s| &s.topics)
            .filter_map(|t| Some((t, topics.get(t)?)))
            .flat_map(|(t, l)| (0..l.len() as i32).map(move |p| TopicPartition::new(t.clone(), p)))
            .collect();
        let share = wanted.len().div_ceil(subscribers.len().max(1));
        let mut left = vec![];
        for p in wanted {
            let owner = owners.get(&p).filter(|o| o.topics.contains(&p.topic));
            match owner.and_then(|o| a.get_mut(&o.member_id)).filter(|o| o.len() < share) {
                Some(o) => {
                    o.insert(p);
                }
                None => left.push(p),
            }
        }
        for p in left {
            let next = subscribers
                .iter()
                .filter(|s| s.topics.contains(&p.topic))
                .min_by_key(|s| a.get(&s.member_id).map(BTreeSet::len))
                .map(|s| s.member_id.clone());
            if let Some(next) = next {
                a.entry(next).or_default().insert(p);
            }
        }
        if self.0 {
            for (m, ps) in &mut a {
                ps.retain(|p| owners.get(p).is_none_or(|o| o.member_id == *m));
            }
        }
        a.into_iter()
            .map(|(m, ps)| {
                (
                    m,
                    MemberAssignment {
                        partitions: ps.into_iter().collect(),
                        user_data: None,
                    },
                )
            })
            .collect()
    }
}
