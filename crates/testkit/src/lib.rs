#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod report;

#[cfg(feature = "server")]
mod installation;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod server_options;
#[cfg(feature = "server")]
mod server_user;

#[cfg(feature = "server")]
pub use installation::{Installation, Survey, WANTED_MAJORS};
#[cfg(feature = "server")]
pub use postgres;
#[cfg(feature = "server")]
pub use server::Server;
#[cfg(feature = "server")]
pub use server_options::ServerOptions;
