//! What can be asked on the command line.
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::size::ByteCount;

const LONG_ABOUT: &str = "\
Sees and checks what is in the data directory of a PostgreSQL server, release 14 to 18.

It reads the files themselves: of a stopped server, of a copy, or of an unpacked base backup. No server has to \
run, and none of the same release has to be installed. It never writes to the directory.

Start with `pgtoast info`. When a server says `missing chunk number 0 for toast value 8675309 in \
pg_toast_2619`, `pgtoast check` finds the row that the value belongs to, and every other one that is broken, \
in one pass; `pgtoast get` reads a value whether its index is sound or not.";

const AFTER_HELP: &str = "\
Tables are named as `orders`, `sales.orders` or `shop.sales.orders`, the last one with its database, or by the \
number that SQL calls their id. A name alone is looked for in the schema public, then in pg_catalog and \
pg_toast, then anywhere, in every database or in that of --database.

Exit status:
  0  all is well
  1  the command could not do its work
  2  the command line makes no sense
  3  something was found, or could not be read
  4  data is lost: something stored cannot be read, or not be trusted

Environment:
  PGDATA    the data directory, unless --pgdata names one
  NO_COLOR  if set and not empty, no colours

Examples:
  pgtoast -D /var/lib/postgresql/15/main info
  pgtoast check --json > findings.json
  pgtoast check orders customers
  pgtoast values pg_toast_16402 --value-id 8675309
  pgtoast get orders '(0,13)' note > note.txt

Names and types of the fields that --json prints are in the JSON schema that `pgtoast schema` prints.";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "pgtoast",
    version,
    about = "Sees and checks what is in a PostgreSQL data directory",
    long_about = LONG_ABOUT,
    after_long_help = AFTER_HELP,
    after_help = "`pgtoast --help` says more, and so does `--help` after each command.",
    propagate_version = true,
    max_term_width = 100
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: GlobalArguments,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What holds for every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct GlobalArguments {
    /// The data directory
    ///
    /// Of a stopped server, a copy, or an unpacked base backup; it is the one with the file PG_VERSION in it.
    /// Tablespaces are found through their links in it, or through a backup's tablespace_map.
    #[arg(short = 'D', long, global = true, env = "PGDATA", value_name = "DIRECTORY")]
    pub(super) pgdata: Option<PathBuf>,

    /// The database to look into, instead of all of them
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(super) database: Option<String>,

    /// Prints JSON instead of text
    ///
    /// One document a run, whose field `schema` is its version. Lists that can be long come one element a
    /// line, as they are found.
    #[arg(long, global = true)]
    pub(super) json: bool,

    /// Reads although a server runs on the directory
    ///
    /// Without this, a directory with a running server is refused. With it, what is read may be half
    /// written or behind what the server knows: `check` reads a page again before it calls it broken, and what
    /// it still finds may be gone after the next checkpoint.
    #[arg(long, global = true)]
    pub(super) online: bool,

    /// Holds at most about so much in memory of what grows with a table
    ///
    /// A number of bytes, or with a unit as in 64MB or 1GB. What does not fit takes more passes over the files,
    /// or is listed among what was not checked. Catalogs come on top, and half a MiB for each thread.
    #[arg(long, global = true, value_name = "SIZE", default_value = "128MB")]
    pub(super) limit_memory: ByteCount,

    /// Works with so many threads, instead of one for each processor
    #[arg(long, global = true, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,

    /// Whether to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: When,

    /// Shows no progress, even on a terminal
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
}

/// When to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// What cluster it is, its databases, and what is toasted in them
    ///
    /// From the control file, the catalogs and the lengths of files; no table is read, so it answers at once.
    Info,
    Check(CheckArguments),
    Tables(TablesArguments),
    /// How the values of each column are stored: in which form, how large, in how many chunks and blocks
    ///
    /// Counts the rows that a new session would see. Percentiles are right to a part in 64. Blocks are those in which
    /// the chunks of a value really are. Orphans are values that no row version leads to: they take space until the
    /// table is rewritten.
    Columns(TableArgument),
    Values(ValuesArguments),
    Get(GetArguments),
    Map(MapArguments),
    Page(PageArguments),
    /// How full the space of value ids is, and how many taken ones are ahead of the counter
    ///
    /// New values take their ids from a counter of 32 bits that all databases share. Once it has gone round, a server
    /// tries one id after the other until one is free in the table's TOAST relation. A long run of taken ids ahead of the
    /// counter makes inserts slow.
    Ids(TablesArguments),
    Fsm(FsmArguments),
    /// Prints the JSON schema of what --json prints
    Schema,
    Completions(CompletionsArguments),
    Man(ManArguments),
}

