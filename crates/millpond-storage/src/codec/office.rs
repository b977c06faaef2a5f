//! The byte forms of a group's kind and of its office.

use millpond_core::page::OfficePage;
use millpond_types::{GroupKind, LeaderEpoch, OfficeTerms, RunTime, SessionId};

use super::{BadRecord, Sink, Source};

impl Sink<'_> {
    pub(super) fn group_kind(&mut self, kind: GroupKind) {
        match kind {
            GroupKind::Shared => self.byte(0),
            GroupKind::Exclusive(terms) => {
                self.byte(1);
                self.office_terms(terms);
            }
        }
    }

    pub(super) fn office(&mut self, office: &OfficePage) {
        let OfficePage { terms, epoch, leader, outgoing } = *office;
        self.office_terms(terms);
        self.number(epoch.0);
        self.option(leader, |sink, session| sink.number(session.0));
        self.option(outgoing, |sink, (session, until)| {
            sink.number(session.0);
            sink.number(until.0);
        });
    }

    fn office_terms(&mut self, OfficeTerms { term, handover }: OfficeTerms) {
        self.number(term.0);
        self.number(handover.0);
    }
}

impl Source<'_> {
    pub(super) fn group_kind(&mut self) -> Result<GroupKind, BadRecord> {
        match self.byte()? {
            0 => Ok(GroupKind::Shared),
            1 => self.office_terms().map(GroupKind::Exclusive),
            _ => Err(self.bad("has an unknown kind of group")),
        }
    }

    pub(super) fn office(&mut self) -> Result<OfficePage, BadRecord> {
        Ok(OfficePage {
            terms: self.office_terms()?,
            epoch: self.leader_epoch()?,
            leader: self.option(Source::session)?,
            outgoing: self.option(|source| Ok((source.session()?, RunTime(source.number()?))))?,
        })
    }

    pub(super) fn leader_epoch(&mut self) -> Result<LeaderEpoch, BadRecord> {
        self.number().map(LeaderEpoch)
    }

    pub(super) fn session(&mut self) -> Result<SessionId, BadRecord> {
        self.number().map(SessionId)
    }

    fn office_terms(&mut self) -> Result<OfficeTerms, BadRecord> {
        Ok(OfficeTerms { term: self.millis()?, handover: self.millis()? })
    }
}
