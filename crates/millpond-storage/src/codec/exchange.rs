//! The byte forms of exchanges and bindings.

use bytes::Bytes;
use millpond_types::{Binding, Condition, ExchangeKind, RoutingKey, Unroutable};

use super::{BadRecord, Sink, Source};

impl Sink<'_> {
    pub(super) fn exchange_kind(&mut self, kind: ExchangeKind) {
        self.byte(match kind {
            ExchangeKind::Direct => 0,
            ExchangeKind::Topic => 1,
            ExchangeKind::Fanout => 2,
            ExchangeKind::Headers => 3,
        });
    }

    pub(super) fn unroutable(&mut self, unroutable: Unroutable) {
        self.flag(unroutable == Unroutable::Drop);
    }

    pub(super) fn binding(&mut self, binding: &Binding) {
        let Binding { condition, target } = binding;
        match condition {
            Condition::Always => self.byte(0),
            Condition::Key(key) => {
                self.byte(1);
                self.string(key.as_bytes());
            }
            Condition::Headers { all, headers } => {
                self.byte(2);
                self.flag(*all);
                self.list(headers, |sink, (key, value)| {
                    sink.string(key);
                    sink.string(value);
                });
            }
        }
        self.string(target.as_bytes());
    }
}

impl Source<'_> {
    pub(super) fn exchange_kind(&mut self) -> Result<ExchangeKind, BadRecord> {
        Ok(match self.byte()? {
            0 => ExchangeKind::Direct,
            1 => ExchangeKind::Topic,
            2 => ExchangeKind::Fanout,
            3 => ExchangeKind::Headers,
            _ => return Err(self.bad("has an unknown kind of exchange")),
        })
    }

    pub(super) fn unroutable(&mut self) -> Result<Unroutable, BadRecord> {
        Ok(if self.flag()? { Unroutable::Drop } else { Unroutable::Refuse })
    }

    pub(super) fn binding(&mut self) -> Result<Binding, BadRecord> {
        let condition = match self.byte()? {
            0 => Condition::Always,
            1 => Condition::Key(self.routing_key()?),
            2 => {
                let all = self.flag()?;
                let header = |source: &mut Self| -> Result<(Bytes, Bytes), BadRecord> {
                    Ok((source.copied()?, source.copied()?))
                };
                Condition::Headers { all, headers: self.list(header)? }
            }
            _ => return Err(self.bad("has a binding of an unknown kind")),
        };
        Ok(Binding { condition, target: self.topic_name()? })
    }

    fn routing_key(&mut self) -> Result<RoutingKey, BadRecord> {
        let bad = self.bad("has a routing key that breaks the rules for keys");
        RoutingKey::new(self.copied()?).map_err(|_| bad)
    }
}
