//! Groups cases into boots, and orders the boots, of which several run at a time.

use super::case::{Case, Kernel, Machine};

#[derive(Debug)]
pub struct Boot {
    pub kernel: Kernel,
    pub machine: Machine,
    pub cmdline: String,
    pub cases: Vec<Case>,
}

#[derive(Clone, Copy)]
pub enum Kernels {
    First,
    All,
    Only(Kernel),
}

/// Cases with the same kernel, machine and command line share a boot unless they need their own. The largest boots come
/// first, so that none of them runs alone at the end.
pub fn boots(cases: &[Case], kernels: Kernels) -> Vec<Boot> {
    let mut boots: Vec<Boot> = Vec::new();
    for (kernel, case) in placed(cases, kernels) {
        let shared = boots.iter_mut().find(|boot| {
            boot.kernel == kernel
                && boot.machine == case.machine
                && boot.cmdline == case.cmdline
                && !boot.cases[0].own_boot
        });
        match shared {
            Some(boot) if !case.own_boot => boot.cases.push(case.clone()),
            _ => boots.push(Boot {
                kernel,
                machine: case.machine.clone(),
                cmdline: case.cmdline.clone(),
                cases: vec![case.clone()],
            }),
        }
    }
    boots.sort_by_key(|boot| std::cmp::Reverse(boot.cases.len()));
    boots
}

/// Each case with its kernels. One that any kernel will do for goes to the kernel with the fewest cases, so that their
/// guests end at about the same time.
fn placed(cases: &[Case], kernels: Kernels) -> Vec<(Kernel, &Case)> {
    let chosen = |case: &Case, kernel| match kernels {
        Kernels::First => case.kernels.first() == Some(&kernel),
        Kernels::All => case.kernels.contains(&kernel),
        Kernels::Only(only) => kernel == only && case.kernels.contains(&kernel),
    };
    let on = |kernel| {
        cases.iter().filter(move |case| chosen(case, kernel)).map(move |case| (kernel, case))
    };
    let mut placed: Vec<(Kernel, &Case)> = Kernel::ALL.into_iter().flat_map(on).collect();
    for case in cases.iter().filter(|case| case.kernels.is_empty()) {
        let count = |kernel: &Kernel| placed.iter().filter(|(placed, _)| placed == kernel).count();
        let fewest = Kernel::ALL.into_iter().min_by_key(count).unwrap_or(Kernel::V6_1);
        placed.push((if let Kernels::Only(only) = kernels { only } else { fewest }, case));
    }
    placed
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn case(name: &str, head: &str) -> Case {
        Case::parse(name, &format!("# It holds.\n{head}true\n")).unwrap()
    }

    fn names(boots: &[Boot]) -> Vec<(&'static str, Vec<&str>)> {
        boots
            .iter()
            .map(|boot| {
                (boot.kernel.name(), boot.cases.iter().map(|case| case.name.as_str()).collect())
            })
            .collect()
    }

    #[test]
    fn cases_that_need_the_same_share_a_boot() {
        let cases = [
            case("a", "# kernels: 6.1 7\n"),
            case("b", "# kernels: 6.1\n# machine: nvme=1\n"),
            case("c", "# kernels: 6.1\n# boot: own\n"),
            case("d", "# kernels: 6.1\n"),
            case("e", "# kernels: 6.1\n# cmdline: nvme.poll_queues=1\n"),
        ];
        let boots = boots(&cases, Kernels::All);
        assert_eq!(
            names(&boots),
            [
                ("6.1", vec!["a", "d"]),
                ("6.1", vec!["b"]),
                ("6.1", vec!["c"]),
                ("6.1", vec!["e"]),
                ("7", vec!["a"]),
            ]
        );
    }

    #[test]
    fn cases_for_any_kernel_go_to_the_one_with_the_fewest() {
        let cases = [case("a", ""), case("b", "# kernels: 6.1 7\n"), case("c", ""), case("d", "")];
        assert_eq!(
            names(&boots(&cases, Kernels::All)),
            [("6.1", vec!["b", "c"]), ("6.12", vec!["a", "d"]), ("7", vec!["b"])]
        );
    }

    #[test]
    fn a_case_runs_on_its_first_kernel_or_on_another() {
        let cases =
            [case("a", ""), case("b", "# kernels: 6.12 7\n"), case("c", "# kernels: 6.1\n")];
        assert_eq!(names(&boots(&cases, Kernels::Only(Kernel::V7))), [("7", vec!["b", "a"])]);
        assert_eq!(
            names(&boots(&cases, Kernels::First)),
            [("6.1", vec!["c"]), ("6.12", vec!["b"]), ("7", vec!["a"])]
        );
    }

    #[test]
    fn two_that_need_their_own_boot_do_not_share_it() {
        let cases = [case("a", "# boot: own\n"), case("b", "# boot: own\n"), case("c", "")];
        assert_eq!(boots(&cases, Kernels::First).len(), 3);
    }
}
