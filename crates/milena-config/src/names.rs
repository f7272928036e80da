//! The nearest known name for a misspelt one.

/// The known name that was probably meant, if one is near enough.
///
/// Case, underscores and dashes do not matter. A name with its words in another order, or cut off at a dot, is
/// recognized too.
pub fn nearest(wrong: &str, known: impl Iterator<Item = &'static str> + Clone) -> Option<&'static str> {
    // The work grows with the length, and names come from strangers: no key is this long.
    if wrong.len() > NAME_LENGTH_MAX {
        return None;
    }
    let wrong = &*normalized(wrong);
    let (edits, nearest) = known.clone().map(|name| (edit_distance(wrong, name), name)).min()?;
    // One edit for every five letters still looks like a slip; more would be a guess.
    let is_near = edits <= (wrong.chars().count() / 5).max(1);
    is_near
        .then_some(nearest)
        .or_else(|| same_words(wrong, known.clone()))
        .or_else(|| only_continuation(wrong, known))
}

/// A name as keys are written: small letters and dots.
pub(crate) fn normalized(name: &str) -> String {
    name.to_lowercase().replace(['_', '-'], ".")
}

fn same_words(wrong: &str, mut known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let sorted = |name: &str| {
        let mut words: Vec<String> = name.split('.').map(str::to_owned).collect();
        words.sort_unstable();
        words
    };
    let words = sorted(wrong);
    known.find(|name| sorted(name) == words)
}

/// The name that begins like this, if there is only one.
fn only_continuation(beginning: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let mut longer = known.filter(|name| name.strip_prefix(beginning).is_some_and(|rest| rest.starts_with('.')));
    let first = longer.next();
    first.filter(|_| longer.next().is_none())
}

/// Counts the letters that must be added, removed or replaced to turn one name into the other.
pub fn edit_distance(a: &str, b: &str) -> usize {
    // One row of the usual table: the distances between the letters of `a` read so far and every prefix of `b`.
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (read, left) in a.chars().enumerate() {
        let mut diagonal = read;
        let mut before = read + 1;
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = before;
        }
        for (cell, right) in cells.zip(b.chars()) {
            let replaced = diagonal + usize::from(left != right);
            diagonal = *cell;
            before = replaced.min(before + 1).min(*cell + 1);
            *cell = before;
        }
    }
    row.last().copied().unwrap_or_default()
}

pub(crate) const NAME_LENGTH_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        for (a, b, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("é", "e", 1),
        ] {
            assert_eq!(edit_distance(a, b), edits, "{a} {b}");
            assert_eq!(edit_distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn slips_lead_to_the_key() {
        let known = [
            "auto.create.topics.enable",
            "cleanup.policy",
            "group.id",
            "group.instance.id",
        ];
        for (wrong, right) in [
            ("cleanup.polcy", Some("cleanup.policy")),
            ("CLEANUP_POLICY", Some("cleanup.policy")),
            ("policy.cleanup", Some("cleanup.policy")),
            ("auto.create", Some("auto.create.topics.enable")),
            // Two keys begin so.
            ("group", None),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, known.into_iter()), right, "{wrong}");
        }
    }

    #[test]
    fn huge_names_cost_nothing() {
        assert_eq!(nearest(&"é.".repeat(1_000_000), ["group.id"].into_iter()), None);
    }
}
