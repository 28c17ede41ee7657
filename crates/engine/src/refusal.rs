//! Why a job cannot begin. Cold.

use fathom_model::record::JobError;
use std::io;

/// What a job's record says of it. Carried along, because the thread's own errno is another one by
/// the time that the words are found.
#[derive(Debug)]
pub(crate) struct Refusal(pub JobError);

impl Refusal {
    /// The kernel's refusal, in words that name it.
    pub fn by_kernel(error: &io::Error, message: String) -> Self {
        Self(JobError { errno: error.raw_os_error().unwrap_or(0), message })
    }
}

impl From<String> for Refusal {
    /// One that no system call gave.
    fn from(message: String) -> Self {
        Self(JobError { errno: 0, message })
    }
}
