//! `page` on pages that servers wrote: by a table's name, by a file in its data directory, and by a file alone.
use std::fs;
use std::path::PathBuf;

mod common;

use common::{Fixture, MAJORS, Ran, pgtoast};
use pgtoast_testkit::fixtures;
use serde_json::Value;

/// A page of `testdata/`, which is a file with one block.
fn alone(major: u32, name: &str, more: &[&str]) -> Ran {
    let path = fixtures::directory().join(major.to_string()).join(format!("{name}.page"));
    Ran::of(pgtoast().args(["--json", "page"]).arg(path).arg("0").args(more))
}

#[test]
fn a_page_is_the_same_by_the_tables_name_and_by_its_file() {
    for major in MAJORS {
        let fixture = Fixture::new(major);
        let by_name = fixture.json(&["page", "notes", "0"]);
        let path = fixture.file("notes", false);
        let mut by_file =
            Ran::of(pgtoast().args(["--json", "page"]).arg(&path).arg("0")).code(0).json();
        by_file["file"] = by_name["file"].clone();
        assert_eq!(by_file, by_name);
        assert_eq!((&by_name["kind"], &by_name["faults"]), (&"heap".into(), &Value::Array(vec![])));
        assert_eq!(by_name["checksum"], by_name["computed_checksum"]);

        let tuple = &by_name["items"][3]["tuple"];
        assert_eq!(tuple["state"], "live");
        let forms: Vec<_> = tuple["attributes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["form"].as_str().unwrap())
            .collect();
        assert_eq!(forms, ["fixed", "short", "compressed", "out-of-line", "null"]);
        let values = fixture.json(&["values", "notes", "--column", "outside"]);
        let listed = values["values"].as_array().unwrap();
        let ids: Vec<_> = listed.iter().map(|one| &one["value_id"]).collect();
        assert!(ids.contains(&&tuple["attributes"][3]["value_id"]));
        let text = fixture.run_in(&["page", "notes", "0"]).code(0);
        assert!(text.text().contains("out-of-line at"), "{}", text.text());
    }
}

#[test]
fn a_copied_file_is_read_by_a_specification_of_its_columns() {
    for major in MAJORS {
        let columns = "id int4, first text external, second text";
        let page = alone(major, "heap_toasted", &["--columns", columns]).code(0).json();
        let item = &page["items"][3]["tuple"]["attributes"];
        assert_eq!(item[1]["raw_bytes"], 2500);
        assert_eq!(
            (&item[2]["raw_bytes"], &item[2]["stored_bytes"]),
            (&23892.into(), &16985.into())
        );
        assert_eq!(item[2]["method"], "pglz");
        assert_eq!(
            page["items"][3]["tuple"]["state"],
            Value::Null,
            "nobody knows the transactions"
        );
        let without = alone(major, "heap_toasted", &[]).code(0).json();
        assert_eq!(without["items"][3]["tuple"]["attributes"], Value::Array(vec![]));
        alone(major, "heap_toasted", &["--columns", "id nonsense"]).code(2);
    }
}

#[test]
fn pages_of_other_kinds_are_known_by_their_special_space_or_fork() {
    for major in MAJORS {
        for (name, more, kind) in [
            ("btree_meta", &[][..], "btree"),
            ("btree_root", &[], "btree"),
            ("btree_leaf_first", &[], "btree"),
            ("toast", &[], "heap"),
            ("fsm_root", &["--fork", "fsm"], "free-space-map"),
            ("visibility_map", &["--fork", "vm"], "visibility-map"),
        ] {
            // A fixture is any block of its file; only block 0 verifies as such.
            let page = alone(major, name, more).json();
            assert_eq!(page["kind"], kind, "{name}");
        }
        let leaf = alone(major, "btree_leaf_first", &[]).json();
        let flags = leaf["facts"].as_array().unwrap().iter().find(|fact| fact["name"] == "flags");
        assert!(flags.unwrap()["value"].as_str().unwrap().contains("LEAF"), "{leaf:#}");
        assert!(leaf["items"].as_array().unwrap().len() > 10);
        let meta = alone(major, "btree_meta", &[]).json();
        assert_eq!(meta["items"], Value::Array(vec![]), "a metapage has no line pointers");
    }
}

#[test]
fn what_is_wrong_with_a_page_is_said_and_the_rest_is_shown() {
    let fixture = Fixture::new(15);
    let path = fixture.file("notes", false);
    fixture.change(&path, |bytes| bytes[5000] ^= 0x40);
    let page = fixture.run_in(&["page", "notes", "0", "--json"]).code(3).json();
    let faults = page["faults"].as_array().unwrap();
    assert!(faults[0].as_str().unwrap().contains("checksum"), "{faults:?}");
    assert!(page["items"].as_array().unwrap().len() > 30);

    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("16400");
    for bytes in
        [vec![0xff; 8192], vec![0xa5; 8192], (0..8192_u32).map(|at| at.to_le_bytes()[0]).collect()]
    {
        fs::write(&file, bytes).unwrap();
        let ran = Ran::of(pgtoast().args(["page", "--columns", "a text"]).arg(&file).arg("0"));
        assert!(matches!(ran.code, 0 | 3), "{ran:?}");
    }
    fs::write(&file, vec![0; 8192]).unwrap();
    let new = Ran::of(pgtoast().arg("page").arg(&file).arg("0")).code(0);
    assert!(new.text().contains("block 0: new"), "{}", new.text());
    let short = Ran::of(pgtoast().arg("page").arg(&file).arg("1")).code(1);
    assert!(short.errors.contains("no block 1"), "{}", short.errors);
}
