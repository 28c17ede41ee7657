//! Monotone regression.

/// The non-decreasing values nearest to `values` by weighted least squares. Each value comes with its weight, which
/// is above 0. Pool adjacent violators: Ayer et al., "An Empirical Distribution Function for Sampling with Incomplete
/// Information", Annals of Mathematical Statistics 26(4), 1955.
#[must_use]
pub fn isotonic(values: &[(f64, f64)]) -> Vec<f64> {
    /// Neighbours that share their mean.
    struct Block {
        mean: f64,
        weight: f64,
        len: usize,
    }
    let mut blocks: Vec<Block> = Vec::new();
    for &(mean, weight) in values {
        let mut last = Block { mean, weight, len: 1 };
        while let Some(before) = blocks.pop_if(|before| before.mean > last.mean) {
            let weight = before.weight + last.weight;
            let mean = (before.mean * before.weight + last.mean * last.weight) / weight;
            last = Block { mean, weight, len: before.len + last.len };
        }
        blocks.push(last);
    }
    blocks.iter().flat_map(|block| std::iter::repeat_n(block.mean, block.len)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn violators_are_pooled() {
        let even = |values: &[f64]| {
            isotonic(&values.iter().map(|value| (*value, 1.0)).collect::<Vec<_>>())
        };
        assert_eq!(even(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        assert_eq!(even(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(even(&[4.0, 3.0, 2.0]), [3.0, 3.0, 3.0]);
        assert_eq!(isotonic(&[(3.0, 3.0), (1.0, 1.0)]), [2.5, 2.5]);
        assert_eq!(isotonic(&[]), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn it_never_falls_and_keeps_the_mean(
            values in proptest::collection::vec((-1e6..1e6_f64, 0.1..10.0_f64), 1..30)
        ) {
            let fit = isotonic(&values);
            prop_assert_eq!(fit.len(), values.len());
            prop_assert!(fit.windows(2).all(|pair| pair[0] <= pair[1]));
            let sum = |of: &dyn Fn(usize) -> f64| -> f64 {
                (0..values.len()).map(|i| of(i) * values[i].1).sum()
            };
            prop_assert!((sum(&|i| fit[i]) - sum(&|i| values[i].0)).abs() < 1e-3);
        }
    }
}
