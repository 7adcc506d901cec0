//! The command; all of it is in the library's module `command`.
use std::process::ExitCode;

fn main() -> ExitCode {
    pgtoast::command::run(std::env::args_os())
}
