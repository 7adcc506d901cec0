//! The harness itself: what it starts is a real server, alone in its directory, and gone after.
use std::fs;

use anyhow::Result;
use pgtoast_testkit::{Server, ServerOptions, Survey};

#[test]
fn a_server_is_started_stopped_started_again_and_removed() -> Result<()> {
    for installation in
        Survey::any_server_for("a_server_is_started_stopped_started_again_and_removed")
    {
        let mut server = Server::start(&installation, &ServerOptions::new())?;
        let mut client = server.client()?;
        let number: String = client.query_one("SHOW server_version_num", &[])?.get(0);
        assert_eq!(number.parse::<u32>()? / 10_000, installation.major());
        client.batch_execute("CREATE TABLE kept AS SELECT 42 AS answer")?;
        let path = server.relation_path(&mut client, "kept")?;

        server.stop()?;
        assert!(client.simple_query("SELECT 1").is_err());
        assert_eq!(fs::read(&path)?.len(), 8192, "a clean stop writes the page");

        server.start_again()?;
        let answer: i32 = server.client()?.query_one("SELECT answer FROM kept", &[])?.get(0);
        assert_eq!(answer, 42);

        let directory = server.data_directory();
        drop(server);
        assert!(!directory.exists());
    }
    Ok(())
}

#[test]
fn checksums_are_as_asked_for() -> Result<()> {
    for installation in Survey::any_server_for("checksums_are_as_asked_for") {
        for wanted in [false, true] {
            let options = ServerOptions::new().data_checksums(wanted);
            let server = Server::start(&installation, &options)?;
            let shown: String = server.client()?.query_one("SHOW data_checksums", &[])?.get(0);
            assert_eq!(shown == "on", wanted, "{installation}");
        }
    }
    Ok(())
}

#[test]
fn a_server_that_cannot_start_says_why() -> Result<()> {
    for installation in Survey::any_server_for("a_server_that_cannot_start_says_why") {
        let options = ServerOptions::new().config("no_such_setting = 1");
        let error = Server::start(&installation, &options).unwrap_err();
        assert!(format!("{error:#}").contains("no_such_setting"), "{error:#}");
    }
    Ok(())
}
