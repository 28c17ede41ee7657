//! `--showcmd`: the command line equivalent to the jobs.

use crate::Spec;
use crate::job::Given;

impl Spec {
    /// The arguments of a command line in fio's form that defines the same jobs.
    ///
    /// Keys of a `[global]` section follow `--name=global`, before the first job that they apply
    /// to.
    pub fn show_command(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut global_done = 0;
        for job in &self.jobs {
            // `--name` comes first and begins the job.
            let given = job.given.iter().filter(|given| given.key != "name");
            let (global, own): (Vec<&Given>, Vec<&Given>) = given.partition(|g| g.global);
            if global.len() > global_done {
                args.push("--name=global".to_string());
                args.extend(global[global_done..].iter().map(|given| argument(given)));
                global_done = global.len();
            }
            args.push(format!("--name={}", job.name));
            args.extend(own.into_iter().map(argument));
        }
        args
    }
}

fn argument(given: &Given) -> String {
    format!("--{}={}", given.key, given.value)
}
