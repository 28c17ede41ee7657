//! The published JSON Schemas are those of the code. Only with the feature `schema`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::support::same_as_file;
use fathom_analysis::compare::Comparison;
use fathom_analysis::hosts::HostsReport;
use fathom_analysis::rules::Diagnosis;
use fathom_analysis::topology::TopologyReport;
use fathom_model::experiment::{ExperimentRecord, RoundWindow};
use fathom_model::prediction::Prediction;
use fathom_model::progress::Sample;
use fathom_model::record::{PromiseReport, RunRecord};
use fathom_model::window::Window;
use fathom_report::json::{BlocksResult, LimitResult, StacksResult, WatchResult};
use fathom_report::pages::RunRow;
use fathom_report::threads::ThreadsResult;
use schemars::Schema;
use std::path::PathBuf;

fn check(file: &str, schema: &Schema) {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut text = serde_json::to_string_pretty(schema).unwrap();
    text.push('\n');
    same_as_file(&docs.join(file), &text);
}

#[test]
fn published_schemas_are_current() {
    check("record.schema.json", &schemars::schema_for!(RunRecord));
    check("samples.schema.json", &schemars::schema_for!(Sample));
    check("limit.schema.json", &schemars::schema_for!(LimitResult<'_>));
    check("limit-windows.schema.json", &schemars::schema_for!(Window));
    check("experiment.schema.json", &schemars::schema_for!(ExperimentRecord));
    check("watch.schema.json", &schemars::schema_for!(WatchResult<'_>));
    check("stacks.schema.json", &schemars::schema_for!(StacksResult<'_>));
    check("threads.schema.json", &schemars::schema_for!(ThreadsResult<'_>));
    check("blocks.schema.json", &schemars::schema_for!(BlocksResult<'_>));
    check("topo.schema.json", &schemars::schema_for!(TopologyReport));
    check("predict.schema.json", &schemars::schema_for!(Vec<Prediction>));
    check("verify.schema.json", &schemars::schema_for!(PromiseReport));
    check("doctor.schema.json", &schemars::schema_for!(Diagnosis));
    check("hosts.schema.json", &schemars::schema_for!(HostsReport));
    check("compare.schema.json", &schemars::schema_for!(Comparison));
    check("runs.schema.json", &schemars::schema_for!(Vec<RunRow>));
    check("experiment-windows.schema.json", &schemars::schema_for!(RoundWindow));
}
