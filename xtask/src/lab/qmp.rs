//! QEMU's own channel, by which disks are pulled out of and put into a running machine.

use crate::Result;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub struct Qmp {
    stream: BufReader<UnixStream>,
}

impl Qmp {
    pub fn greet(stream: UnixStream) -> Result<Qmp> {
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut qmp = Qmp { stream: BufReader::new(stream) };
        qmp.stream.read_line(&mut String::new())?;
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let request = json!({"execute": command, "arguments": arguments});
        self.stream.get_mut().write_all(format!("{request}\n").as_bytes())?;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err("QEMU has gone".into());
            }
            let reply: Value = serde_json::from_str(&line)?;
            if let Some(error) = reply.get("error") {
                return Err(
                    format!("{command}: {}", error["desc"].as_str().unwrap_or("refused")).into()
                );
            }
            // Events come in between; they have neither.
            if let Some(value) = reply.get("return") {
                return Ok(value.clone());
            }
        }
    }
}
