//! A file of lines, possibly long and still growing, read from any offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const CHUNK: usize = 64 << 10;
/// Maximum length of a line. Samples of the largest machines have some MiB.
pub const LINE_MAX: usize = 16 << 20;

/// The file. Offsets are in bytes; a line starts at 0 or after a newline.
pub struct Lines {
    file: File,
    buffer: Vec<u8>,
    at: u64,
    #[cfg(test)]
    pub bytes_read: u64,
}

impl Lines {
    pub fn new(file: File) -> Self {
        Self {
            file,
            buffer: Vec::new(),
            at: 0,
            #[cfg(test)]
            bytes_read: 0,
        }
    }

    /// The line at `from`, without its newline, and the offset of the next one; `None` if it has no newline yet.
    pub fn line(&mut self, from: u64) -> io::Result<Option<(&[u8], u64)>> {
        let read = from.checked_sub(self.at).and_then(|skip| usize::try_from(skip).ok());
        let mut start = read.filter(|skip| *skip <= self.buffer.len()).unwrap_or_else(|| {
            self.go_to(from);
            0
        });
        let mut searched = start;
        loop {
            let newline = self.buffer[searched..].iter().position(|b| *b == b'\n');
            if let Some(end) = newline.map(|at| searched + at) {
                let next = from + (end - start) as u64 + 1;
                return Ok(Some((&self.buffer[start..end], next)));
            }
            self.buffer.drain(..start);
            (self.at, start, searched) = (from, 0, self.buffer.len());
            if searched > LINE_MAX {
                return Err(too_long(from));
            }
            if self.read(from + searched as u64, CHUNK)? == 0 {
                // A partial line may be removed by its writer.
                self.buffer.clear();
                return Ok(None);
            }
        }
    }

    pub fn head(&mut self, from: u64, len: usize) -> io::Result<&[u8]> {
        self.go_to(from);
        self.read(from, len)?;
        Ok(&self.buffer)
    }

    /// Offset of the last line that starts before `end`, or 0.
    pub fn start_before(&mut self, end: u64) -> io::Result<u64> {
        // A newline just before `end` terminates the line in question.
        self.after_newline(end.saturating_sub(1))
    }

    /// Offset of the end of the last complete line.
    pub fn whole_end(&mut self) -> io::Result<u64> {
        let len = self.file.metadata()?.len();
        self.after_newline(len)
    }

    /// The offset after the last newline before `end`, or 0.
    fn after_newline(&mut self, end: u64) -> io::Result<u64> {
        let mut from = end;
        while from > 0 {
            if end - from > LINE_MAX as u64 {
                return Err(too_long(from));
            }
            let to = from;
            from = to.saturating_sub(CHUNK as u64);
            self.go_to(from);
            self.read(from, (to - from) as usize)?;
            if let Some(at) = self.buffer.iter().rposition(|b| *b == b'\n') {
                return Ok(from + at as u64 + 1);
            }
        }
        Ok(0)
    }

    fn go_to(&mut self, from: u64) {
        self.buffer.clear();
        self.at = from;
    }

    fn read(&mut self, offset: u64, len: usize) -> io::Result<usize> {
        let have = self.buffer.len();
        self.buffer.resize(have + len, 0);
        let mut got = 0;
        while got < len {
            match self.file.read_at(&mut self.buffer[have + got..], offset + got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.truncate(have + got);
        #[cfg(test)]
        {
            self.bytes_read += got as u64;
        }
        Ok(got)
    }
}

fn too_long(from: u64) -> io::Error {
    let why = format!("the line at byte {from} is longer than {LINE_MAX} bytes");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Lines {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Lines::new(File::open(file.path()).unwrap())
    }

    #[test]
    fn lines_are_found_from_either_side() {
        let mut lines = lines(b"one\n\nthree\nhal");
        assert_eq!(lines.line(0).unwrap(), Some((&b"one"[..], 4)));
        assert_eq!(lines.line(4).unwrap(), Some((&b""[..], 5)));
        assert_eq!(lines.line(5).unwrap(), Some((&b"three"[..], 11)));
        assert_eq!(lines.line(11).unwrap(), None);
        assert_eq!(lines.whole_end().unwrap(), 11);
        let starts = [(11, 5), (8, 5), (5, 4), (4, 0), (1, 0), (0, 0)];
        for (end, start) in starts {
            assert_eq!(lines.start_before(end).unwrap(), start, "before {end}");
        }
    }

    #[test]
    fn lines_longer_than_a_chunk_are_whole() {
        let long = vec![b'x'; 3 * CHUNK + 7];
        let mut text = long.clone();
        text.push(b'\n');
        let mut lines = lines(&text);
        assert_eq!(lines.line(0).unwrap(), Some((&long[..], text.len() as u64)));
        assert_eq!(lines.start_before(text.len() as u64).unwrap(), 0);
        assert_eq!(lines.head(0, 2).unwrap(), b"xx");
    }

    #[test]
    fn a_half_line_that_was_taken_back_is_forgotten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "one\ntw").unwrap();
        let mut lines = Lines::new(File::open(file.path()).unwrap());
        assert_eq!(lines.line(0).unwrap(), Some((&b"one"[..], 4)));
        assert_eq!(lines.line(4).unwrap(), None);
        std::fs::write(file.path(), "one\nnext\n").unwrap();
        assert_eq!(lines.line(4).unwrap(), Some((&b"next"[..], 9)));
        assert_eq!(lines.line(0).unwrap(), Some((&b"one"[..], 4)));
    }

    #[test]
    fn a_line_without_end_is_refused_from_either_side() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let mut lines = Lines::new(file);
        assert!(lines.line(4).unwrap_err().to_string().contains("longer than 16777216"));
        assert!(lines.whole_end().unwrap_err().to_string().contains("longer than 16777216"));
    }
}
