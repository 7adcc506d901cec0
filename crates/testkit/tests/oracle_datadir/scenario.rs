//! What the cluster goes through before it is stopped.
use anyhow::{Context as _, Result};
use pgtoast_testkit::Server;
use pgtoast_testkit::postgres::Client;

/// Relations of every kind, columns dropped and added, transactions ended in every way.
pub(crate) fn run(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    for space in ["fast", "slow"] {
        let path = server.socket_directory().join(space);
        let path = path.display();
        // The server makes the folder, so that it is its own.
        client.batch_execute(&format!(
            "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {path}'"
        ))?;
        client.batch_execute(&format!("CREATE TABLESPACE {space} LOCATION '{path}'"))?;
    }
    client.batch_execute("CREATE DATABASE moved TABLESPACE fast")?;
    client.batch_execute("CREATE DATABASE renamed")?;
    client.batch_execute("ALTER DATABASE renamed RENAME TO \"odd name\"")?;
    drop(client);

    for database in ["postgres", "moved", "odd name"] {
        let mut client = server.client_of(database)?;
        each(&mut client, RELATIONS)?;
        each(&mut client, COLUMNS)?;
        each(&mut client, CHURN)?;
    }
    // These cannot run inside a transaction.
    let mut client = server.client_of("moved")?;
    client.batch_execute("VACUUM FULL pg_class")?;
    client.batch_execute("VACUUM FULL churned")?;
    client.batch_execute("ALTER TABLE kinds SET TABLESPACE slow")?;
    client.batch_execute("ALTER TABLE churned SET TABLESPACE pg_default")?;
    let mut client = server.client()?;
    client.batch_execute("VACUUM FULL pg_attribute")?;
    client.batch_execute("REINDEX TABLE pg_class")?;
    client.batch_execute("VACUUM FREEZE kinds")?;
    client.batch_execute("CREATE TABLE away (id int4, data text) TABLESPACE slow")?;
    client.batch_execute(
        "INSERT INTO away SELECT g, repeat(md5(g::text), 300) FROM generate_series(1, 100) g",
    )?;
    client.batch_execute(
        "CREATE TABLE plain_long (id int4, data text);
         ALTER TABLE plain_long ALTER data SET STORAGE EXTERNAL;
         INSERT INTO plain_long SELECT g, repeat(md5(g::text), 80 + g % 200) FROM generate_series(1, 900) g;
         DELETE FROM plain_long WHERE id % 3 = 0",
    )?;
    client.batch_execute("VACUUM plain_long")?;
    // These chunks fill the holes, so some values go up and down in the file.
    client.batch_execute(
        "INSERT INTO plain_long SELECT g, repeat(md5(g::text), 500) FROM generate_series(1, 100) g",
    )?;
    locks(server)?;
    each(&mut client, PREPARED)?;
    // An aborted transaction that changed the catalogs, at the very end.
    each(&mut client, "BEGIN; CREATE TABLE undone (id int4); DROP TABLE away; ROLLBACK")?;
    Ok(())
}

const RELATIONS: &str = "
    CREATE SCHEMA app;
    CREATE TYPE app.mood AS ENUM ('sad', 'ok');
    CREATE DOMAIN app.short AS text CHECK (length(value) < 10);
    CREATE TYPE app.pair AS (a int4, b text);
    CREATE TABLE kinds (id int4 PRIMARY KEY, t text, mood app.mood, s app.short, p app.pair,
        n numeric, a int4[], d float8, u uuid, j jsonb)
        WITH (fillfactor = 70, toast_tuple_target = 256);
    CREATE INDEX ON kinds USING hash (t);
    CREATE INDEX ON kinds USING gin (a);
    CREATE INDEX ON kinds USING brin (id);
    CREATE UNLOGGED TABLE fleeting (id int8 PRIMARY KEY, t text);
    CREATE TABLE parted (id int4, t text) PARTITION BY RANGE (id);
    CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
    CREATE TABLE parted_2 PARTITION OF parted DEFAULT;
    CREATE INDEX ON parted (id);
    CREATE VIEW seen AS SELECT id FROM kinds;
    CREATE SEQUENCE counter;
    INSERT INTO kinds SELECT g, repeat(md5(g::text), g), 'ok'::app.mood, 'short', ROW(g, 'b')::app.pair, g / 7.0,
        array[g, NULL], g, gen_random_uuid(), jsonb_build_object('k', repeat('v', g * 20))
        FROM generate_series(1, 150) g;
    INSERT INTO fleeting SELECT g, repeat('u', g * 10) FROM generate_series(1, 300) g;
    INSERT INTO parted SELECT g, g FROM generate_series(0, 250) g;
    CREATE MATERIALIZED VIEW app.sums AS SELECT id % 10 AS key, sum(id) FROM parted GROUP BY 1;
    CREATE TABLE \"Odd.Name\" (\"a b\" int4);
";

