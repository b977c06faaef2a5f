//! The byte forms of policies, and of the rules that say otherwise for some topics.

use millpond_types::{
    Coalesce, DedupWindow, Dispatch, Millis, OnExpiry, Overflow, Overrides, Pattern, Policy, Quotas, Rate, Retention,
    Retry, Rule, Rules,
};

use super::{BadRecord, Sink, Source};

/// The values of a policy in their order, each with its form. In a rule each of them is optional, but for those that are
/// of the namespace alone.
macro_rules! values {
    (by rule: { $($value:ident $form:ident,)* } alone: { $($alone:ident $its:ident,)* }) => {
        impl Sink<'_> {
            pub(super) fn policy(&mut self, policy: &Policy) {
                $(self.$form(policy.$value);)*
                $(self.$its(policy.$alone);)*
            }

            fn overrides(&mut self, overrides: &Overrides) {
                $(self.option(overrides.$value, Self::$form);)*
            }
        }

        impl Source<'_> {
            pub(super) fn policy(&mut self) -> Result<Policy, BadRecord> {
                Ok(Policy { $($value: self.$form()?,)* $($alone: self.$its()?,)* })
            }

            fn overrides(&mut self) -> Result<Overrides, BadRecord> {
                Ok(Overrides { $($value: self.option(Self::$form)?,)* })
            }
        }
    };
}

values! {
    by rule: {
        lease millis,
        max_failures number32,
        retry retry,
        ttl millis_or_none,
        on_expiry on_expiry,
        dedup_window dedup_window,
        max_in_flight number32_or_none,
        max_waiting number32_or_none,
        overflow overflow,
        coalesce coalesce,
        rate rate,
        run number32,
        weight number32,
    }
    alone: {
        quotas quotas,
        dispatch dispatch,
        ageing millis_or_none,
        retention retention,
    }
}

impl Sink<'_> {
    pub(super) fn rules(&mut self, rules: &Rules) {
        self.number(rules.iter().len() as u64);
        for Rule { pattern: Pattern { is_prefix, name }, overrides } in rules.iter() {
            self.flag(*is_prefix);
            self.string(name.as_bytes());
            self.overrides(overrides);
        }
    }

    fn millis(&mut self, millis: Millis) {
        self.number(millis.0);
    }

    fn millis_or_none(&mut self, millis: Option<Millis>) {
        self.option(millis, Self::millis);
    }

    fn number32_or_none(&mut self, number: Option<u32>) {
        self.option(number, Self::number32);
    }

    fn quotas(&mut self, quotas: Quotas) {
        let Quotas { messages, bytes, topics, connections } = quotas;
        [messages, bytes, topics, connections].into_iter().for_each(|quota| self.option(quota, Self::number));
    }

    fn retention(&mut self, retention: Retention) {
        self.millis_or_none(retention.age);
        self.option(retention.count, Self::number);
    }

    fn retry(&mut self, retry: Retry) {
        match retry {
            Retry::Head => self.byte(0),
            Retry::Tail => self.byte(1),
            Retry::Backoff { first, longest } => {
                self.byte(2);
                self.millis(first);
                self.millis(longest);
            }
        }
    }

    fn on_expiry(&mut self, on_expiry: OnExpiry) {
        self.flag(on_expiry == OnExpiry::Dead);
    }

    fn overflow(&mut self, overflow: Overflow) {
        self.flag(overflow == Overflow::DropOldest);
    }

    fn coalesce(&mut self, coalesce: Coalesce) {
        self.byte(match coalesce {
            Coalesce::Off => 0,
            Coalesce::KeepFirst => 1,
            Coalesce::KeepLatest => 2,
        });
    }

    fn dispatch(&mut self, dispatch: Dispatch) {
        self.flag(dispatch == Dispatch::Fair);
    }

    fn rate(&mut self, rate: Option<Rate>) {
        self.option(rate, |sink, Rate { count, period, burst }| {
            sink.number32(count);
            sink.millis(period);
            sink.number32(burst);
        });
    }

    fn dedup_window(&mut self, window: DedupWindow) {
        match window {
            DedupWindow::Off => self.byte(0),
            DedupWindow::For(window) => {
                self.byte(1);
                self.millis(window);
            }
            DedupWindow::Forever => self.byte(2),
        }
    }
}

impl Source<'_> {
    pub(super) fn rules(&mut self) -> Result<Rules, BadRecord> {
        let bad = self.bad("has rules that are none");
        let rules = self.list(|source| {
            let pattern = Pattern { is_prefix: source.flag()?, name: source.topic_name()? };
            Ok(Rule { pattern, overrides: source.overrides()? })
        });
        Rules::new(rules?).map_err(|_| bad)
    }

    fn millis_or_none(&mut self) -> Result<Option<Millis>, BadRecord> {
        self.option(Self::millis)
    }

    fn number32_or_none(&mut self) -> Result<Option<u32>, BadRecord> {
        self.option(Self::number32)
    }

    fn quotas(&mut self) -> Result<Quotas, BadRecord> {
        Ok(Quotas {
            messages: self.option(Self::number)?,
            bytes: self.option(Self::number)?,
            topics: self.option(Self::number)?,
            connections: self.option(Self::number)?,
        })
    }

    fn retention(&mut self) -> Result<Retention, BadRecord> {
        Ok(Retention { age: self.millis_or_none()?, count: self.option(Self::number)? })
    }

    fn retry(&mut self) -> Result<Retry, BadRecord> {
        Ok(match self.byte()? {
            0 => Retry::Head,
            1 => Retry::Tail,
            2 => Retry::Backoff { first: self.millis()?, longest: self.millis()? },
            _ => return Err(self.bad("has an unknown way to retry")),
        })
    }

    fn on_expiry(&mut self) -> Result<OnExpiry, BadRecord> {
        Ok(if self.flag()? { OnExpiry::Dead } else { OnExpiry::Drop })
    }

    fn overflow(&mut self) -> Result<Overflow, BadRecord> {
        Ok(if self.flag()? { Overflow::DropOldest } else { Overflow::Reject })
    }

    fn coalesce(&mut self) -> Result<Coalesce, BadRecord> {
        Ok(match self.byte()? {
            0 => Coalesce::Off,
            1 => Coalesce::KeepFirst,
            2 => Coalesce::KeepLatest,
            _ => return Err(self.bad("has an unknown way to coalesce")),
        })
    }

    fn dispatch(&mut self) -> Result<Dispatch, BadRecord> {
        Ok(if self.flag()? { Dispatch::Fair } else { Dispatch::Priority })
    }

    fn rate(&mut self) -> Result<Option<Rate>, BadRecord> {
        self.option(|source| {
            let (count, period, burst) = (source.number32()?, source.millis()?, source.number32()?);
            Ok(Rate { count, period, burst })
        })
    }

    fn dedup_window(&mut self) -> Result<DedupWindow, BadRecord> {
        Ok(match self.byte()? {
            0 => DedupWindow::Off,
            1 => DedupWindow::For(self.millis()?),
            2 => DedupWindow::Forever,
            _ => return Err(self.bad("has an unknown dedup window")),
        })
    }
}
