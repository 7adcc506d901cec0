-- Run by make.sh in an empty database of a PostgreSQL 15 cluster with checksums, `autovacuum = off` and
-- `max_prepared_transactions = 10`.
CREATE EXTENSION pageinspect;
CREATE EXTENSION pg_visibility;

-- Every storage form side by side, a dropped column, and one that came later with a default.
CREATE TABLE forms (
  flag "char", big int8, gone int4, t126 text, t127 text, small int2[], nothing text,
  empty text, wide float8[], fixed uuid, label name, plain text, yes bool
);
ALTER TABLE forms ALTER plain SET STORAGE PLAIN;
INSERT INTO forms VALUES
  ('c', 1234567890123456789, 77, repeat('a', 126), repeat('a', 127), '{1,2,3}', NULL,
   '', '{1.5,NULL}', '00112233-4455-6677-8899-aabbccddeeff', 'name', 'x', true),
  ('d', -1, NULL, 'x', repeat('z', 1990), '{}', 'something', NULL, '{}', NULL, NULL, NULL, false),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
ALTER TABLE forms DROP COLUMN gone;
INSERT INTO forms VALUES
  ('e', 5, 'short', 'other', '{7}', NULL, '', NULL, NULL, 'second', 'plain', NULL);
ALTER TABLE forms ADD COLUMN later text DEFAULT 'later', ADD COLUMN count int4 DEFAULT 42;
INSERT INTO forms VALUES
  ('f', 6, repeat('q', 3000), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'y', true, 'now', NULL);

-- A value out of line, its chunks stored as they are.
CREATE TABLE outside (id int4, value text);
ALTER TABLE outside ALTER value SET STORAGE EXTERNAL;
INSERT INTO outside SELECT 1, string_agg(md5(g::text), '' ORDER BY g) FROM generate_series(1, 500) g;

-- Line pointers of every state, out of order in the page.
CREATE TABLE chain (id int4 PRIMARY KEY, note text);
INSERT INTO chain SELECT g, 'row ' || g FROM generate_series(1, 12) g;
UPDATE chain SET note = 'updated' WHERE id IN (2, 5);
DELETE FROM chain WHERE id IN (3, 12);
VACUUM (INDEX_CLEANUP off) chain;
DELETE FROM chain WHERE id = 7;
VACUUM (INDEX_CLEANUP on) chain;
UPDATE chain SET note = 'again' WHERE id IN (2, 9);
DELETE FROM chain WHERE id = 1;
VACUUM (INDEX_CLEANUP off) chain;
INSERT INTO chain VALUES (20, 'long enough to be told apart');

-- A btree metapage that was never logged, in an init fork.
CREATE UNLOGGED TABLE unlogged (id int4 PRIMARY KEY);

-- A visibility map of a few pages: all visible and frozen, all visible, neither.
CREATE TABLE mapped (id int4, filler char(900)) WITH (fillfactor = 100);
INSERT INTO mapped SELECT g, '' FROM generate_series(1, 96) g;
VACUUM FREEZE mapped;
INSERT INTO mapped SELECT g, '' FROM generate_series(97, 128) g;
VACUUM mapped;
DELETE FROM mapped WHERE id IN (1, 50, 127);
-- Row versions in every state, most before anyone has set a hint. A prepared transaction is one in
-- progress to everybody else; it holds vacuum back, so this comes last.
CREATE TABLE states (id int4, what text);
INSERT INTO states VALUES (1, 'frozen');
VACUUM FREEZE states;
INSERT INTO states SELECT g, w FROM (VALUES (2, 'live'), (3, 'deleted'), (4, 'delete rolled back'),
  (5, 'locked'), (6, 'updated'), (7, 'deleted and hinted'), (8, 'locked key share'), (11, 'being deleted'),
  (12, 'locked by two'), (13, 'key shared and updated'), (14, 'update in progress')) v(g, w);
BEGIN; INSERT INTO states VALUES (9, 'insert rolled back'); ROLLBACK;
DELETE FROM states WHERE id = 7;
SELECT count(*) FROM states;
DELETE FROM states WHERE id = 3;
BEGIN; DELETE FROM states WHERE id = 4; ROLLBACK;
BEGIN; SELECT FROM states WHERE id = 5 FOR UPDATE; COMMIT;
BEGIN; SELECT FROM states WHERE id = 8 FOR KEY SHARE; COMMIT;
UPDATE states SET what = 'new version' WHERE id = 6;
INSERT INTO states VALUES (10, 'fresh');
BEGIN;
INSERT INTO states VALUES (15, 'being inserted');
DELETE FROM states WHERE id = 11;
SELECT FROM states WHERE id IN (12, 13) FOR KEY SHARE;
UPDATE states SET what = 'not yet' WHERE id = 14;
PREPARE TRANSACTION 'page fixtures';
BEGIN; SELECT FROM states WHERE id = 12 FOR KEY SHARE; COMMIT;
UPDATE states SET what = 'updated under a lock' WHERE id = 13;

CHECKPOINT;
