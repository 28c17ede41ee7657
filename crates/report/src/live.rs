//! The live line.
