//! fio's terse output.
