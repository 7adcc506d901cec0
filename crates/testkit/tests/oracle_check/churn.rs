//! Work that leaves all sorts of things behind: from several sessions at once, much of it undone.
use anyhow::{Context as _, Result};
use pgtoast_testkit::{Rng, Server};

/// Tables of several shapes.
pub(crate) fn prepare(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    let path = server.socket_directory().join("elsewhere");
    let path = path.display();
    // The server makes the folder, so that it is its own.
    client.batch_execute(&format!("COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {path}'"))?;
    client.batch_execute(&format!("CREATE TABLESPACE elsewhere LOCATION '{path}'"))?;
    client.batch_execute(
        "CREATE TABLE docs (id int4 PRIMARY KEY, n int4, body text, extra text);
         ALTER TABLE docs ALTER body SET STORAGE EXTERNAL;
         CREATE TABLE packed (id int4, body text, other jsonb) WITH (fillfactor = 60);
         CREATE UNLOGGED TABLE fleeting (id int4, body text);
         CREATE TABLE away (id int4, body text) TABLESPACE elsewhere;
         CREATE TABLE narrow (id int4, n int4);
         CREATE INDEX ON narrow (n);",
    )?;
    Ok(())
}

/// Whether tables are rewritten while others work on them.
///
/// A rewrite copies the values of rows that somebody's snapshot may still see. When such a row goes, its
/// value stays, and no row leads to it: the server wastes space, and that is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewrites {
    No,
    Yes,
}

/// So many statements from each of three sessions.
pub(crate) fn run(server: &Server, seed: u64, statements: u32, rewrites: Rewrites) -> Result<()> {
    std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..3_u64)
            .map(|session| {
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 100 + session);
                    let mut client = server.client()?;
                    // Prepared transactions keep their locks, and nobody ends them in time.
                    client.batch_execute("SET lock_timeout = '100ms'")?;
                    for _ in 0..statements {
                        let sql = statement(&mut rng, rewrites);
                        // Sessions may be chosen to end a deadlock, and that is churn too.
                        let _ = client.batch_execute(&sql);
                        let _ = client.batch_execute("ROLLBACK");
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for session in sessions {
            session.join().expect("a session does not panic").context("a session")?;
        }
        Ok(())
    })
}

fn statement(rng: &mut Rng, rewrites: Rewrites) -> String {
    let id = rng.below(2000);
    let size = 1 + rng.below(400);
    let some = 1 + rng.below(60);
    let end = ["COMMIT", "COMMIT", "ROLLBACK"][rng.below(3)];
    let body =
        format!("(SELECT string_agg(md5((g * {id})::text), '') FROM generate_series(1, {size}) g)");
    match rng.below(18) {
        0..4 => format!(
            "BEGIN; INSERT INTO docs SELECT g + {id} * 100, {id}, {body}, repeat('x', {size} * 9) \
             FROM generate_series(1, {some}) g ON CONFLICT (id) DO UPDATE SET body = excluded.body; {end}"
        ),
        4 => format!("BEGIN; UPDATE docs SET body = body || 'more' WHERE n % 7 = {id} % 7; {end}"),
        5 => format!("BEGIN; UPDATE docs SET n = n + 1 WHERE n % 5 = {id} % 5; {end}"),
        6 => format!("BEGIN; DELETE FROM docs WHERE n % 11 = {id} % 11; {end}"),
        7 => format!(
            "BEGIN; SAVEPOINT a; INSERT INTO packed SELECT g, {body}, jsonb_build_object('k', \
             repeat('v', {size} * 20)) FROM generate_series(1, {some}) g; ROLLBACK TO a; INSERT INTO packed \
             SELECT g, {body} FROM generate_series(1, {some}) g; SAVEPOINT b; DELETE FROM packed WHERE \
             id < {some}; {}; {end}",
            ["RELEASE b", "ROLLBACK TO b"][rng.below(2)]
        ),
        8 => format!("INSERT INTO fleeting SELECT g, {body} FROM generate_series(1, {some}) g"),
        9 => format!(
            "INSERT INTO narrow SELECT g, g FROM generate_series(1, {some} * 50) g; \
             UPDATE narrow SET id = id + 1 WHERE n % 13 = {id} % 13; DELETE FROM narrow WHERE n % 17 = {id} % 17"
        ),
        10 => format!(
            "BEGIN; SELECT FROM docs WHERE n % 9 = {id} % 9 FOR KEY SHARE; SELECT FROM docs WHERE n % 4 = 1 \
             FOR UPDATE; UPDATE docs SET n = n + 1 WHERE n % 9 = {id} % 9; {end}"
        ),
        11 => ["VACUUM docs", "VACUUM packed", "VACUUM FREEZE narrow", "VACUUM", "ANALYZE"]
            [rng.below(5)]
            .to_owned(),
        12 if rewrites == Rewrites::Yes => ["VACUUM FULL packed", "CLUSTER docs USING docs_pkey", "CHECKPOINT", "VACUUM (FREEZE) docs"]
            [rng.below(4)]
            .to_owned(),
        12 => ["VACUUM (FREEZE) docs", "CHECKPOINT"][rng.below(2)].to_owned(),
        13 => format!(
            "BEGIN; ALTER TABLE packed ADD COLUMN added_{id} text DEFAULT repeat('d', {size}); \
             UPDATE packed SET added_{id} = {body} WHERE id % 3 = 0; {end}"
        ),
        14 => "DO $$ DECLARE c text; BEGIN SELECT attname INTO c FROM pg_attribute WHERE attrelid = \
               'packed'::regclass AND attname LIKE 'added%' AND NOT attisdropped LIMIT 1; IF c IS NOT NULL THEN \
               EXECUTE format('ALTER TABLE packed DROP COLUMN %I', c); END IF; END $$"
            .to_owned(),
        15 => format!(
            "BEGIN; INSERT INTO away SELECT g, {body} FROM generate_series(1, {some}) g; \
             SAVEPOINT a; UPDATE away SET body = body || 'more' WHERE id % 3 = {id} % 3; {}; \
             DELETE FROM away WHERE id % 5 = {id} % 5; {end}",
            ["RELEASE a", "ROLLBACK TO a"][rng.below(2)]
        ),
        16 => {
            // Some stay prepared when the server stops, where there may be any.
            let name = format!("p{}", rng.below(4));
            match rng.below(4) {
                0 => format!("COMMIT PREPARED '{name}'"),
                1 => format!("ROLLBACK PREPARED '{name}'"),
                _ => format!(
                    "BEGIN; INSERT INTO away SELECT g, {body} FROM generate_series(1, {some}) g; \
                     SAVEPOINT a; INSERT INTO away VALUES (-{id}, {body}); RELEASE a; \
                     DELETE FROM away WHERE id = {id} % 50; PREPARE TRANSACTION '{name}'"
                ),
            }
        }
        _ => format!(
            "CREATE TABLE made_{id} AS SELECT g, {body} FROM generate_series(1, {some}) g; \
             BEGIN; TRUNCATE fleeting; {end}; DROP TABLE IF EXISTS made_{}",
            rng.below(2000)
        ),
    }
}
