//! Why a job cannot start. Cold.

use fathom_model::record::JobError;
use std::io;

/// The error for the job's record. Holds the errno, since composing the message may change the thread's.
#[derive(Debug)]
pub(crate) struct Refusal(pub JobError);

impl Refusal {
    /// A failed system call.
    pub fn by_kernel(error: &io::Error, message: String) -> Self {
        Self(JobError { errno: error.raw_os_error().unwrap_or(0), message })
    }
}

impl From<String> for Refusal {
    /// An error without a failed system call.
    fn from(message: String) -> Self {
        Self(JobError { errno: 0, message })
    }
}
