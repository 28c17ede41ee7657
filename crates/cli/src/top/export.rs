//! Where the figures of each interval go: a file for Prometheus, or a collector of OpenTelemetry.

use super::ViewedInterval;
use crate::output::Destination;
use crate::stdio::error;
use fathom_analysis::metrics::Interval;
use fathom_report::top::{otlp, prometheus};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A collector answers within this time.
const ANSWER: Duration = Duration::from_secs(2);
/// One that does not is asked again after this time.
const PAUSE: Duration = Duration::from_secs(10);
/// The port and the path that OTLP/HTTP has by default.
const PORT: u16 = 4318;
const PATH: &str = "/v1/metrics";

#[derive(Debug, Clone, Default, clap::Args)]
pub struct ExportArgs {
    /// Write the figures of each interval to FILE, for Prometheus's node_exporter (textfile collector)
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<String>,
    /// Send the figures of each interval to an OpenTelemetry collector (OTLP over HTTP), such as http://localhost:4318
    #[arg(long, value_name = "URL", conflicts_with = "prometheus", value_parser = Collector::parse)]
    pub otlp: Option<Collector>,
}

impl ExportArgs {
    pub fn is_given(&self) -> bool {
        self.prometheus.is_some() || self.otlp.is_some()
    }

    pub fn open(&self) -> Result<Option<Exported>, String> {
        let to = match (&self.prometheus, &self.otlp) {
            (Some(file), _) => {
                let opened = Destination::open(file, None);
                To::File(opened.map_err(|why| why.replacen("--output=", "--prometheus=", 1))?)
            }
            (None, Some(collector)) => To::Collector(collector.clone()),
            (None, None) => return Ok(None),
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Some(Exported { to, host, failed: None }))
    }
}

enum To {
    File(Destination),
    Collector(Collector),
}

pub struct Exported {
    to: To,
    host: String,
    /// Since when it fails.
    failed: Option<Instant>,
}

impl Exported {
    pub fn write(&mut self, interval: &ViewedInterval) {
        let (before, now) = (&interval.before.machine, &interval.now.machine);
        let of_interval = Interval { before, now, rates: &interval.rates };
        self.write_interval(&of_interval, interval.now.unix_ns);
    }

    /// Reports a failure once: the next interval may be written again.
    pub fn write_interval(&mut self, interval: &Interval<'_>, unix_ns: u64) {
        let done = match &self.to {
            To::File(file) => file.publish(&prometheus(interval, unix_ns)),
            // It may take its time to fail, which must not delay every sample.
            To::Collector(_) if self.failed.is_some_and(|at| at.elapsed() < PAUSE) => return,
            To::Collector(to) => to.post(&otlp(interval, unix_ns, &self.host)),
        };
        if let Some(why) = done.as_ref().err().filter(|_| self.failed.is_none()) {
            error!("{why}; retrying");
        }
        self.failed = done.err().map(|_| Instant::now());
    }
}

/// What takes OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    url: String,
    /// Host and port.
    authority: String,
    path: String,
}

impl Collector {
    pub fn parse(url: &str) -> Result<Self, String> {
        let expected = "expected http://HOST[:PORT][/PATH], such as http://localhost:4318";
        if url.starts_with("https:") {
            return Err(format!(
                "https is not supported; send to a collector on this host, which can encrypt; {expected}"
            ));
        }
        let rest = url.strip_prefix("http://").ok_or(expected)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_fine = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
        if authority.is_empty() || !rest.chars().all(is_fine) {
            return Err(expected.into());
        }
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let authority = match port {
            Some((_, port)) if port.parse::<u16>().is_err() => return Err(expected.into()),
            Some(_) => authority.to_string(),
            None => format!("{authority}:{PORT}"),
        };
        let path = if path.len() > 1 { path } else { PATH };
        Ok(Self { url: url.into(), authority, path: path.into() })
    }

    fn post(&self, body: &str) -> Result<(), String> {
        let status =
            self.status(body).map_err(|error| format!("cannot send to {}: {error}", self.url))?;
        let code = status.split(' ').nth(1).unwrap_or_default();
        match code.starts_with('2') {
            true => Ok(()),
            false => Err(format!(
                "{} refused the figures: {}",
                self.url,
                fathom_model::escape::text(&status)
            )),
        }
    }

    /// The first line of the answer.
    fn status(&self, body: &str) -> std::io::Result<String> {
        let until = Instant::now() + ANSWER;
        let address = self.authority.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| std::io::Error::other("no address"))?;
        let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let (path, host, length) = (&self.path, &self.authority, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        let (mut answer, mut bytes) = (Vec::new(), [0; 512]);
        while !answer.contains(&b'\n') && answer.len() < 4096 && Instant::now() < until {
            match stream.read(&mut bytes)? {
                0 => break,
                read => answer.extend_from_slice(&bytes[..read]),
            }
        }
        let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).trim_end().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_have_a_host() {
        let parse = |url: &str| Collector::parse(url).map(|to| (to.authority, to.path));
        let to = |authority: &str, path: &str| Ok((authority.to_string(), path.to_string()));
        assert_eq!(parse("http://localhost"), to("localhost:4318", "/v1/metrics"));
        assert_eq!(parse("http://[::1]/"), to("[::1]:4318", "/v1/metrics"));
        assert_eq!(parse("http://[::1]:80/a/b"), to("[::1]:80", "/a/b"));
        for wrong in
            ["localhost:4318", "http://", "http://a b", "http://a:b", "http://u@h", "http://a\r\nX"]
        {
            assert!(parse(wrong).is_err_and(|why| why.contains("http://HOST")), "{wrong}");
        }
        assert!(parse("https://a").is_err_and(|why| why.contains("https is not supported")));
    }
}
