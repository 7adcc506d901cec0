//! How old is a transaction id, seen from another? `cargo run --example xid_age -- 4294967000 100`
use std::process::ExitCode;

use pgtoast_base::Xid;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line example")]
fn main() -> ExitCode {
    let xids: Vec<Xid> =
        std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).map(Xid::new).collect();
    let &[xid, next] = xids.as_slice() else {
        eprintln!("usage: xid_age XID NEXT_XID");
        return ExitCode::FAILURE;
    };
    if !xid.is_normal() {
        println!("{xid} is permanent: older than every normal transaction");
    } else if xid.precedes(next) {
        println!("{xid} is {} transactions old", next.get().wrapping_sub(xid.get()));
    } else {
        println!("{xid} is not older than {next}");
    }
    ExitCode::SUCCESS
}
