//! A map from names that finds all keys which a name begins with, in one walk along the name.
//!
//! It is a compressed trie: a node has the bytes that its keys share after those of its parent. The cost of a walk depends on
//! the length of the name and on the keys along it, not on the number of keys. All nodes are in one vector, so that a chain of
//! keys which begin with each other needs no recursion, however long it is.

/// The index of a node. The root is the first.
type NodeIndex = u32;
const ROOT: NodeIndex = 0;

/// The map. Keys are compared as bytes.
#[derive(Debug)]
pub(super) struct Trie<V> {
    /// None before the first key, because many tries are empty.
    nodes: Vec<Node<V>>,
    /// Those that are not in use.
    free: Vec<NodeIndex>,
    len: usize,
}

#[derive(Debug)]
struct Node<V> {
    /// The bytes between the parent and this node; only the root has none.
    label: Box<[u8]>,
    /// The first bytes of the labels of the children.
    firsts: Vec<u8>,
    /// The children, in the order of `firsts`.
    children: Vec<NodeIndex>,
    value: Option<V>,
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Self {
            label: Box::default(),
            firsts: vec![],
            children: vec![],
            value: None,
        }
    }
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Self {
            nodes: vec![],
            free: vec![],
            len: 0,
        }
    }
}

impl<V> Node<V> {
    fn child(&self, first: u8) -> Option<NodeIndex> {
        // Nodes have few children, and their order does not matter: a branch that is predicted is faster than a binary search.
        let at = self.firsts.iter().position(|known| *known == first)?;
        self.children.get(at).copied()
    }

    fn set_child(&mut self, first: u8, index: NodeIndex) {
        self.remove_child(first);
        self.firsts.push(first);
        self.children.push(index);
    }

    fn remove_child(&mut self, first: u8) {
        if let Some(at) = self.firsts.iter().position(|known| *known == first) {
            self.firsts.swap_remove(at);
            self.children.swap_remove(at);
        }
    }
}

/// A walk along a name, from node to node.
struct Walk<'t, 'n, V> {
    trie: &'t Trie<V>,
    next: Option<NodeIndex>,
    /// The bytes of the name that no node has taken yet.
    rest: &'n [u8],
}

impl<'t, V> Iterator for Walk<'t, '_, V> {
    /// A node that the name begins with, and the number of bytes that follow.
    type Item = (&'t Node<V>, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.trie.node(self.next?)?;
        // The root has no label, so the walk begins with it.
        let rest = self.rest.strip_prefix(&*node.label)?;
        self.rest = rest;
        self.next = rest.first().and_then(|first| node.child(*first));
        Some((node, rest.len()))
    }
}

