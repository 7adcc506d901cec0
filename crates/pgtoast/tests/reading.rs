//! What the commands say of data directories whose rows the tests know: row N of `notes` has 'row N' in `plain`,
//! that 500 times in `packed`, 600 times in `outside`, and 60 000 times in `both` where 8 divides N.
use std::collections::BTreeSet;
use std::fs;

mod common;

use common::{Fixture, MAJORS};
use serde_json::Value;

/// The tid of the visible row with this id.
fn tid_of(fixture: &Fixture, id: usize) -> String {
    let values = fixture.json(&["values", "notes", "--inline", "--column", "plain"]);
    for value in values["values"].as_array().expect("as the schema has it") {
        let tid = value["tid"].as_str().expect("as the schema has it");
        let found = fixture.run_in(&["get", "notes", tid, "id", "--format", "text"]).code(0);
        if found.text() == format!("{id}\n") {
            return tid.to_owned();
        }
    }
    panic!("no row {id}");
}

fn strings<'v>(list: &'v Value, field: &str) -> Vec<&'v str> {
    list.as_array()
        .expect("as the schema has it")
        .iter()
        .map(|one| one[field].as_str().expect("as the schema has it"))
        .collect()
}

#[test]
fn info_says_what_cluster_it_is() {
    for major in MAJORS {
        let info = Fixture::new(major).json(&["info"]);
        assert_eq!(info["cluster"]["major"], major);
        assert_eq!(info["cluster"]["is_consistent"], true);
        assert_eq!(info["cluster"]["block_bytes"], 8192);
        assert_eq!(info["cluster"]["chunk_bytes"], 1996);
        assert_eq!(info["prepared"][0]["name"], "waits");
        assert_eq!(info["prepared"][0]["database"], "postgres");
        let database = &info["databases"][0];
        assert_eq!(database["name"], "postgres");
        let most = &database["most_toasted"][0];
        assert_eq!((&most["schema"], &most["name"]), (&"public".into(), &"notes".into()));
    }
}

#[test]
fn values_are_those_that_were_inserted() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let document = fixture.json(&["values", "notes"]);
        let values = document["values"].as_array().unwrap();
        // 36 rows, each with `outside`, of which four have `both`.
        let outside: Vec<_> = values.iter().filter(|one| one["column"] == "outside").collect();
        let both: Vec<_> = values.iter().filter(|one| one["column"] == "both").collect();
        assert_eq!((outside.len(), both.len()), (36, 4), "{document:#}");
        assert_eq!(values.len(), 40);
        for one in &outside {
            assert_eq!(one["method"], Value::Null);
            assert_eq!(one["raw_bytes"], one["stored_bytes"]);
        }
        for one in &both {
            assert_eq!(one["method"], "pglz");
        }
        let ids: BTreeSet<_> = values.iter().map(|one| one["value_id"].as_u64()).collect();
        assert_eq!(ids.len(), 40, "each value has its own id");
        assert_eq!(document["summary"]["problem_count"], 0);

        let inline = fixture.json(&["values", "notes", "--inline"]);
        assert_eq!(inline["values"].as_array().unwrap().len(), 36 * 3 + 4);
        let dead = fixture.json(&["values", "notes", "--dead"]);
        assert!(dead["values"].as_array().unwrap().iter().any(|one| one["is_dead"] == true));
    }
}

#[test]
fn a_value_is_had_whole_by_bytes_and_by_characters() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        for id in [7, 8, 33] {
            let tid = tid_of(&fixture, id);
            let row = format!("row {id}");
            for (column, count) in
                [("plain", 1), ("packed", 500), ("outside", 600), ("both", 60_000)]
            {
                let expected =
                    if column == "both" && id % 8 != 0 { String::new() } else { row.repeat(count) };
                let get = |more: &[&str]| {
                    let arguments = [&["get", "notes", &tid, column], more].concat();
                    fixture.run_in(&arguments).code(0).bytes
                };
                assert_eq!(get(&[]), expected.as_bytes(), "{id} {column}");
                let end = expected.len().min(1996);
                let start = end.saturating_sub(3);
                let slice = &expected[start..expected.len().min(start + 7)];
                assert_eq!(get(&["--slice", &format!("{start}:7")]), slice.as_bytes());
                assert_eq!(get(&["--chars", &format!("{}:7", start + 1)]), slice.as_bytes());
                if !expected.is_empty() {
                    let line = format!("{expected}\n");
                    assert_eq!(get(&["--format", "text"]), line.as_bytes());
                    assert_eq!(get(&["--format", "escape"]), line.as_bytes());
                    let hex: String = expected.bytes().map(|byte| format!("{byte:02x}")).collect();
                    assert_eq!(get(&["--format", "hex"]), format!("\\x{hex}\n").as_bytes());
                }
                let json = fixture.json(&["get", "notes", &tid, column, "--format", "text"]);
                if expected.is_empty() {
                    assert_eq!(json["content"], Value::Null);
                } else {
                    assert_eq!(json["content"], expected);
                }
            }
        }
    }
}

