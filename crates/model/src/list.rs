//! Lists: for people, of which only what fits is printed, and without repetitions.

use std::cmp::Ordering;

/// `a, b, c and 2 more`, of which up to `shown` are printed.
pub fn few(items: &[impl AsRef<str>], shown: usize) -> String {
    let names: Vec<&str> = items.iter().take(shown).map(AsRef::as_ref).collect();
    match items.len() - names.len() {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Each of `items` once, in their order.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// Each of `items` once, in ascending order.
pub fn ascending<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = items.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The order in which people count: `loop2` is before `loop10`.
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    while let Some((left, right)) = a.chars().next().zip(b.chars().next()) {
        let order = if left.is_ascii_digit() && right.is_ascii_digit() {
            let digits = |text: &str| {
                text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()
            };
            let ((x, rest), (y, other)) = (a.split_at(digits(a)), b.split_at(digits(b)));
            (a, b) = (rest, other);
            let (x, y) = (x.trim_start_matches('0'), y.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        } else {
            (a, b) = (&a[left.len_utf8()..], &b[right.len_utf8()..]);
            left.cmp(&right)
        };
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits() {
        assert_eq!(few(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(few(&["a", "b", "c", "d", "e"], 3), "a, b, c and 2 more");
        assert_eq!(few(&[""; 0], 3), "");
    }

    #[test]
    fn each_item_once() {
        assert_eq!(distinct(["b", "a", "b", "c", "a"]), ["b", "a", "c"]);
        assert_eq!(ascending(["b", "a", "b", "c", "a"]), ["a", "b", "c"]);
    }

    #[test]
    fn numbers_in_names_count() {
        let mut names = [
            "loop10",
            "loop8",
            "sdaa",
            "nvme0n10",
            "loop",
            "nvme0n2",
            "sdb",
            "loop080",
            "nvme0n2p1",
        ];
        names.sort_by(|a, b| natural(a, b));
        let sorted = [
            "loop",
            "loop8",
            "loop10",
            "loop080",
            "nvme0n2",
            "nvme0n2p1",
            "nvme0n10",
            "sdaa",
            "sdb",
        ];
        assert_eq!(names, sorted);
    }
}