/// Finds what is broken, and in which row
///
/// Checks pages and their checksums, tuples, every out-of-line value against its chunks in both directions, the
/// indexes of TOAST relations against the chunks, free space maps and visibility maps. Each file is read once.
///
/// Each finding says where it is, what it is, what can be read all the same, and what to do about it, where
/// something is known to help. SQL that gives up what cannot be read is marked as such: look at the row first,
/// and keep a copy of the directory. At the end stands what was not checked, and why.
///
/// The exit status is 3 if something was found and 4 if data is lost.
#[derive(Clone, Debug, Args)]
pub(super) struct CheckArguments {
    /// The tables to check, with their TOAST relations and indexes; all there are if none is named
    #[arg(value_name = "TABLE")]
    pub(super) tables: Vec<String>,

    /// Decompresses every compressed value, too
    #[arg(long)]
    pub(super) deep: bool,

    /// Whether to verify the checksums of pages
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) checksums: ChecksumsArgument,

    /// Tells of so many findings, and only counts the others
    #[arg(long, value_name = "COUNT")]
    pub(super) limit: Option<u64>,
}

/// Whether to verify the checksums of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ChecksumsArgument {
    /// If the control file says that pages have them
    Auto,
    /// Never
    Off,
    /// Whatever the control file says
    On,
}

/// How much space tables take, and what is in it: live rows, dead rows, and nothing
///
/// Reads every page of the tables and of their TOAST relations. Live are rows that are there for some session or will
/// be once their transaction commits; dead are those that vacuum removes. The numbers are those of the extension
/// pgstattuple.
#[derive(Clone, Debug, Args)]
pub(super) struct TablesArguments {
    /// The tables; all there are if none is named, but for the system's
    #[arg(value_name = "TABLE")]
    pub(super) tables: Vec<String>,

    /// The system's tables, too
    #[arg(long)]
    pub(super) system: bool,
}

/// One table.
#[derive(Clone, Debug, Args)]
pub(super) struct TableArgument {
    /// The table, or its TOAST relation
    #[arg(value_name = "TABLE")]
    pub(super) table: String,
}

/// The values of a table: how each is stored, how large it is, and which row it is of
///
/// Lists values that are stored out of line; with --inline all values of variable length. Sizes are those of
/// SQL's octet_length and pg_column_size.
///
/// With --value-id or --log-line it answers which row a value belongs to that a server's log complains of, and
/// where its chunks are.
#[derive(Clone, Debug, Args)]
pub(super) struct ValuesArguments {
    /// The table, or its TOAST relation
    #[arg(value_name = "TABLE", required_unless_present = "log_line")]
    pub(super) table: Option<String>,

    /// Only values of this column: a name or a number
    #[arg(long, value_name = "COLUMN")]
    pub(super) column: Option<String>,

    /// Only the value with this id, dead row versions included
    #[arg(long, value_name = "ID")]
    pub(super) value_id: Option<u64>,

    /// The value that a line of the server's log is about
    ///
    /// A line such as "missing chunk number 0 for toast value 8675309 in pg_toast_2619": it names both the table
    /// and the value.
    #[arg(long, value_name = "LINE", conflicts_with_all = ["table", "value_id"])]
    pub(super) log_line: Option<String>,

    /// Values inside rows, too
    #[arg(long)]
    pub(super) inline: bool,

    /// Values of dead row versions, too; their chunks may be gone, and nothing is wrong with that
    #[arg(long)]
    pub(super) dead: bool,
}

/// One value, whole or in part
///
/// Finds the value's chunks wherever they lie, without the index. Nothing is printed of a value of which a chunk
/// is missing; the exit status is then 4. Null prints nothing.
#[derive(Clone, Debug, Args)]
pub(super) struct GetArguments {
    /// The table
    #[arg(value_name = "TABLE")]
    pub(super) table: String,

    /// The row: block and item, as SQL's ctid has them, such as (0,13)
    #[arg(value_name = "TID")]
    pub(super) tid: String,

    /// The column: a name or a number
    #[arg(value_name = "COLUMN")]
    pub(super) column: String,

