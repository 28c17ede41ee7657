//! The loop of everything that is measured window by window: what a design asks for is measured, and its result given back.

use crate::run::Hooks;
use fathom_analysis::experiment::{Design, Rounds};
use fathom_analysis::limit::Search;

/// A design whose progress is shown.
pub(crate) trait Shown: Design {
    /// Says that the window begins.
    fn show(&self, asked: &Self::Asked, hooks: &mut dyn Hooks);
}

impl Shown for Search {
    fn show(&self, asked: &Self::Asked, hooks: &mut dyn Hooks) {
        hooks.probing(self.config(), asked, self.done());
    }
}

impl Shown for Rounds {
    fn show(&self, asked: &Self::Asked, hooks: &mut dyn Hooks) {
        hooks.trying(&super::experiment::progress(self, asked.condition));
    }
}

/// Has `window` measure what `design` asks for, and passes each window to `take`, until there is nothing more to measure,
/// `take` returns `false`, or `stop` returns a reason, which is returned. A window that was cut short is discarded.
///
/// # Errors
/// Why nothing more can be measured.
pub(crate) fn measure<D: Shown>(
    design: &mut D,
    hooks: &mut dyn Hooks,
    mut stop: impl FnMut() -> Option<&'static str>,
    mut window: impl FnMut(D::Asked, &mut dyn Hooks) -> Result<D::Window, String>,
    mut take: impl FnMut(&D::Window, &mut dyn Hooks) -> bool,
) -> Result<Option<&'static str>, String> {
    // It may have been cancelled while a scratch file was filled.
    let mut interrupted = stop();
    while interrupted.is_none() {
        let Some(asked) = design.next() else { break };
        design.show(&asked, hooks);
        let measured = window(asked, hooks)?;
        interrupted = stop();
        if interrupted.is_none() {
            design.take(&measured);
            if !take(&measured, hooks) {
                break;
            }
        }
    }
    Ok(interrupted)
}
