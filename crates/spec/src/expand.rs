//! Expands `${NAME}`, `$ncpus`, `$pagesize`, and `$mb_memory` in lines of a job file.

use crate::Sources;

/// Maximum length of an expanded line in bytes, to bound memory use.
const LINE_BYTES_MAX: usize = 64 << 10;

/// `line` with its variables expanded once; the result is not expanded again.
pub(crate) fn expand(line: &str, sources: &dyn Sources) -> Result<String, String> {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(name) = rest.strip_prefix("${") {
            let end = name.find('}').ok_or_else(|| format!("missing }} in '{rest}'; add it"))?;
            let (name, after) = (&name[..end], &name[end + 1..]);
            let value = sources.env(name).ok_or_else(|| not_set(name))?;
            if value.contains(['\n', '\r', '\0']) {
                return Err(format!(
                    "environment variable {name} contains a line break; set it to a single line"
                ));
            }
            out.push_str(&value);
            rest = after;
        } else if let Some((word, value)) = machine_word(rest, sources) {
            out.push_str(&value.to_string());
            rest = &rest[word.len()..];
            if rest.trim_start().starts_with(['*', '/', '+', '-']) {
                return Err(format!(
                    "'{line}': arithmetic with {word} is not supported; write the result"
                ));
            }
        } else {
            out.push('$');
            rest = &rest[1..];
        }
        if out.len() > LINE_BYTES_MAX {
            break;
        }
    }
    out.push_str(rest);
    if out.len() > LINE_BYTES_MAX {
        return Err(format!(
            "line exceeds {} KiB after expansion; shorten it",
            LINE_BYTES_MAX >> 10
        ));
    }
    Ok(out)
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

fn not_set(name: &str) -> String {
    format!(
        "environment variable {name} is not set; set it, for example: {name}=… fathom run … \
         (fio would expand it to nothing)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::Memory;

    #[test]
    fn words() {
        let sources = Memory::new(&[]).with_env("DISK", "/dev/x").with_env("LOOP", "${LOOP}");
        let line = |text: &str| expand(text, &sources);
        assert_eq!(line("filename=${DISK}1").unwrap(), "filename=/dev/x1");
        assert_eq!(line("numjobs=$ncpus").unwrap(), "numjobs=4");
        assert_eq!(line("bs=$pagesize").unwrap(), "bs=4096");
        assert_eq!(line("x=$jobname.$jobnum").unwrap(), "x=$jobname.$jobnum");
        assert_eq!(line("x=${LOOP}").unwrap(), "x=${LOOP}", "expanded once only");
        assert!(line("x=${NONE}").unwrap_err().contains("NONE"));
        assert!(line("x=${DISK").unwrap_err().contains('}'));
        assert!(line("x=$ncpus*2").unwrap_err().contains("arithmetic"));
    }
}
