#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod archive;
pub mod facts;
pub mod fixtures;
#[cfg(feature = "server")]
pub mod fsm_fork;
pub mod hex;
#[cfg(feature = "server")]
pub mod inspect;
#[cfg(pgtoast_loom)]
pub mod models;
pub mod naive;
pub mod report;

mod column_type;
mod corpus;
mod rng;
mod table;

#[cfg(feature = "server")]
mod installation;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod server_options;
#[cfg(feature = "server")]
mod server_user;

pub use corpus::Corpus;
pub use rng::Rng;
pub use table::{GeneratedTable, TableGenerator, TableOptions};

#[cfg(feature = "server")]
pub use installation::{Installation, Survey, WANTED_MAJORS};
#[cfg(feature = "server")]
pub use postgres;
#[cfg(feature = "server")]
pub use server::Server;
#[cfg(feature = "server")]
pub use server_options::ServerOptions;