#[test]
fn tables_count_what_lives_and_what_is_dead() {
    for major in MAJORS {
        let document = Fixture::new(major).json(&["tables", "notes", "waiting", "away"]);
        let tables = document["tables"].as_array().unwrap();
        let (notes, waiting, away) = (&tables[0], &tables[1], &tables[2]);
        assert_eq!(notes["heap"]["live_tuples"], 36);
        assert!(notes["heap"]["dead_tuples"].as_u64() >= Some(9), "undone and deleted: {notes:#}");
        assert!(notes["toast"]["bytes"].as_u64() > Some(0));
        // Three rows, and one that a prepared transaction may yet insert; one of the three it may delete.
        assert_eq!(waiting["heap"]["live_tuples"], 4);
        assert_eq!(away["heap"]["live_tuples"], 50);
        for table in tables {
            let of = |field: &str| table["heap"][field].as_u64().unwrap();
            assert!(of("live_bytes") + of("dead_bytes") + of("free_bytes") < of("bytes"));
            let parts = ["index_bytes", "toast_index_bytes", "other_bytes"];
            let parts: u64 = parts.iter().map(|part| table[part].as_u64().unwrap()).sum();
            let toast = table["toast"]["bytes"].as_u64().unwrap_or(0);
            assert_eq!(table["total_bytes"].as_u64(), Some(of("bytes") + toast + parts));
        }
    }
}

#[test]
fn columns_have_their_values_in_the_forms_that_they_were_given() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let report = fixture.json(&["columns", "notes"]);
        assert_eq!(report["rows"], 36);
        let column = |name: &str| {
            let columns = report["columns"].as_array().unwrap();
            columns.iter().find(|one| one["name"] == name).unwrap().clone()
        };
        assert_eq!(column("id")["forms"]["fixed"], 36);
        assert_eq!(column("plain")["forms"]["short"], 36);
        assert_eq!(column("packed")["forms"]["compressed_pglz"], 36);
        assert_eq!(column("outside")["forms"]["out_of_line"], 36);
        let both = column("both");
        assert_eq!((&both["forms"]["out_of_line_pglz"], &both["nulls"]), (&4.into(), &32.into()));
        // 'row 8' to 'row 32', 60 000 times.
        assert_eq!(both["raw"]["total"], 60_000 * (5 + 3 * 6));
        assert_eq!(both["raw"]["most"], 360_000);
        // 'row N' 600 times takes two chunks.
        assert_eq!(column("outside")["chunks"]["most"], 2);
        assert_eq!(report["toast"]["orphan_values"], 0);
        assert_eq!(report["toast"]["values"], 40);
        assert_eq!(report["toast"]["passes"], 1);

        let grown = fixture.json(&["columns", "grown"]);
        let names: Vec<_> = strings(&grown["columns"], "name");
        assert_eq!(names, ["id", "number", "word", "nothing"], "without the dropped one");
        assert_eq!(grown["columns"][2]["missing"], 20);
    }
}

