//! Lists of CPUs or NUMA nodes, as the kernel writes them: `0-3,8`.

use std::collections::BTreeSet;

/// Highest valid number.
const CPU_MAX: u32 = 8191;

/// The numbers in a list such as `0,5,8-15`, ascending.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(cpu) if cpu <= CPU_MAX => Ok(cpu),
        _ => Err(format!("invalid CPU number '{text}'; use 0 to {CPU_MAX}")),
    };
    let mut cpus = BTreeSet::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!(
                "invalid range '{entry}': the lower bound exceeds the upper; swap them"
            ));
        }
        cpus.extend(first..=last);
    }
    if cpus.is_empty() {
        return Err("empty list of CPUs; add one".to_string());
    }
    Ok(cpus.into_iter().collect())
}

/// Numbers in any order as a list.
pub fn list(cpus: &[u32]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    let parts = cpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_users_and_of_the_kernel() {
        assert_eq!(parse("0,5,8-10").unwrap(), [0, 5, 8, 9, 10]);
        // As in mq/0/cpu_list.
        assert_eq!(parse("0, 1, 4\n").unwrap(), [0, 1, 4]);
        for bad in ["3-1", "0-4294967295", "", "\n", "x", "0-2,x", "4-"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(list(&[8, 2, 1, 0, 5]), "0-2,5,8");
        assert_eq!(list(&[]), "");
    }
}
