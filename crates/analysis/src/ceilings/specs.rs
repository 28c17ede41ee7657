//! What common NVMe drives are specified for.

use fathom_model::limit::DeviceSpec;

/// Lines `MODEL | FIGURES, as of --spec | SOURCE`.
const MODELS: &str = include_str!("models.txt");

/// A model of a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownModel {
    /// As the kernel reports it, without what follows the part number.
    pub name: &'static str,
    /// What it is specified for.
    pub spec: DeviceSpec,
    /// Where that is stated.
    pub source: &'static str,
}

/// The model that a drive reports as `model`; `None` if it is not in the table.
pub fn known_model(model: &str) -> Option<KnownModel> {
    let model = model.trim();
    all().find(|known| {
        model.strip_prefix(known.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

fn all() -> impl Iterator<Item = KnownModel> {
    let lines = MODELS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let (name, rest) = line.split_once('|')?;
        let (spec, source) = rest.split_once('|')?;
        let spec = spec.trim().parse().ok()?;
        Some(KnownModel { name: name.trim(), spec, source: source.trim() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::window::Rw;

    #[test]
    fn every_line_is_a_model_with_figures_and_a_source() {
        let lines: Vec<&str> = MODELS.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(all().count(), lines.len());
        assert!(lines.len() >= 15 && lines.is_sorted());
        for known in all() {
            assert!(known.source.starts_with("https://"), "{}", known.name);
            let figure = |bs, rw| known.spec.iops(bs, rw).map(|iops| iops * bs as f64);
            // No drive moves more than a link of 32 GT/s and four lanes, or less than a hard disk.
            for (bs, rw) in [(4096, Rw::Randread), (4096, Rw::Randwrite), (1 << 20, Rw::Read)] {
                assert!(figure(bs, rw).is_none_or(|bytes| (2e8..15e9).contains(&bytes)));
            }
        }
    }

    #[test]
    fn a_model_is_known_with_what_follows_its_part_number_and_not_by_a_part_of_its_name() {
        let name = |model| known_model(model).map(|known| known.name);
        assert_eq!(name("Samsung SSD 980 PRO 2TB"), Some("Samsung SSD 980 PRO 2TB"));
        assert_eq!(name("Samsung SSD 980 PRO 2TB-00B00 "), Some("Samsung SSD 980 PRO 2TB"));
        for unknown in ["Samsung SSD 980 PRO", "Samsung SSD 980 PRO 2TB2", "QEMU NVMe Ctrl", ""] {
            assert_eq!(name(unknown), None, "{unknown}");
        }
    }
}
