#!/bin/sh
# usage: make.sh PSQL-OPTIONS…    Remakes the pages beside this script, from make.sql.
# The server's data directory must be readable from here. See README.md.
set -eu
here=$(dirname "$0")
sql() { psql -X -q -v ON_ERROR_STOP=1 -At "$@"; }
sql "$@" -f "$here/make.sql" >/dev/null
data=$(sql "$@" -c 'SHOW data_directory')
take() { # FILE RELATION-FORK-PATH BLOCK
    dd if="$data/$2" of="$here/$1" bs=8192 skip="$3" count=1 status=none
}
take forms.page "$(sql "$@" -c "SELECT pg_relation_filepath('forms')")" 0
take chain.page "$(sql "$@" -c "SELECT pg_relation_filepath('chain')")" 0
take states.page "$(sql "$@" -c "SELECT pg_relation_filepath('states')")" 0
take toast.page "$(sql "$@" -c "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE relname = 'outside'")" 1
take init.page "$(sql "$@" -c "SELECT pg_relation_filepath('unlogged_pkey')")_init" 0
take vm.page "$(sql "$@" -c "SELECT pg_relation_filepath('mapped')")_vm" 0

# What pageinspect and pg_visibility say of the same pages.
for table in forms chain states; do
    sql "$@" -F ' ' -c "SELECT lp, lp_off, lp_flags, lp_len, coalesce(t_xmin::text, '-'), coalesce(t_xmax::text, '-'),
        coalesce(t_field3::text, '-'), coalesce(t_ctid::text, '-'), coalesce(t_infomask2::text, '-'),
        coalesce(t_infomask::text, '-'), coalesce(t_hoff::text, '-')
        FROM heap_page_items(get_raw_page('$table', 0)) ORDER BY lp" >"$here/$table.items"
done
for table in forms; do
    sql "$@" -F ' ' -c "SELECT lp, n, coalesce(encode(value, 'hex'), 'NULL')
        FROM heap_page_items(get_raw_page('$table', 0)),
        unnest(tuple_data_split('$table'::regclass, t_data, t_infomask, t_infomask2, t_bits)) WITH ORDINALITY u(value, n)
        WHERE t_data IS NOT NULL ORDER BY lp, n" >"$here/$table.attributes"
done
sql "$@" -F ' ' -c "SELECT attnum, attlen, attbyval, attalign, attstorage, attisdropped, coalesce(attmissingval::text, '-')
    FROM pg_attribute WHERE attrelid = 'forms'::regclass AND attnum > 0 ORDER BY attnum" >"$here/forms.columns"
# The outcome of each transaction, the members of each multixact, and the rows a new snapshot sees.
sql "$@" -F ' ' -c "SELECT DISTINCT x::text::int, CASE WHEN x::text::int < 3 THEN 'permanent' ELSE pg_xact_status(x::text::xid8) END
    FROM heap_page_items(get_raw_page('states', 0)), unnest(ARRAY[t_xmin, t_xmax]) WITH ORDINALITY u(x, n)
    WHERE n = 1 OR t_infomask & 4096 = 0 ORDER BY 2, 1" >"$here/states.xids"
sql "$@" -F ' ' -c "SELECT DISTINCT t_xmax::text::int, m.xid::text::int, m.mode FROM heap_page_items(get_raw_page('states', 0)),
    pg_get_multixact_members(t_xmax) m WHERE t_infomask & 4096 <> 0 ORDER BY 1, 2" >"$here/states.multis"
sql "$@" -F ' ' -c "SELECT ctid FROM states ORDER BY ctid" >"$here/states.visible"
sql "$@" -c "ROLLBACK PREPARED 'page fixtures'"
sql "$@" -F ' ' -c "SELECT blkno, all_visible, all_frozen FROM pg_visibility_map('mapped') ORDER BY blkno" >"$here/vm.bits"
