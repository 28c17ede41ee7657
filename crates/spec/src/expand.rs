//! Expands `${NAME}`, `$ncpus`, `$pagesize`, and `$mb_memory` in lines of a job file.

use crate::Sources;
use crate::value::evaluate;

/// Maximum length of an expanded line in bytes, to bound memory use.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A line with its variables expanded once; the result is not expanded again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub text: String,
    pub unset: Vec<String>,
}

pub(crate) fn expand(line: &str, sources: &dyn Sources) -> Result<Expanded, String> {
    let mut out = Expanded::default();
    let mut has_words = false;
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(name) = rest.strip_prefix("${") {
            let end = name.find('}').ok_or_else(|| format!("missing }} in '{rest}'; add it"))?;
            let (name, after) = (&name[..end], &name[end + 1..]);
            match sources.env(name) {
                Some(value) if value.contains(['\n', '\r', '\0']) => {
                    return Err(format!(
                        "environment variable {name} contains a line break; set it to a single line"
                    ));
                }
                Some(value) => out.text.push_str(&value),
                None => out.unset.push(name.to_string()),
            }
            rest = after;
        } else if let Some((word, value)) = machine_word(rest, sources) {
            has_words = true;
            out.text.push_str(&value.to_string());
            rest = &rest[word.len()..];
        } else {
            out.text.push('$');
            rest = &rest[1..];
        }
        if out.text.len() > LINE_BYTES_MAX {
            break;
        }
    }
    out.text.push_str(rest);
    if out.text.len() > LINE_BYTES_MAX {
        return Err(format!(
            "line exceeds {} KiB after expansion; shorten it",
            LINE_BYTES_MAX >> 10
        ));
    }
    if has_words {
        out.text = calculated(out.text)?;
    }
    Ok(out)
}

/// As in fio, a value with `$ncpus` or the like is calculated if it is an arithmetic expression. A negative result is
/// rather a range, such as `0-$ncpus`.
fn calculated(text: String) -> Result<String, String> {
    let Some((key, value)) = text.split_once('=') else { return Ok(text) };
    let is_expression = value.contains(['+', '-', '*', '/', '%'])
        && value.chars().all(|c| c.is_ascii_digit() || " +-*/%()".contains(c));
    if !is_expression {
        return Ok(text);
    }
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number; use one"));
    let result = evaluate(value.trim(), &number)?;
    Ok(if result < 0 { text } else { format!("{key}={result}") })
}

fn machine_word(text: &str, sources: &dyn Sources) -> Option<(&'static str, u64)> {
    let machine = sources.machine();
    let words = [
        ("$ncpus", machine.cpus),
        ("$pagesize", machine.page_bytes),
        ("$mb_memory", machine.memory_mib),
    ];
    words.into_iter().find(|(word, _)| text.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::MemorySources;

    #[test]
    fn words() {
        let sources =
            MemorySources::new(&[]).with_env("DISK", "/dev/x").with_env("LOOP", "${LOOP}");
        let line = |text: &str| expand(text, &sources).map(|line| line.text);
        assert_eq!(line("filename=${DISK}1").unwrap(), "filename=/dev/x1");
        assert_eq!(line("numjobs=$ncpus").unwrap(), "numjobs=4");
        assert_eq!(line("bs=$pagesize").unwrap(), "bs=4096");
        assert_eq!(line("x=$jobname.$jobnum").unwrap(), "x=$jobname.$jobnum");
        assert_eq!(line("x=${LOOP}").unwrap(), "x=${LOOP}", "expanded once only");
        let unset = expand("x=4${NONE}k", &sources).unwrap();
        assert_eq!((unset.text.as_str(), &unset.unset[..]), ("x=4k", &["NONE".to_string()][..]));
        assert!(line("x=${DISK").unwrap_err().contains('}'));
        assert_eq!(line("numjobs=$ncpus*2").unwrap(), "numjobs=8");
        assert_eq!(line("size=5*1024*1024*$mb_memory/8").unwrap(), "size=655360000");
        assert_eq!(line("cpus_allowed=0-$ncpus").unwrap(), "cpus_allowed=0-4");
        assert_eq!(line("filename=/x/$ncpus-a").unwrap(), "filename=/x/4-a");
        assert!(line("x=$ncpus/0").unwrap_err().contains("division by zero"));
    }
}
