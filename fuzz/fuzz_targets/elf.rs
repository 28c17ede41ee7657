#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fathom_watch::fuzzing::elf(bytes));
