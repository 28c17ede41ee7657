use fathom_analysis::watch::Observed;
use fathom_model::progress::Sample;
use fathom_report::{pages, render};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let dir = &args[1];
    let text = std::fs::read_to_string(format!("{dir}/record.json")).unwrap();
    let kind = serde_json::from_str::<serde_json::Value>(&text).unwrap()["kind"].as_str().unwrap_or("run").to_string();
    let page = match kind.as_str() {
        "limit" => pages::limit(&serde_json::from_str(&text).unwrap(), Default::default()),
        "experiment" => pages::experiment(&serde_json::from_str(&text).unwrap(), false),
        _ => {
            let record: fathom_model::RunRecord = serde_json::from_str(&text).unwrap();
            let mut seen = Observed::default();
            for line in std::fs::read_to_string(format!("{dir}/samples.ndjson")).unwrap().lines() {
                let sample: Sample = serde_json::from_str(line).unwrap();
                seen.add(&sample);
            }
            if let Ok(text) = std::fs::read_to_string(format!("{dir}/stacks.ndjson")) {
                seen.known_stacks = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
            }
            if kind == "run" { pages::run(&record, Some(&seen), false) } else { pages::watch(&seen, &record, false) }
        }
    };
    std::fs::write(&args[2], render::html(&page)).unwrap();
}
