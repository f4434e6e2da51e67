//! What the programs of this crate share: their arguments and the stock clients as they make them.

pub mod args;
pub mod client;
