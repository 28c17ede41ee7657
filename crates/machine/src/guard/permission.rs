//! Permissions given on the command line.

use super::Permissions;
use super::error::GuardError;
use super::subject::GuardSubject;
use fathom_model::shell;
use fathom_sys::device::Node;
use rustix::fs::Stat;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Erase {
    Named,
    Confirmed,
}

pub(crate) fn erase(
    permissions: &Permissions,
    subject: &GuardSubject,
    node: &Node,
) -> Result<Erase, GuardError> {
    let path = subject.path().to_string();
    let names = names(subject, node);
    let token = token(subject);
    let mut named = false;
    for given in &permissions.erase {
        for name in &names {
            let Some(rest) = given.strip_prefix(name.as_str()) else { continue };
            match rest.strip_prefix('@') {
                Some(value) if value == token => return Ok(Erase::Confirmed),
                Some(_) => {
                    let given = quoted("--erase", given);
                    return Err(GuardError::WrongDevice {
                        path,
                        given,
                        flag: full_flag(subject, node),
                    });
                }
                None => named |= rest.is_empty(),
            }
        }
    }
    if named {
        return Ok(Erase::Named);
    }
    let given = permissions.erase.first().map(|given| quoted("--erase", given));
    Err(GuardError::NeedsErase { path, flag: quoted("--erase", shown(&names)), given })
}

pub(crate) fn full_flag(subject: &GuardSubject, node: &Node) -> String {
    let names = names(subject, node);
    quoted("--erase", &format!("{}@{}", shown(&names), token(subject)))
}

/// The accepted names: the kernel's own, and those that the plan uses below /dev. Not links elsewhere,
/// for example in /dev/shm, where any user can create one.
fn names(subject: &GuardSubject, node: &Node) -> Vec<String> {
    let asked = subject.paths.iter().chain([&subject.facts.resolved]);
    let file_system = |path: &str| rustix::fs::stat(path).ok().map(|stat| stat.st_dev);
    let is_exact = |path: &&String| {
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        path.starts_with("/dev/")
            && !path.contains("/../")
            && file_system(&format!("{dir}/")) == file_system("/dev/")
    };
    let mut names: Vec<String> = asked.filter(is_exact).cloned().collect();
    names.push(node.path());
    names
}

fn shown(names: &[String]) -> &str {
    names.first().map_or("", String::as_str)
}

fn token(subject: &GuardSubject) -> String {
    let serial = subject.facts.device.as_ref().and_then(|device| device.serial.clone());
    serial.unwrap_or_else(|| subject.facts.size_bytes.to_string())
}

/// Whether `--overwrite` names a file, by a path of the plan or any path to the same file.
pub(crate) fn may_overwrite(
    permissions: &Permissions,
    subject: &GuardSubject,
    stat: &Stat,
) -> bool {
    permissions.overwrite.iter().any(|given| {
        let other = rustix::fs::stat(given.as_str());
        let same = other.is_ok_and(|o| (o.st_dev, o.st_ino) == (stat.st_dev, stat.st_ino));
        same || subject.paths.contains(given)
    })
}

pub(crate) fn overwrite_flag(subject: &GuardSubject) -> String {
    quoted("--overwrite", subject.path())
}

/// `flag=value`, quoted for the shell.
fn quoted(flag: &str, value: &str) -> String {
    format!("{flag}={}", shell::quoted(value))
}
