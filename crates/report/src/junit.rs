//! Requirements as JUnit XML, which CI systems show as tests.

use fathom_analysis::compare::{ThresholdOutcome, ThresholdResult};
use fathom_model::escape;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use std::io;

/// A test for each of `requirements`: a failure if its condition holds, an error if that cannot be decided. The elements are
/// those that all CI systems read (<https://github.com/testmoapp/junitxml>).
pub fn junit(requirements: &[ThresholdResult]) -> Result<String, String> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    write(&mut xml, requirements).map_err(|error| format!("cannot make JUnit XML: {error}"))?;
    let mut text = String::from_utf8_lossy(&xml.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

fn write(xml: &mut Writer<Vec<u8>>, requirements: &[ThresholdResult]) -> io::Result<()> {
    let count =
        |wanted| requirements.iter().filter(|one| one.outcome == wanted).count().to_string();
    let (tests, failures, errors) = (
        requirements.len().to_string(),
        count(ThresholdOutcome::Holds),
        count(ThresholdOutcome::Inconclusive),
    );
    let counts = [("tests", &*tests), ("failures", &*failures), ("errors", &*errors)];
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suite = |xml: &mut Writer<Vec<u8>>| {
        requirements.iter().try_for_each(|one| test(xml, one).map(|_| ()))
    };
    let suites = |xml: &mut Writer<Vec<u8>>| {
        let named = xml.create_element("testsuite").with_attribute(("name", "fathom"));
        named.with_attributes(counts).write_inner_content(suite).map(|_| ())
    };
    xml.create_element("testsuites").with_attributes(counts).write_inner_content(suites)?;
    Ok(())
}

fn test(xml: &mut Writer<Vec<u8>>, one: &ThresholdResult) -> io::Result<()> {
    let name = format!("fail if {}", escape::text(&one.condition));
    let case = xml.create_element("testcase");
    let case = case.with_attributes([("classname", "fathom.compare"), ("name", name.as_str())]);
    let reason = escape::text(&one.reason);
    let text = BytesText::new(&reason);
    let outcome = match one.outcome {
        ThresholdOutcome::DoesNotHold => "system-out",
        ThresholdOutcome::Holds => "failure",
        ThresholdOutcome::Inconclusive => "error",
    };
    case.write_inner_content(|xml| {
        let element = xml.create_element(outcome);
        let said = match one.outcome {
            ThresholdOutcome::DoesNotHold => element,
            outcome => element.with_attribute(("message", outcome.name())),
        };
        said.write_text_content(text).map(|_| ())
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_and_an_error() {
        let one = |condition: &str, outcome, reason: &str| ThresholdResult {
            condition: condition.into(),
            outcome,
            reason: reason.into(),
        };
        let all = [
            one("p99 > +5%", ThresholdOutcome::Holds, "reads p99 +9%"),
            one("iops < -3%", ThresholdOutcome::DoesNotHold, "<1 & \"2\"\u{1}"),
            one("max > 2ms", ThresholdOutcome::Inconclusive, "no interval"),
        ];
        let text = junit(&all).unwrap();
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" errors="1">
  <testsuite name="fathom" tests="3" failures="1" errors="1">
    <testcase classname="fathom.compare" name="fail if p99 &gt; +5%">
      <failure message="holds">reads p99 +9%</failure>
    </testcase>
    <testcase classname="fathom.compare" name="fail if iops &lt; -3%">
      <system-out>&lt;1 &amp; &quot;2&quot;\x01</system-out>
    </testcase>
    <testcase classname="fathom.compare" name="fail if max &gt; 2ms">
      <error message="inconclusive">no interval</error>
    </testcase>
  </testsuite>
</testsuites>
"#;
        assert_eq!(text, expected);
    }
}
