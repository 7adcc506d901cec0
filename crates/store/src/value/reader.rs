//! A value as a file.
use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::Value;

/// How many bytes are read ahead for those who ask for few at a time.
const WINDOW: usize = 32 * 1024;

/// Reads a value from any place on, a piece at a time. Made by [`Value::reader`].
///
/// It holds a window of 32 KiB. A compressed value can only be decompressed from its beginning: so that is
/// done once, and the reader then holds all of it.
#[derive(Debug)]
pub struct ValueReader<'r> {
    value: Value<'r>,
    position: u64,
    window: Vec<u8>,
    /// Where the window starts in the value.
    window_start: u64,
}

impl<'r> ValueReader<'r> {
    pub(super) fn new(value: Value<'r>) -> Self {
        Self { value, position: 0, window: Vec::new(), window_start: 0 }
    }

    /// What is read.
    #[must_use]
    pub fn value(&self) -> Value<'r> {
        self.value
    }

    fn offset(&self) -> usize {
        usize::try_from(self.position).unwrap_or(usize::MAX)
    }

    /// What the window has from the position on.
    fn in_window(&self) -> &[u8] {
        let skipped = self.position.checked_sub(self.window_start);
        let skipped = skipped.and_then(|skipped| usize::try_from(skipped).ok());
        skipped.and_then(|skipped| self.window.get(skipped..)).unwrap_or_default()
    }

    /// Moves the window to the position.
    fn fill(&mut self) -> io::Result<()> {
        if self.value.compression().is_some() {
            self.value.read_into(&mut self.window)?;
            self.window_start = 0;
            return Ok(());
        }
        let offset = self.offset();
        let len = WINDOW.min(self.value.len().saturating_sub(offset));
        self.window.resize(len, 0);
        self.window_start = self.position;
        let read = self.value.slice_into(offset, &mut self.window);
        if read.is_err() {
            self.window.clear();
        }
        read?;
        Ok(())
    }
}

impl Read for ValueReader<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.in_window().is_empty()
            && target.len() >= WINDOW
            && self.value.compression().is_none()
        {
            let read = self.value.slice_into(self.offset(), target)?;
            self.position += read as u64;
            return Ok(read);
        }
        let available = self.fill_buf()?;
        let len = available.len().min(target.len());
        target[..len].copy_from_slice(&available[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for ValueReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.in_window().is_empty() && self.offset() < self.value.len() {
            self.fill()?;
        }
        Ok(self.in_window())
    }

    fn consume(&mut self, amount: usize) {
        self.position = self.position.saturating_add(amount as u64);
    }
}

impl Seek for ValueReader<'_> {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let len = self.value.len() as u64;
        let position = match place {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => len.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the value");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}
