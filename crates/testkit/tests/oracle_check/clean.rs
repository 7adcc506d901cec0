//! Directories in which nothing is wrong.
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use pgtoast_datadir::check::{Check, Coverage, Finding, Severity};
use pgtoast_datadir::{Consistency, DataDirectory};
use pgtoast_testkit::{Server, ServerOptions, Survey, report};

use crate::churn::{self, Rewrites};
use crate::scenario;

/// Checks a stopped server's directory, which must give no finding worse than `at_most`; in two ways,
/// that differ in threads and memory and must not differ in what they see.
fn nothing_is_found(server: &Server, at_most: Option<Severity>) -> Result<Coverage> {
    let directory = DataDirectory::open(server.data_directory())?;
    ensure!(directory.consistency() == Consistency::Clean, "{}", directory.consistency());
    let run = |check: Check| {
        let mut findings = Vec::new();
        let coverage = check.directory(&directory, &mut |finding: Finding| findings.push(finding));
        let worse = findings.iter().filter(|one| Some(one.severity()) > at_most);
        let lines: Vec<_> = worse.map(ToString::to_string).collect();
        ensure!(lines.is_empty(), "{}: {}", server.major(), lines.join("\n"));
        Ok(coverage)
    };
    let coverage = run(Check::new().with_threads(2).with_deep(true))?;
    // So little memory that value ids take many passes.
    let tight = run(Check::new().with_threads(3).with_memory(40_000))?;
    ensure!(coverage.tuples == tight.tuples || tight.tuples > coverage.tuples);
    ensure!(coverage.values == tight.values, "{} and {}", coverage.values, tight.values);
    Ok(coverage)
}

fn count(test: &str, server: &Server, coverage: &Coverage) -> Result<()> {
    let databases = DataDirectory::open(server.data_directory())?.databases().len();
    report::count(
        test,
        format_args!(
            "{}: {databases} databases, {} relations, {} blocks, {} tuples, {} values, {} decompressed",
            server.major(),
            coverage.relations,
            coverage.blocks,
            coverage.tuples,
            coverage.values,
            coverage.decompressed
        ),
    );
    Ok(())
}

#[test]
fn nothing_is_found_in_a_cluster_of_every_kind_of_relation() -> Result<()> {
    const TEST: &str = "nothing_is_found_in_a_cluster_of_every_kind_of_relation";
    Survey::on_every_server(TEST, |installation| {
        let options = ServerOptions::new().set("max_prepared_transactions", "5");
        let mut server = Server::start(installation, &options)?;
        scenario::run(&server)?;
        server.stop()?;
        let coverage = nothing_is_found(&server, None)?;
        ensure!(coverage.values > 1000, "{coverage:?}");
        count(TEST, &server, &coverage)
    })
}

#[test]
fn nothing_is_found_after_churn_and_a_crash() -> Result<()> {
    const TEST: &str = "nothing_is_found_after_churn_and_a_crash";
    Survey::on_every_server(TEST, |installation| {
        // Pages may be torn in a crash, so they are logged whole; vacuum comes when it likes.
        let options = ServerOptions::new()
            .set("full_page_writes", "on")
            .set("autovacuum", "on")
            .set("autovacuum_naptime", "1s")
            .set("wal_level", "replica")
            .set("checkpoint_timeout", "30s")
            .set("max_prepared_transactions", "5");
        let mut server = Server::start(installation, &options)?;
        churn::prepare(&server)?;
        churn::run(&server, 1, 60, Rewrites::No)?;
        server.stop()?;
        let coverage = nothing_is_found(&server, None).context("after churn")?;
        count(TEST, &server, &coverage)?;
        for (seed, rewrites, at_most) in
            [(2, Rewrites::No, None), (3, Rewrites::Yes, Some(Severity::Waste))]
        {
            server.start_again()?;
            churn::run(&server, seed, 30, rewrites)?;
            server.crash()?;
            server.start_again()?;
            churn::run(&server, seed + 10, 5, rewrites)?;
            server.stop()?;
            let coverage =
                nothing_is_found(&server, at_most).with_context(|| format!("crash {seed}"))?;
            ensure!(coverage.values > 50, "{coverage:?}");
            count(TEST, &server, &coverage)?;
        }
        Ok(())
    })
}

#[test]
fn nothing_is_found_in_a_cluster_without_checksums() -> Result<()> {
    const TEST: &str = "nothing_is_found_in_a_cluster_without_checksums";
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new().data_checksums(false))?;
        churn::prepare(&server)?;
        churn::run(&server, 7, 20, Rewrites::No)?;
        server.stop()?;
        let coverage = nothing_is_found(&server, None)?;
        ensure!(coverage.checksums == 0 && coverage.values > 50, "{coverage:?}");
        let names: Vec<_> = coverage.skipped.iter().map(ToString::to_string).collect();
        ensure!(names.iter().any(|name| name.contains("checksums are off")), "{names:?}");
        count(TEST, &server, &coverage)
    })
}

#[test]
fn a_directory_that_was_not_stopped_is_named_so() -> Result<()> {
    const TEST: &str = "a_directory_that_was_not_stopped_is_named_so";
    Survey::on_every_server(TEST, |installation| {
        let mut server = Server::start(installation, &ServerOptions::new())?;
        churn::prepare(&server)?;
        server.crash()?;
        let directory = DataDirectory::open(server.data_directory())?;
        let findings = Arc::new(std::sync::Mutex::new(0));
        let coverage = Check::new().directory(&directory, &mut |_: Finding| {
            *findings.lock().expect("no panic") += 1;
        });
        let named = coverage.skipped.iter().any(|one| one.to_string().contains("not consistent"));
        ensure!(named, "{:?}", coverage.skipped);
        Ok(())
    })
}