    /// Only some bytes: LEN of them from byte OFFSET on, which counts from 0
    #[arg(long, value_name = "OFFSET:LEN", conflicts_with = "chars")]
    pub(super) slice: Option<String>,

    /// Only some characters of a text in UTF-8: COUNT of them from START on, which counts from 1 as in SQL's
    /// substring
    #[arg(long, value_name = "START:COUNT")]
    pub(super) chars: Option<String>,

    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "raw")]
    pub(super) format: Format,
}

/// How to print a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Its bytes as they are, and no more
    Raw,
    /// Hexadecimal digits behind \x, as SQL prints bytea
    Hex,
    /// As SQL prints bytea with bytea_output set to escape
    Escape,
    /// As text, for text, numbers and some other types; bytea as with hex
    Text,
}

/// A table as a picture: how full its blocks are, where dead rows lie, how chunks follow one another
///
/// Cells stand for blocks side by side. In text the height of a cell is how full it is of live rows; --svg has live,
/// dead and free space in colours, and the numbers of each cell where the pointer rests.
#[derive(Clone, Debug, Args)]
pub(super) struct MapArguments {
    /// The table, or its TOAST relation
    #[arg(value_name = "TABLE")]
    pub(super) table: String,

    /// Prints a picture in SVG
    #[arg(long)]
    pub(super) svg: bool,

    /// So many cells at most
    #[arg(long, value_name = "COUNT", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) cells: u32,
}

/// One page: header, line pointers, tuples and their attributes; or what an index or a map keeps in it
///
/// Takes a table's name, or the path of a file. A file that lies in a data directory is described by its catalogs; one
/// that was copied out of it, by --columns. What kind of index a page is of shows in its special space.
///
/// The exit status is 3 if something is wrong with the page's structure or checksum.
#[derive(Clone, Debug, Args)]
pub(super) struct PageArguments {
    /// A file, or a table
    #[arg(value_name = "FILE")]
    pub(super) file: String,

    /// The block, from 0; of a file, counted from its start
    #[arg(value_name = "BLOCK")]
    pub(super) block: u32,

    /// The columns of the table, as in 'id int4, note text, scan bytea external'
    ///
    /// For each a name, a type and, if it is not the type's own, a storage; `dropped` as the last word of dropped ones.
    /// Types of one's own are given by their attlen and attalign in the catalog: 'point3d type(24,d)'.
    #[arg(long, value_name = "COLUMNS")]
    pub(super) columns: Option<String>,

    /// Which of the relation's files it is, or, of a table, which to take
    #[arg(long, value_name = "FORK")]
    pub(super) fork: Option<ForkArgument>,

    /// The size of blocks, where no control file says it
    #[arg(long, value_name = "SIZE")]
    pub(super) block_size: Option<ByteCount>,
}

/// Which of a relation's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ForkArgument {
    /// The relation itself
    Main,
    /// Its free space map
    Fsm,
    /// Its visibility map
    Vm,
    /// What a crash resets an unlogged relation to
    Init,
}

/// What the free space map says of a table's blocks, and what the blocks say
///
/// Free space that the map does not know of is not used by inserts; space that it promises in vain costs them a visit.
/// A map is a hint, so no difference is damage. Numbers of bytes are those of the extension pg_freespacemap.
#[derive(Clone, Debug, Args)]
pub(super) struct FsmArguments {
    #[command(subcommand)]
    pub(super) command: FsmCommand,
}

/// What to do with a free space map.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum FsmCommand {
    /// Lists the blocks of which the map is wrong
    Check {
        /// The table, or a TOAST relation
        #[arg(value_name = "TABLE")]
        table: String,

        /// Lists all blocks
        #[arg(long)]
        all: bool,
    },
    /// Says what a map made anew would change
    Rebuild {
        /// The table, or a TOAST relation
        #[arg(value_name = "TABLE")]
        table: String,

        /// Writes nothing, which is the only way there is
        #[arg(long)]
        dry_run: bool,
    },
}

/// Prints completions for a shell
#[derive(Clone, Debug, Args)]
pub(super) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(super) shell: clap_complete::Shell,
}

/// Prints the manual page, or writes one for each command into a directory
#[derive(Clone, Debug, Args)]
pub(super) struct ManArguments {
    /// Where to write pgtoast.1, pgtoast-check.1 and so on
    #[arg(value_name = "DIRECTORY")]
    pub(super) directory: Option<PathBuf>,
}
