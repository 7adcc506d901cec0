//! What the command does not do, how it says so, and the exit codes that scripts go by.
use std::fs;
use std::io::Read;
use std::process::Stdio;

mod common;

use common::{Fixture, MAJORS, Ran, pgtoast};

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["values"],
        &["get", "notes"],
        &["check", "--checksums", "maybe"],
        &["info", "--limit-memory", "much"],
        &["info", "--threads", "0"],
    ] {
        let ran = Ran::of(pgtoast().args(arguments)).code(2);
        assert!(!ran.errors.is_empty(), "{arguments:?}");
    }
    let fixture = Fixture::new(15);
    for arguments in [
        &["get", "notes", "first", "plain"][..],
        &["get", "notes", "(0,0)", "plain"],
        &["get", "notes", "(0,1)", "plain", "--slice", "1"],
        &["get", "notes", "(0,1)", "plain", "--chars", "0:1"],
        &["values", "--log-line", "out of memory"],
        &["fsm", "rebuild", "notes"],
    ] {
        fixture.run_in(arguments).code(2);
    }
    assert!(Ran::of(pgtoast().arg("info")).code(2).errors.contains("PGDATA"));
}

#[test]
fn help_and_version_are_no_failures() {
    for arguments in
        [&["--help"][..], &["-h"], &["--version"], &["check", "--help"], &["help", "get"]]
    {
        let ran = Ran::of(pgtoast().args(arguments)).code(0);
        assert!(ran.errors.is_empty() && !ran.bytes.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_tells_what_a_manual_page_would() {
    let help = Ran::of(pgtoast().arg("--help")).code(0);
    for words in [
        "Exit status:",
        "  4  data is lost",
        "Environment:",
        "NO_COLOR",
        "Examples:",
        "--limit-memory",
        "--online",
        "never writes",
    ] {
        assert!(help.text().contains(words), "{words}");
    }
    for command in [
        "info",
        "check",
        "tables",
        "columns",
        "values",
        "get",
        "ids",
        "fsm",
        "schema",
        "completions",
        "man",
    ] {
        assert!(help.text().contains(command), "{command}");
        let own = Ran::of(pgtoast().args([command, "--help"])).code(0);
        let usage = format!("Usage: pgtoast {command}");
        assert!(own.text().contains(&usage), "{}", own.text());
    }
}

#[test]
fn a_place_without_a_data_directory_is_named_as_such() {
    let empty = tempfile::tempdir().unwrap();
    for path in [empty.path(), &empty.path().join("nowhere")] {
        let ran = Ran::of(pgtoast().args(["info", "-D"]).arg(path)).code(1);
        assert!(ran.errors.contains("no data directory"), "{}", ran.errors);
        assert!(ran.bytes.is_empty());
    }
}

#[test]
fn a_running_server_is_refused_unless_told() {
    let fixture = Fixture::new(15);
    let text = format!("{}\n{}\n", std::process::id(), fixture.path().display());
    fs::write(fixture.path().join("postmaster.pid"), text).unwrap();
    let ran = fixture.run_in(&["values", "notes"]).code(1);
    assert!(ran.errors.contains("a server runs on the data directory"), "{}", ran.errors);
    assert!(ran.errors.contains("--online"));
    fixture.run_in(&["values", "notes", "--online"]).code(0);
}

#[test]
fn a_broken_control_file_ends_the_command_and_nothing_else_does() {
    let fixture = Fixture::new(15);
    let control = fixture.path().join("global/pg_control");
    fixture.change(&control, |bytes| bytes[40] ^= 1);
    let ran = fixture.run(&["info"]).code(1);
    assert!(ran.errors.contains("pg_control: checksum"), "{}", ran.errors);

    let fixture = Fixture::new(15);
    fs::remove_file(fixture.path().join("global/pg_filenode.map")).unwrap();
    let ran = fixture.run(&["info", "--json"]).code(3);
    let info = ran.json();
    assert_eq!(info["cluster"]["major"], 15);
    assert!(info["problems"][0].as_str().unwrap().contains("pg_filenode.map"), "{info:#}");
}

#[test]
fn what_is_not_there_is_named() {
    let fixture = Fixture::new(18);
    for (arguments, words) in [
        (&["values", "nowhere"][..], "no table nowhere"),
        (&["check", "nowhere"], "no table nowhere"),
        (&["get", "notes", "(0,1)", "color"], "public.notes has no column color"),
        (&["values", "notes", "--column", "99"], "public.notes has no column 99"),
        (&["get", "notes", "(9000,1)", "plain"], "no block 9000"),
        (&["get", "notes", "(0,200)", "plain"], "item 200 does not exist"),
        (&["values", "notes_pkey"], "is an index, and not a table"),
    ] {
        let ran = fixture.run_in(arguments).code(1);
        assert!(ran.errors.contains(words), "{arguments:?}: {}", ran.errors);
    }
    let ran = fixture.run(&["-d", "nowhere", "values", "notes"]).code(1);
    assert!(ran.errors.contains("no database nowhere; there are postgres"), "{}", ran.errors);
    fixture.run(&["-d", "nowhere", "info"]).code(1);
}

#[test]
fn a_pipe_that_is_closed_ends_it_quietly() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        for arguments in [
            &["get", "notes", "(0,8)", "both"][..],
            &["get", "notes", "(0,8)", "both", "--format", "hex"],
            &["values", "notes", "--inline"],
            &["check", "notes"],
            &["schema"],
            &["completions", "bash"],
        ] {
            let mut child = pgtoast()
                .args(["-d", "postgres", "-D"])
                .arg(fixture.path())
                .args(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // Closed before anything can have been written.
            drop(child.stdout.take());
            let mut errors = String::new();
            child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
            let code = child.wait().unwrap().code();
            assert!(code == Some(0) && errors.is_empty(), "{arguments:?}: {code:?} {errors}");
        }
    }
}

#[test]
fn colours_are_for_terminals_or_whoever_wants_them() {
    let fixture = Fixture::new(15);
    let plain = fixture.run_in(&["values", "notes"]).code(0);
    assert!(!plain.text().contains('\x1b'));
    let colored = fixture.run_in(&["values", "notes", "--color", "always"]).code(0);
    assert!(colored.text().contains('\x1b'));
    let json = fixture.run_in(&["values", "notes", "--color", "always", "--json"]).code(0);
    assert!(!json.text().contains('\x1b'));
}

#[test]
fn completions_and_manual_pages_are_made_for_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = Ran::of(pgtoast().args(["completions", shell])).code(0);
        assert!(ran.text().contains("limit-memory"), "{shell}");
    }
    let page = Ran::of(pgtoast().arg("man")).code(0);
    assert!(
        page.text().starts_with(".ie") && page.text().contains("Exit status:"),
        "{}",
        page.text()
    );
    let folder = tempfile::tempdir().unwrap();
    Ran::of(pgtoast().arg("man").arg(folder.path())).code(0);
    for name in ["pgtoast.1", "pgtoast-check.1", "pgtoast-values.1"] {
        assert!(folder.path().join(name).is_file(), "{name}");
    }
}
