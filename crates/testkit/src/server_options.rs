//! How a server is set up before its first start.
use std::fmt::Write as _;

/// How a server is set up: data page checksums, and lines for `postgresql.conf`.
///
/// Without any: checksums are on, and autovacuum and durability are off, because a test wants
/// nothing to happen that it did not ask for and throws the cluster away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    data_checksums: bool,
    config: String,
}

impl ServerOptions {
    /// The options described on the type.
    #[must_use]
    pub fn new() -> Self {
        let config = "\
            autovacuum = off\n\
            bgwriter_lru_maxpages = 0\n\
            fsync = off\n\
            full_page_writes = off\n\
            listen_addresses = ''\n\
            logging_collector = off\n\
            max_connections = 20\n\
            max_wal_senders = 0\n\
            max_wal_size = '2GB'\n\
            shared_buffers = '128MB'\n\
            wal_level = minimal\n"
            .to_owned();
        Self { data_checksums: true, config }
    }

    /// Whether pages carry checksums.
    #[must_use]
    pub fn data_checksums(mut self, on: bool) -> Self {
        self.data_checksums = on;
        self
    }

    /// Sets one parameter; a later setting of the same name wins. `value` is put between quotes.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        let value = value.replace('\'', "''");
        writeln!(self.config, "{name} = '{value}'").expect("a string takes any line");
        self
    }

    /// Adds a block of `postgresql.conf` lines as it is.
    #[must_use]
    pub fn config(mut self, lines: &str) -> Self {
        self.config.push_str(lines);
        self.config.push('\n');
        self
    }

    pub(crate) fn wants_data_checksums(&self) -> bool {
        self.data_checksums
    }

    pub(crate) fn config_lines(&self) -> &str {
        &self.config
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_in_a_value_is_doubled() {
        let options = ServerOptions::new().set("cluster_name", "it's");
        assert!(options.config_lines().ends_with("cluster_name = 'it''s'\n"));
    }
}
