//! `pgtoast-store` held against live servers, in both directions.
//!
//! - `exported`: tables that the store made, put under a stopped server, are its own when it starts again.
//! - `imported`: tables that the server made go into the store and out again, into files of a table of the
//!   same shape, which then has the same rows.
mod exported;
mod imported;
mod placed;
