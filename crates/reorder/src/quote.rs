//! Names as SQL would read them.
use alloc::string::String;

/// Appends a name, between quotes if it needs them.
///
/// Source: `ruleutils.c`, `quote_identifier` (REL_18).
pub(crate) fn append_identifier(name: &str, text: &mut String) {
    let plain = |at: usize, byte: u8| match byte {
        b'a'..=b'z' | b'_' => true,
        b'0'..=b'9' => at > 0,
        _ => false,
    };
    let is_plain = !name.is_empty()
        && name.bytes().enumerate().all(|(at, byte)| plain(at, byte))
        && KEYWORDS.binary_search(&name).is_err();
    if is_plain {
        text.push_str(name);
    } else {
        append_quoted(name, '"', text);
    }
}

/// Appends text between quotes; those in it are doubled.
pub(crate) fn append_quoted(inner: &str, quote: char, text: &mut String) {
    text.push(quote);
    for one in inner.chars() {
        if one == quote {
            text.push(quote);
        }
        text.push(one);
    }
    text.push(quote);
}

/// Words that cannot be names everywhere, as `pg_get_keywords()` of 18 has them. Some of those around JSON are
/// not among those of older releases, which print them without quotes.
const KEYWORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "json",
    "json_array",
    "json_arrayagg",
    "json_exists",
    "json_object",
    "json_objectagg",
    "json_query",
    "json_scalar",
    "json_serialize",
    "json_table",
    "json_value",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "merge_action",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_quotes_where_sql_needs_them() {
        assert!(KEYWORDS.is_sorted(), "they are searched by halving");
        for (name, expected) in [
            ("plain_1", "plain_1"),
            ("_x", "_x"),
            ("1x", "\"1x\""),
            ("Mixed", "\"Mixed\""),
            ("user", "\"user\""),
            ("name", "name"),
            ("it\"s", "\"it\"\"s\""),
            ("größe", "\"größe\""),
            ("", "\"\""),
        ] {
            let mut text = String::new();
            append_identifier(name, &mut text);
            assert_eq!(text, expected);
        }
    }
}
