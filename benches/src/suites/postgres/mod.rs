//! Plain TOAST at work on a real server, timed inside the server, against ours on the same work.
mod detoast;
mod store;

use std::time::Duration;

use anyhow::{Context, Result};
use pgtoast_testkit::postgres::{Client, SimpleQueryMessage};
use pgtoast_testkit::{Server, ServerOptions};

use super::Suite;
use crate::peers::server;
use crate::{Bench, Effort, Row};

const NAME: &str = "postgres";

/// The suite `postgres`.
#[derive(Debug)]
pub(super) struct PostgresSuite;

impl Suite for PostgresSuite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "plain TOAST: the store beside a server, and a server's values from its files"
    }

    fn run(&self, bench: &Bench) -> Result<Vec<Row>> {
        bench.expect_steps(1 + store::STEPS + detoast::STEPS);
        bench.step("a server");
        let shared_buffers = match bench.effort() {
            Effort::Quick => "1GB",
            Effort::Full => "2GB",
        };
        let options = ServerOptions::new()
            .data_checksums(true)
            .set("shared_buffers", shared_buffers)
            .set("work_mem", "64MB")
            .set("autovacuum", "off")
            .set("jit", "off")
            .set("max_parallel_workers_per_gather", "0");
        let server = Server::start(&server::distribution_15()?, &options)?;
        let mut client = server.client()?;
        let mut rows = store::run(bench, &mut client, detoast::STEPS)?;
        rows.extend(detoast::run(bench, &server, &mut client)?);
        Ok(rows)
    }
}

/// A statement that was run, by the server's own account.
struct Executed {
    time: Duration,
    hit_blocks: u64,
    read_blocks: u64,
}

fn execute(client: &mut Client, sql: &str) -> Result<Executed> {
    let sql = format!("EXPLAIN (ANALYZE, TIMING OFF, BUFFERS, FORMAT JSON) {sql}");
    let messages = client.simple_query(&sql)?;
    let text = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let json: serde_json::Value = serde_json::from_str(text.context("no plan")?)?;
    let plan = &json[0]["Plan"];
    let count = |name: &str| plan[name].as_u64().with_context(|| format!("no {name} in {plan}"));
    let milliseconds = json[0]["Execution Time"].as_f64().context("no execution time")?;
    Ok(Executed {
        time: Duration::from_secs_f64(milliseconds / 1e3),
        hit_blocks: count("Shared Hit Blocks")?,
        read_blocks: count("Shared Read Blocks")?,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