const COLUMNS: &str = "
    CREATE TABLE grown (id int4, gone text, kept text COMPRESSION pglz);
    INSERT INTO grown SELECT g, 'gone', repeat('kept', g) FROM generate_series(1, 50) g;
    ALTER TABLE grown DROP COLUMN gone;
    ALTER TABLE grown ADD COLUMN n int4 DEFAULT 42;
    ALTER TABLE grown ADD COLUMN big text DEFAULT repeat('missing ', 1000);
    ALTER TABLE grown ADD COLUMN small text DEFAULT 'few';
    ALTER TABLE grown ADD COLUMN wide float8[] DEFAULT '{1,2,3}';
    ALTER TABLE grown ADD COLUMN nothing text;
    ALTER TABLE grown ADD COLUMN dropped_too int8 DEFAULT 7;
    ALTER TABLE grown DROP COLUMN dropped_too;
    ALTER TABLE grown ALTER kept SET STORAGE EXTERNAL, ALTER small SET STORAGE MAIN;
    INSERT INTO grown (id, kept) VALUES (51, repeat('new', 2000));
";

const CHURN: &str = "
    CREATE TABLE churned (id int4 PRIMARY KEY, t text);
    INSERT INTO churned SELECT g, repeat(md5(g::text), 100) FROM generate_series(1, 400) g;
    DELETE FROM churned WHERE id % 5 = 0;
    UPDATE churned SET t = t || '!' WHERE id % 7 = 0;
    BEGIN; INSERT INTO churned SELECT g, 'undone' FROM generate_series(1000, 1400) g; ROLLBACK;
    BEGIN; DELETE FROM churned; ROLLBACK;
    BEGIN; UPDATE churned SET t = 'undone'; ROLLBACK;
    BEGIN;
    INSERT INTO churned VALUES (2000, 'kept');
    SAVEPOINT a; INSERT INTO churned VALUES (2001, 'undone'); ROLLBACK TO a;
    SAVEPOINT b; INSERT INTO churned VALUES (2002, 'kept'); RELEASE b;
    SAVEPOINT c; DELETE FROM churned WHERE id < 50; ROLLBACK TO c;
    SAVEPOINT d; DELETE FROM churned WHERE id BETWEEN 50 AND 60; RELEASE d;
    COMMIT;
    BEGIN; SAVEPOINT a; INSERT INTO churned VALUES (2003, 'undone'); RELEASE a; ROLLBACK;
";

const PREPARED: &str = "
    BEGIN;
    INSERT INTO churned VALUES (3000, 'waits');
    SAVEPOINT a; INSERT INTO churned VALUES (3001, 'waits'); RELEASE a;
    SAVEPOINT b; DELETE FROM churned WHERE id = 1; RELEASE b;
    UPDATE churned SET t = 'waits' WHERE id = 2;
    PREPARE TRANSACTION 'it''s waiting';
";

/// Sends the statements one by one: together they would be one transaction. None has a semicolon in it.
fn each(client: &mut Client, statements: &str) -> Result<()> {
    for statement in statements.split(';').filter(|one| !one.trim().is_empty()) {
        client.batch_execute(statement).with_context(|| statement.to_owned())?;
    }
    Ok(())
}

/// Rows that several transactions had to do with at once.
fn locks(server: &Server) -> Result<()> {
    let (mut one, mut other) = (server.client()?, server.client()?);
    one.batch_execute(
        "CREATE TABLE locked (id int4 PRIMARY KEY, t text);
         INSERT INTO locked SELECT g, 'row' FROM generate_series(1, 40) g",
    )?;
    let mut both = |first: &str, second: &str, end: &str| -> Result<()> {
        each(&mut one, &format!("BEGIN; {first}"))?;
        each(&mut other, &format!("BEGIN; {second}; {end}"))?;
        one.batch_execute("COMMIT")?;
        Ok(())
    };
    let share =
        |id: i32| format!("SELECT FROM locked WHERE id BETWEEN {id} AND {} FOR SHARE", id + 4);
    let key_share =
        |id: i32| format!("SELECT FROM locked WHERE id BETWEEN {id} AND {} FOR KEY SHARE", id + 4);
    let update =
        |id: i32| format!("UPDATE locked SET t = 'updated' WHERE id BETWEEN {id} AND {}", id + 4);
    both(&share(1), &share(1), "COMMIT")?;
    both(&key_share(6), &update(6), "COMMIT")?;
    both(&key_share(11), &update(11), "ROLLBACK")?;
    both(&key_share(16), &key_share(16), "ROLLBACK")?;
    // An updater in a subtransaction, which is the member.
    let in_subtransaction = format!("SAVEPOINT a; {}; RELEASE a", update(21));
    both(&key_share(21), &in_subtransaction, "COMMIT")?;
    let undone = format!("SAVEPOINT a; {}; ROLLBACK TO a", update(26));
    both(&key_share(26), &undone, "COMMIT")?;
    Ok(())
}
