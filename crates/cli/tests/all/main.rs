//! The program as a user sees it. One binary, because each links all of fathom. Tests that need the machine or all
//! children to themselves have a binary of their own.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod beside;
#[cfg(test)]
mod blocks;
#[cfg(test)]
#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod compare;
#[cfg(test)]
mod confirm;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod data;
#[cfg(test)]
mod decoders;
#[cfg(test)]
mod dependencies;
#[cfg(test)]
mod design;
#[cfg(test)]
mod directories;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod engines;
#[cfg(test)]
mod experiments;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod few_threads;
#[cfg(test)]
mod fio;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod help;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod io_logs;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod layer_table;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod limit;
#[cfg(test)]
mod limited_by;
#[cfg(test)]
mod limiters;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod predict;
#[cfg(test)]
mod ranks;
#[cfg(test)]
mod readers;
#[cfg(test)]
mod replay;
mod results;
#[cfg(test)]
mod ring;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod run;
#[cfg(test)]
mod show;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod slurm;
mod sources;
#[cfg(test)]
mod stacks;
#[cfg(test)]
mod storage;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod top;
#[cfg(test)]
#[path = "../topo/mod.rs"]
mod topo;
#[cfg(test)]
mod verify;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod written;
#[cfg(test)]
mod zones;
