//! Prints a block of a relation's file: header, line pointers, tuple headers, and everything that is
//! wrong with them. Broken pages are printed too.
//!
//! `cargo run -p pgtoast-page --example dump_page -- FILE [BLOCK-IN-FILE [BLOCK-SIZE]]`
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use pgtoast_base::{BlockNumber, BlockSize};
use pgtoast_page::{HeapTuple, Item, Page};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let Some(file) = args.next() else {
        return Err("usage: dump_page FILE [BLOCK-IN-FILE [BLOCK-SIZE]]".into());
    };
    let block: u32 = args.next().map_or(Ok(0), |block| block.parse())?;
    let size = args.next().map_or(Ok(BlockSize::default().bytes()), |size| size.parse())?;
    let size = BlockSize::new(size)?;

    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(u64::from(block) * size.bytes() as u64))?;
    let mut bytes = vec![0; size.bytes()];
    file.read_exact(&mut bytes)?;
    let page = Page::new(&bytes, size)?;

    if page.is_new() {
        println!("new page{}", if page.is_zero() { "" } else { ", but not all zeros" });
    } else {
        print_header(&page, BlockNumber::new(block));
        if page.special_space().is_empty() {
            print_items(&page);
        } else {
            println!("special space of {} bytes: not a heap page", page.special_space().len());
        }
    }
    page.check_each(|finding| println!("finding: {finding}"));
    Ok(())
}

fn print_header(page: &Page<'_>, block: BlockNumber) {
    let header = page.header();
    let (lsn, flags, prune_xid) = (header.lsn(), header.flags(), header.prune_xid());
    println!("lsn {lsn}, flags {flags:?}, prune xid {prune_xid}");
    let (lower, upper, special) = (header.lower(), header.upper(), header.special());
    println!("lower {lower}, upper {upper}, special {special}, {} items", page.item_count());
    match page.verify_checksum(block) {
        Ok(()) => println!("checksum {:#06x}, right for block {block}", header.checksum()),
        Err(error) => println!("{error} for block {block}, unless checksums are off"),
    }
}

fn print_items(page: &Page<'_>) {
    for (number, pointer) in page.items() {
        print!("{number:>5} {:>5} {:>5} ", pointer.offset(), pointer.len());
        match page.item(number) {
            Err(error) => println!("{error}"),
            Ok(Item::Unused) => println!("unused"),
            Ok(Item::Dead(_)) => println!("dead"),
            Ok(Item::Redirect(target)) => println!("redirect to {target}"),
            Ok(Item::Normal(bytes)) => match HeapTuple::parse(bytes) {
                Err(error) => println!("{error}"),
                Ok(tuple) => {
                    let header = tuple.header();
                    print!("xmin {} xmax {} ctid {} ", header.xmin(), header.xmax(), header.ctid());
                    print!("natts {} hoff {} ", header.natts(), header.hoff());
                    println!("{:?} {:?}", header.infomask(), header.infomask2());
                }
            },
        }
    }
}