#[test]
fn the_free_space_map_is_compared_with_the_blocks() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        // Vacuumed and never changed since, so its map is right.
        let away = fixture.json(&["fsm", "check", "away", "--all"]);
        let blocks = away["blocks"].as_array().unwrap();
        assert!(blocks.len() > 1 && away["summary"]["equal"] == blocks.len(), "{away:#}");
        assert!(blocks.iter().all(|one| one["recorded_bytes"] == one["actual_bytes"]));
        assert!(blocks[0]["actual_bytes"].as_u64() > Some(3000), "half of it is left free");
        assert_eq!(fixture.json(&["fsm", "check", "away"])["blocks"], Value::Array(vec![]));
        let rebuild = fixture.json(&["fsm", "rebuild", "away", "--dry-run"]);
        assert_eq!(rebuild["summary"]["rebuild"]["changed_pages"], 0, "{rebuild:#}");

        // What the map of a block says is in its leaf; here block 0 is said to have nothing.
        let map = fixture.file("away", false);
        let map = map.with_file_name(format!("{}_fsm", map.file_name().unwrap().display()));
        fixture.change(&map, |bytes| bytes[2 * 8192 + 28 + 4095] = 0);
        let changed = fixture.json(&["fsm", "check", "away"]);
        assert_eq!(changed["summary"]["too_low"], 1);
        assert_eq!(changed["blocks"][0]["block"], 0);
        let rebuild = fixture.json(&["fsm", "rebuild", "away", "--dry-run"]);
        assert_eq!(rebuild["summary"]["rebuild"]["changed_pages"], 1);
    }
}

#[test]
fn a_map_has_a_cell_for_each_block_as_long_as_there_are_few() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let map = fixture.json(&["map", "notes"]);
        let toast = &map["toast"];
        let cells = toast["cells"].as_array().unwrap();
        assert_eq!(toast["blocks"], cells.len());
        assert_eq!(toast["blocks_per_cell"], 1);
        let tables = fixture.json(&["tables", "notes"]);
        for part in ["heap", "toast"] {
            for field in ["live_bytes", "dead_bytes"] {
                let cells = map[part]["cells"].as_array().unwrap();
                let sum: u64 = cells.iter().map(|cell| cell[field].as_u64().unwrap()).sum();
                assert_eq!(Some(sum), tables["tables"][0][part][field].as_u64(), "{part} {field}");
            }
        }
        let few = fixture.json(&["map", "notes", "--cells", "3"]);
        assert!(few["toast"]["cells"].as_array().unwrap().len() <= 3);
        assert_eq!(few["toast"]["chunk_runs"], toast["chunk_runs"]);

        let svg = fixture.run_in(&["map", "notes", "--svg"]).code(0);
        assert!(svg.text().starts_with("<svg") && svg.text().ends_with("</svg>\n"));
        let groups = svg.text().matches("<g>").count();
        assert_eq!(groups, map["heap"]["cells"].as_array().unwrap().len() + cells.len());
        let text = fixture.run_in(&["map", "notes"]).code(0);
        assert!(text.text().contains("chunks in"), "{}", text.text());

        let path = fixture.file("away", false);
        fixture.change(&path, |bytes| bytes[..8192].fill(0xee));
        let broken = fixture.run_in(&["map", "away", "--json"]).code(3).json();
        assert_eq!(broken["heap"]["cells"][0]["broken_blocks"], 1);
    }
}

#[test]
fn values_that_no_row_leads_to_are_orphans_of_their_columns() {
    let fixture = Fixture::new(15);
    // The row with id 4, which nothing has touched since, loses its line pointer.
    let path = fixture.file("notes", false);
    fixture.change(&path, |bytes| {
        bytes[24 + 3 * 4..24 + 4 * 4].fill(0);
        let first = pgtoast::base::BlockNumber::new(0);
        pgtoast::page::set_checksum(&mut bytes[..8192], pgtoast::base::BlockSize::KIB_8, first)
            .unwrap();
    });
    let report = fixture.json(&["columns", "notes"]);
    assert_eq!(report["rows"], 35);
    let toast = &report["toast"];
    assert_eq!(
        (&toast["orphan_values"], &toast["orphan_chunks"]),
        (&1.into(), &2.into()),
        "{toast:#}"
    );
    // 'row 4' 600 times.
    assert_eq!(toast["orphan_bytes"], 3000);
    let check = fixture.run_in(&["check", "notes", "--json"]).json();
    assert_eq!(check["coverage"]["findings"]["waste"], 1, "{check:#}");
}

#[test]
fn ids_are_counted_with_those_that_are_dead() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let document = fixture.json(&["ids", "notes", "waiting"]);
        let relations = document["relations"].as_array().unwrap();
        assert_eq!(relations.len(), 1, "waiting has no values");
        let notes = &relations[0];
        assert!(notes["values"].as_u64() > Some(40), "undone and deleted ones too: {notes:#}");
        assert!(notes["highest"].as_u64() < notes["counter"].as_u64());
        assert_eq!(notes["taken_run"], 0);
    }
}

