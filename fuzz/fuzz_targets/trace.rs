#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fathom_fuzz::jobs::trace(bytes));
