//! Starts cargo, or another program, in the workspace's root: either leaving it the terminal, or
//! reading along line by line while its output goes through.
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, IsTerminal, PipeReader, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace;

/// How long to wait for more output once the program itself has ended. A server that it left
/// behind may hold the pipe open for good.
const SILENCE: Duration = Duration::from_secs(2);

/// `cargo arguments…`, to be run in the workspace's root.
pub(crate) fn cargo<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(workspace::root()).stdin(Stdio::null());
    command
}

/// The command as one would type it.
pub(crate) fn typed(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// Runs the command with the terminal for itself; says what it runs, whether it went well and how
/// long it took.
pub(crate) fn passes(command: &mut Command) -> Result<(bool, Duration)> {
    let line = typed(command);
    eprintln!("\n> {line}");
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{line} did not start"))?;
    Ok((status.success(), start.elapsed()))
}

/// Runs the command and hands each line of its output, standard error included and in the order
/// written, to `reader`; a line for which that is true is printed as well.
pub(crate) fn read_along(
    command: &mut Command,
    mut reader: impl FnMut(&str) -> bool,
) -> Result<ExitStatus> {
    let line = typed(command);
    eprintln!("\n> {line}");
    if io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let (output, input) = io::pipe().context("no pipe")?;
    command.stdout(input.try_clone().context("no second end of a pipe")?).stderr(input);
    let mut child = command.spawn().with_context(|| format!("{line} did not start"))?;
    // The command holds the writing ends; as long as it does, the output never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || send_lines(output, &sender));
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(text) => {
                if reader(&without_colours(&text)) {
                    // A closed stdout is no reason to stop counting.
                    let _ = writeln!(io::stdout(), "{text}");
                }
                ended = ended.map(|(status, _)| (status, Instant::now()));
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(child.wait()?),
            Err(RecvTimeoutError::Timeout) => match ended {
                Some((status, since)) if since.elapsed() > SILENCE => return Ok(status),
                Some(_) => {}
                None => ended = child.try_wait()?.map(|status| (status, Instant::now())),
            },
        }
    }
}

fn send_lines(output: PipeReader, sender: &mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while output.read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
        let text = String::from_utf8_lossy(&bytes);
        if sender.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
            return;
        }
        bytes.clear();
    }
}

/// The line without its escape sequences (`ESC [ … letter`).
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_taken_out_and_nothing_else() {
        let line = "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m unittests src/lib.rs [x]";
        assert_eq!(without_colours(line), "     Running unittests src/lib.rs [x]");
        assert_eq!(without_colours("plain [31m"), "plain [31m");
        assert_eq!(without_colours("cut \u{1b}[31"), "cut ");
    }

    #[test]
    fn both_streams_are_read_in_the_order_written() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let status = read_along(&mut command, |line| {
            lines.push(line.to_owned());
            false
        });
        assert_eq!(lines, ["one", "two", "three"]);
        assert_eq!(status.unwrap().code(), Some(3));
    }

    #[test]
    fn a_child_left_behind_does_not_keep_us_waiting() {
        let start = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo done"]);
        let status = read_along(&mut command, |_| false);
        assert!(status.unwrap().success());
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
