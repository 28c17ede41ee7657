//! fio's JSON.
