//! Suggestions for misspelled words.

/// The candidate that differs least from `word`, if it is like one.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes quadratic time, and no key is this long.
    if word.len() > 64 {
        return None;
    }
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= limit)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Number of insertions, deletions, substitutions and transpositions between two words
/// (optimal string alignment distance, Damerau 1964).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("iodepth", "iodepth"), 0);
        assert_eq!(distance("iodpeth", "iodepth"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_near_words_are_suggested() {
        let words = ["iodepth", "ioengine", "bs"];
        assert_eq!(nearest("iodeth", words.into_iter()), Some("iodepth"));
        assert_eq!(nearest("io_engine", words.into_iter()), Some("ioengine"));
        assert_eq!(nearest("color", words.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(1000), words.into_iter()), None);
    }
}
