#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use pgtoast_base as base;
pub use pgtoast_codec as codec;
pub use pgtoast_datadir as datadir;
pub use pgtoast_direct as direct;
pub use pgtoast_fsm as fsm;
pub use pgtoast_memctx as memctx;
pub use pgtoast_nbtree as nbtree;
pub use pgtoast_page as page;
pub use pgtoast_pglz as pglz;
pub use pgtoast_reorder as reorder;
pub use pgtoast_toast as toast;
pub use pgtoast_varlena as varlena;

#[cfg(feature = "command")]
pub mod command;
#[cfg(feature = "command")]
pub mod report;
