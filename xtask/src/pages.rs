//! The HTML of stored runs in a browser.

use crate::Result;
use crate::programs;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In a page around frames of the widths of a phone, a tablet and a desktop, as a window of Chromium is never narrower
/// than 500 pixels.
const WIDTHS: [u32; 3] = [400, 800, 1200];
const HEIGHT: u32 = 4000;
/// Size of the picture of a first screen, in pixels.
const FIRST: (u32, u32) = (1200, 920);
const CHECKS: &str = include_str!("pages.js");

#[derive(clap::Args)]
pub struct Options {
    /// Run directories, or pages that fathom made (FILE.html); by default the stored runs of the tests
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The browser
    #[arg(long, default_value = "chromium")]
    browser: PathBuf,
    /// The fathom that makes the pages; by default one that is built now
    #[arg(long)]
    fathom: Option<PathBuf>,
    /// Store a picture of each page at all widths, light and dark, in this directory
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Store a picture of the first screen of the first run in this file, and check nothing
    #[arg(long, value_name = "FILE")]
    first_screen: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let fathom = programs::fathom(options.fathom.as_deref())?;
    let mut runs = options.runs.clone();
    if runs.is_empty() {
        let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/tests/limiters");
        let all = fs::read_dir(stored)?.map(|entry| entry.map(|entry| entry.path()));
        runs = all.collect::<std::io::Result<_>>()?;
        runs.sort();
    }
    let dir = tempfile::tempdir()?;
    let mut wrong = 0;
    for run in &runs {
        let page = match run.extension().is_some_and(|ending| ending == "html") {
            true => fs::read_to_string(run)?,
            false => shown(&fathom, run)?,
        };
        let browser = Browser { program: &options.browser, dir: dir.path() };
        if let Some(file) = &options.first_screen {
            let path = dir.path().join("page.html");
            fs::write(&path, page)?;
            return browser.picture(&path, FIRST, false, file);
        }
        let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy();
        for dark in [false, true] {
            wrong += browser.check(&name, &page, dark, options.pictures.as_deref())?;
        }
    }
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} lines above say what is wrong").into()),
    }
}

fn shown(fathom: &Path, run: &Path) -> Result<String> {
    let shown = Command::new(fathom).args(["show", "--utc", "--format=html"]).arg(run).output()?;
    match shown.status.success() {
        true => Ok(String::from_utf8(shown.stdout)?),
        false => {
            let why = String::from_utf8_lossy(&shown.stderr);
            Err(format!("{}: {}", run.display(), why.trim()).into())
        }
    }
}

struct Browser<'a> {
    program: &'a Path,
    dir: &'a Path,
}

impl Browser<'_> {
    /// Prints what is wrong with a page. Returns the number of these lines.
    fn check(&self, name: &str, page: &str, dark: bool, to: Option<&Path>) -> Result<usize> {
        let theme = if dark { "dark" } else { "light" };
        let checked = page.replace("</body>", &format!("<script>\n{CHECKS}</script>\n</body>"));
        fs::write(self.dir.join("page.html"), checked)?;
        let frame = |width: &u32| {
            format!(
                "<iframe src=\"page.html\" style=\"border:0;flex:none;width:{width}px;height:{HEIGHT}px\"></iframe>"
            )
        };
        let frames: String = WIDTHS.iter().map(frame).collect();
        let around = format!(
            "<!DOCTYPE html><meta name=\"color-scheme\" content=\"light dark\"><body style=\"margin:0;display:flex\">{frames}\
             <pre id=\"found\"></pre><script>addEventListener(\"message\", e => {{ found.textContent += e.data + \"\\n\"; }})</script>"
        );
        let path = self.dir.join("around.html");
        fs::write(&path, around)?;
        let all = (WIDTHS.iter().sum(), HEIGHT);
        let (dom, log) = self.start(&path, all, dark, &["--dump-dom"])?;
        let found =
            dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let mut lines: Vec<String> = found.unwrap_or("").lines().map(String::from).collect();
        if lines.iter().filter(|line| line.ends_with(" charts")).count() != WIDTHS.len() {
            lines.push("WRONG: not all frames were loaded".into());
        }
        let said = log.lines().filter(|line| line.contains("CONSOLE"));
        lines.extend(said.map(|line| format!("WRONG: {line}")));
        lines.iter().for_each(|line| println!("{name} {theme} {line}"));
        if let Some(to) = to {
            fs::create_dir_all(to)?;
            self.picture(&path, all, dark, &to.join(format!("{name}-{theme}.png")))?;
        }
        Ok(lines.iter().filter(|line| line.contains("WRONG")).count())
    }

    fn picture(&self, page: &Path, size: (u32, u32), dark: bool, to: &Path) -> Result<()> {
        self.start(page, size, dark, &[&format!("--screenshot={}", to.display())])?;
        match to.exists() {
            true => Ok(()),
            false => Err(format!("{}: the browser wrote no picture", to.display()).into()),
        }
    }

    /// Returns what the browser wrote to its standard output and standard error.
    fn start(
        &self,
        page: &Path,
        (width, height): (u32, u32),
        dark: bool,
        more: &[&str],
    ) -> Result<(String, String)> {
        let scheme = if dark { 0 } else { 1 };
        let output = Command::new(self.program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--enable-logging=stderr", "--virtual-time-budget=3000"])
            .arg(format!("--user-data-dir={}", self.dir.join("profile").display()))
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--window-size={width},{height}"))
            .args(more)
            .arg(format!("file://{}", page.canonicalize()?.display()))
            .output()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr)))
    }
}