impl<V> Trie<V> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, name: &str) -> Option<&V> {
        let (node, rest) = self.walk(name).last()?;
        node.value.as_ref().filter(|_| rest == 0)
    }

    /// The values of the keys that a name begins with, from the shortest to the longest, with the lengths of the keys.
    pub(super) fn prefixes_of(&self, name: &str) -> impl Iterator<Item = (usize, &V)> {
        let len = name.len();
        self.walk(name)
            .filter_map(move |(node, rest)| Some((len - rest, node.value.as_ref()?)))
    }

    /// Changes the value of a key. `None`, before or after, means that there is none.
    pub(super) fn update(&mut self, name: &str, change: impl FnOnce(&mut Option<V>)) {
        let path = self.make_path(name.as_bytes());
        let Some(node) = path.last().and_then(|last| self.node_mut(*last)) else {
            return;
        };
        let before = node.value.is_some();
        change(&mut node.value);
        let after = node.value.is_some();
        self.len = self.len + usize::from(after) - usize::from(before);
        if !after {
            self.prune(&path);
        }
    }

    fn walk<'n>(&self, name: &'n str) -> Walk<'_, 'n, V> {
        Walk {
            trie: self,
            next: Some(ROOT),
            rest: name.as_bytes(),
        }
    }

    fn node(&self, index: NodeIndex) -> Option<&Node<V>> {
        self.nodes.get(index as usize)
    }

    fn node_mut(&mut self, index: NodeIndex) -> Option<&mut Node<V>> {
        self.nodes.get_mut(index as usize)
    }

    fn add_node(&mut self, node: Node<V>) -> NodeIndex {
        if let Some(index) = self.free.pop()
            && let Some(old) = self.node_mut(index)
        {
            *old = node;
            return index;
        }
        self.nodes.push(node);
        // The number of ACLs is bounded far below this.
        NodeIndex::try_from(self.nodes.len() - 1).unwrap_or(NodeIndex::MAX)
    }

    /// The nodes from the root to that of a key. Those that are missing are made.
    fn make_path(&mut self, name: &[u8]) -> Vec<NodeIndex> {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let (mut path, mut at, mut rest) = (vec![ROOT], ROOT, name);
        while let [first, ..] = rest {
            let child = self.node(at).and_then(|node| node.child(*first));
            let next = match child {
                Some(child) => self.split(at, child, rest),
                None => {
                    let leaf = self.add_node(Node {
                        label: rest.into(),
                        ..Node::default()
                    });
                    self.link(at, leaf);
                    leaf
                }
            };
            let taken = self.node(next).map_or(rest.len(), |node| node.label.len());
            rest = rest.get(taken..).unwrap_or_default();
            path.push(next);
            at = next;
        }
        path
    }

    /// Makes the label of a child a prefix of `name`: the part that differs moves to a node below a new one.
    fn split(&mut self, parent: NodeIndex, child: NodeIndex, name: &[u8]) -> NodeIndex {
        let Some(node) = self.node_mut(child) else {
            return child;
        };
        let common = node
            .label
            .iter()
            .zip(name)
            .take_while(|(one, other)| one == other)
            .count();
        let Some((head, tail)) = node.label.split_at_checked(common).filter(|(_, tail)| !tail.is_empty()) else {
            return child;
        };
        let (head, tail) = (head.into(), tail.into());
        node.label = tail;
        let middle = self.add_node(Node {
            label: head,
            ..Node::default()
        });
        self.link(middle, child);
        self.link(parent, middle);
        middle
    }

    fn link(&mut self, parent: NodeIndex, child: NodeIndex) {
        let first = self.node(child).and_then(|node| node.label.first().copied());
        if let (Some(first), Some(parent)) = (first, self.node_mut(parent)) {
            parent.set_child(first, child);
        }
    }

    /// Removes the nodes at the end of a path that no key needs.
    fn prune(&mut self, path: &[NodeIndex]) {
        for pair in path.windows(2).rev() {
            let &[parent, index] = pair else { return };
            let Some(node) = self.node_mut(index) else { return };
            match (&node.value, &*node.children) {
                (None, []) => {
                    let first = node.label.first().copied();
                    self.release(index);
                    if let (Some(first), Some(parent)) = (first, self.node_mut(parent)) {
                        parent.remove_child(first);
                    }
                }
                (None, &[only]) => {
                    self.merge(index, only);
                    return;
                }
                _ => return,
            }
        }
    }

    /// Puts the only child of a node in its place.
    fn merge(&mut self, index: NodeIndex, child: NodeIndex) {
        let below = self.release(child);
        if let Some(node) = self.node_mut(index) {
            let label = [&*node.label, &*below.label].concat();
            *node = Node {
                label: label.into(),
                ..below
            };
        }
    }

    fn release(&mut self, index: NodeIndex) -> Node<V> {
        self.free.push(index);
        self.node_mut(index).map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    fn set(trie: &mut Trie<u64>, name: &str, value: Option<u64>) {
        trie.update(name, |old| *old = value);
    }

    #[test]
    fn keys_are_found_as_in_an_ordered_map_while_they_come_and_go() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
            let name = |random: &mut Random| -> String {
                (0..random.below(7))
                    .map(|_| ["a", "b", "ü", "ö"][random.below(4) as usize])
                    .collect()
            };
            for step in 0..300 {
                let key = name(&mut random);
                match random.below(3) {
                    0 => {
                        set(&mut trie, &key, None);
                        model.remove(&key);
                    }
                    _ => {
                        set(&mut trie, &key, Some(step));
                        model.insert(key, step);
                    }
                }
                let sought = name(&mut random);
                assert_eq!(trie.get(&sought), model.get(&sought), "seed {seed}: {sought}");
                let found: Vec<(usize, u64)> = trie.prefixes_of(&sought).map(|(len, value)| (len, *value)).collect();
                let expected = model.iter().filter(|(key, _)| sought.starts_with(&***key));
                let expected: Vec<(usize, u64)> = expected.map(|(key, value)| (key.len(), *value)).collect();
                assert_eq!(found, expected, "seed {seed}: {sought}");
                assert_eq!(trie.is_empty(), model.is_empty());
                // Each node but the root has a value or two children.
                assert!(trie.nodes.len() - trie.free.len() <= 2 * model.len() + 1, "seed {seed}");
            }
            for key in model.keys() {
                set(&mut trie, key, None);
            }
            assert_eq!(trie.nodes.len() - trie.free.len(), 1, "seed {seed}");
        }
    }

    #[test]
    fn a_long_chain_of_prefixes_needs_no_deep_stack() {
        let mut trie = Trie::default();
        let name = "x".repeat(3_000);
        for len in 1..=name.len() {
            set(&mut trie, &name[..len], Some(len as u64));
        }
        assert_eq!(trie.prefixes_of(&name).count(), name.len());
        assert_eq!(trie.get(&name), Some(&3_000));
        drop(trie);
    }

    #[test]
    fn an_update_that_adds_nothing_leaves_no_node() {
        let mut trie: Trie<u64> = Trie::default();
        set(&mut trie, "orders", None);
        set(&mut trie, "", None);
        assert_eq!((trie.nodes.len() - trie.free.len(), trie.is_empty()), (1, true));
        set(&mut trie, "", Some(1));
        assert_eq!(trie.prefixes_of("orders").collect::<Vec<_>>(), [(0, &1)]);
    }
}