#[test]
fn a_line_of_the_log_leads_to_its_row() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let all = fixture.json(&["values", "notes", "--column", "outside"]);
        let value = &all["values"][5];
        let toast = &all["summary"]["toast"]["name"];
        let line = format!(
            "ERROR:  missing chunk number 0 for toast value {} in {}",
            value["value_id"],
            toast.as_str().unwrap()
        );
        let found = fixture.json(&["values", "--log-line", &line]);
        assert_eq!(strings(&found["values"], "tid"), [value["tid"].as_str().unwrap()]);
        assert_eq!(found["summary"]["chunks"]["found"], value["chunks"]);
        assert_eq!(found["summary"]["chunks"]["missing"], Value::Array(vec![]));
        let id = value["value_id"].to_string();
        let by_id = fixture.json(&["values", toast.as_str().unwrap(), "--value-id", &id]);
        assert_eq!(by_id["values"], found["values"]);
        let nobody = fixture.json(&["values", "notes", "--value-id", "1"]);
        assert_eq!(nobody["values"], Value::Array(vec![]));
    }
}

/// An update that leaves a large column alone keeps its pointer, so that two row versions share the value; people
/// fear that it is written again.
#[test]
fn a_value_that_row_versions_share_is_told_of_each_and_counted_once() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let all = fixture.json(&["values", "notes", "--column", "outside", "--dead"]);
        let all = all["values"].as_array().unwrap();
        let shared = all.iter().find(|one| {
            let same = all.iter().filter(|other| other["value_id"] == one["value_id"]);
            one["is_dead"] == false && same.count() > 1
        });
        let id = shared.expect("row 2 was updated")["value_id"].to_string();
        let found = fixture.json(&["values", "notes", "--value-id", &id]);
        let versions = found["values"].as_array().unwrap();
        let living = versions.iter().filter(|one| one["is_dead"] == false).count();
        assert_eq!((versions.len(), living), (2, 1), "{found:#}");
        let columns = fixture.json(&["columns", "notes"]);
        let outside =
            columns["columns"].as_array().unwrap().iter().find(|one| one["name"] == "outside");
        assert_eq!(outside.unwrap()["forms"]["out_of_line"], 36);
        assert_eq!(columns["toast"]["values"], 40);
    }
}

