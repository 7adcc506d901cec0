//! The JSON schema is made of the types that are printed, so the two cannot part. After a change of a type,
//! `PGTOAST_WRITE_SCHEMA=1 cargo test -p pgtoast schema` writes the file anew; look at what became of it, and
//! raise `SCHEMA_VERSION` if a field has gone or means something else.
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    SCHEMA, SCHEMA_VERSION, check, columns, free_space, get, ids, info, map, page, tables, values,
};

/// Makes the schema of each command's document.
struct Schemas {
    generator: SchemaGenerator,
    documents: Vec<Value>,
}

impl Schemas {
    fn reference<T: JsonSchema>(&mut self) -> Value {
        serde_json::to_value(self.generator.subschema_for::<T>()).unwrap()
    }

    /// A report's fields, beside those that every document has, and `more`.
    fn report<T: JsonSchema>(&mut self, command: &str, more: Value) {
        let reference = self.reference::<T>();
        let mut document = document(command, more);
        document["allOf"] = json!([reference]);
        document["unevaluatedProperties"] = json!(false);
        self.documents.push(document);
    }

    /// A list that comes element by element, and one field behind it.
    fn list<E: JsonSchema, L: JsonSchema>(&mut self, command: &str, list: &str, last: &str) {
        let (element, behind) = (self.reference::<E>(), self.reference::<L>());
        let more = json!({ list: { "type": "array", "items": element }, last: behind });
        let mut document = document(command, more);
        document["additionalProperties"] = json!(false);
        self.documents.push(document);
    }
}

fn document(command: &str, more: Value) -> Value {
    let mut properties = Map::new();
    properties.insert("schema".to_owned(), json!({ "const": SCHEMA_VERSION }));
    properties.insert("command".to_owned(), json!({ "const": command }));
    properties.extend(more.as_object().cloned().unwrap());
    let required: Vec<_> = properties.keys().cloned().collect();
    json!({ "title": command, "type": "object", "properties": properties, "required": required })
}

fn generate() -> String {
    let mut schemas = Schemas { generator: SchemaGenerator::default(), documents: Vec::new() };
    schemas.report::<info::Info>("info", json!({}));
    schemas.list::<check::FindingReport, check::CoverageReport>("check", "findings", "coverage");
    schemas.list::<tables::TableReport, u64>("tables", "tables", "problem_count");
    schemas.report::<columns::ColumnsReport>("columns", json!({}));
    schemas.list::<values::ValueRow, values::ValuesSummary>("values", "values", "summary");
    let content = json!({
        "encoding": { "enum": ["hex", "escape", "text"], "description": "What `content` is." },
        "content": { "type": ["string", "null"], "description": "The value; null for null." },
    });
    schemas.report::<get::ValueReport>("get", content);
    for command in ["fsm check", "fsm rebuild"] {
        schemas.list::<free_space::BlockSpace, free_space::FreeSpaceReport>(
            command, "blocks", "summary",
        );
    }
    schemas.report::<map::MapReport>("map", json!({}));
    schemas.report::<page::PageReport>("page", json!({}));
    schemas.list::<ids::IdsReport, u64>("ids", "relations", "problem_count");
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What pgtoast prints with --json",
        "oneOf": schemas.documents,
        "$defs": schemas.generator.take_definitions(true),
    });
    serde_json::to_string_pretty(&schema).unwrap() + "\n"
}

#[test]
fn the_schema_file_is_that_of_the_types() {
    let generated = generate();
    if std::env::var_os("PGTOAST_WRITE_SCHEMA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/pgtoast-1.json");
        std::fs::write(path, &generated).unwrap();
        return;
    }
    assert_eq!(SCHEMA, generated, "the file is old: see this module's first lines");
}
