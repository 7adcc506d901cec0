//! The check of data directories against real servers: nothing is found in what a server leaves, whatever
//! went on in it before, and of what is damaged on purpose exactly that is found.
mod churn;
mod clean;
mod damage;
mod large;
#[path = "../oracle_datadir/scenario.rs"]
mod scenario;