#[test]
fn sound_tables_give_no_finding() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let tables = ["notes", "grown", "locked", "away", "fleeting", "waiting"];
        let arguments = [&["check", "--deep"][..], &tables].concat();
        let ran = fixture.run_in(&arguments).code(0);
        assert!(ran.text().contains("nothing found"), "{}", ran.text());
        let json = fixture.json(&arguments);
        assert_eq!(json["findings"], Value::Array(vec![]));
        assert!(json["coverage"]["decompressed"].as_u64() > Some(30), "{json:#}");
        assert!(!json["coverage"]["not_checked"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_lost_chunk_is_told_of_its_row_and_nothing_is_printed_of_the_value() {
    let fixture = Fixture::new(15);
    let all = fixture.json(&["values", "notes", "--column", "outside"]);
    let value = all["values"][3].clone();
    let id = value["value_id"].to_string();
    let runs = fixture.json(&["values", "notes", "--value-id", &id]);
    let first = runs["summary"]["chunks"]["runs"][0]["tid"].as_str().unwrap().to_owned();
    let (block, item) = first.trim_matches(['(', ')']).split_once(',').unwrap();
    let (block, item): (usize, usize) = (block.parse().unwrap(), item.parse().unwrap());
    // The line pointer of the value's first chunk becomes unused, and the checksum is made right again.
    let toast = fixture.file("notes", true);
    fixture.change(&toast, |bytes| {
        let page = &mut bytes[block * 8192..][..8192];
        page[24 + (item - 1) * 4..][..4].fill(0);
        let number = pgtoast::base::BlockNumber::new(u32::try_from(block).unwrap());
        pgtoast::page::set_checksum(page, pgtoast::base::BlockSize::KIB_8, number).unwrap();
    });
    let tid = value["tid"].as_str().unwrap();
    let ran = fixture.run_in(&["check", "notes", "--json"]).code(4);
    let lost: Vec<Value> = ran.json()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["severity"] == "lost")
        .cloned()
        .collect();
    assert_eq!(lost.len(), 1, "{lost:#?}");
    assert_eq!(lost[0]["tid"], value["tid"]);
    assert_eq!(lost[0]["column"], "outside");
    assert_eq!(lost[0]["value_id"], value["value_id"]);
    assert!(lost[0]["cure"]["sql"].as_str().unwrap().starts_with("UPDATE"));
    assert_eq!(lost[0]["cure"]["gives_up_data"], true);

    let text = fixture.run_in(&["check", "notes"]).code(4);
    let place = format!("public.notes {tid} column outside value {id}");
    assert!(text.text().contains(&place), "{}", text.text());
    assert!(text.text().contains("found: 1 lost"), "{}", text.text());

    let get = fixture.run_in(&["get", "notes", tid, "outside"]).code(4);
    assert!(get.bytes.is_empty(), "not a byte of a value that is not whole");
    assert!(get.errors.contains("chunk 0 of 2 is missing"), "{}", get.errors);
    let get = fixture.run_in(&["get", "notes", tid, "outside", "--json"]).code(4);
    assert!(get.bytes.is_empty(), "nor half a document");
    let rest = fixture.run_in(&["get", "notes", tid, "outside", "--slice", "1996:100"]).code(0);
    assert_eq!(rest.bytes.len(), 100, "what is there can be had");
    let json = fixture.json(&["values", "notes", "--value-id", &id]);
    assert_eq!(json["summary"]["chunks"]["missing"][0]["first"], 0);

    let little = ["check", "notes", "--json", "--limit-memory", "1kB", "--threads", "1"];
    let little = fixture.run_in(&little).code(4).json();
    assert_eq!(little["coverage"]["findings"]["lost"], 1, "{little:#}");

    let limited = fixture.run_in(&["check", "notes", "--json", "--limit", "0"]).code(4).json();
    assert_eq!(limited["findings"], Value::Array(vec![]));
    assert_eq!(limited["coverage"]["findings"]["lost"], 1);
}

#[test]
fn a_missing_file_is_a_finding_of_the_check() {
    let fixture = Fixture::new(18);
    fs::remove_file(fixture.file("locked", false)).unwrap();
    let found = fixture.run_in(&["check", "locked", "notes", "--json"]).code(4).json();
    let missing: Vec<_> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["kind"] == "file-missing")
        .collect();
    assert_eq!(missing.len(), 1, "{found:#}");
    assert_eq!(missing[0]["relation"], "locked");
    for arguments in [&["values", "locked", "--json"][..], &["fsm", "check", "locked", "--json"]] {
        assert!(fixture.run_in(arguments).code(1).bytes.is_empty(), "no half document");
    }
    fixture.run_in(&["values", "notes"]).code(0);
}

#[test]
fn a_broken_page_is_a_problem_of_its_own_rows_only() {
    let fixture = Fixture::new(15);
    let all = fixture.json(&["values", "away", "--inline"]);
    fixture.change(&fixture.file("away", false), |bytes| bytes[8192 + 100] ^= 1);
    let ran = fixture.run_in(&["values", "away", "--inline", "--json"]).code(3);
    let rest = ran.json();
    let (before, after) = (all["values"].as_array().unwrap(), rest["values"].as_array().unwrap());
    assert!(!after.is_empty() && after.len() < before.len());
    assert!(after.iter().all(|one| before.contains(one)));
    assert!(ran.errors.contains("block 1"), "{}", ran.errors);
}

#[test]
fn names_are_taken_as_people_write_them() {
    let fixture = Fixture::new(15);
    let plain = fixture.json(&["values", "notes"]);
    let oid = plain["summary"]["table"]["oid"].to_string();
    for name in ["public.notes", "postgres.public.notes", &oid] {
        assert_eq!(fixture.json(&["values", name]), plain, "{name}");
    }
    let without_database = fixture.run(&["values", "notes", "--json"]).code(0);
    assert_eq!(without_database.json(), plain);
}

#[test]
fn little_memory_changes_no_answer() {
    let fixture = Fixture::new(18);
    let tid = tid_of(&fixture, 8);
    for arguments in [&["get", "notes", &tid, "both", "--json"][..], &["values", "notes", "--json"]]
    {
        let plenty = fixture.run_in(arguments).code(0);
        let little = [arguments, &["--limit-memory", "1kB", "--threads", "1"]].concat();
        assert_eq!(fixture.run_in(&little).code(0).bytes, plenty.bytes);
    }
}
