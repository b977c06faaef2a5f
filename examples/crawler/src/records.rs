//! What outlives the processes: a record of each page that is finished and of each seed. They are messages of a namespace
//! beside the crawl's own, named NAMESPACE.pages, and a topic is the key there too: each page has a topic of its own,
//! named by its address, so that one page can be looked up and all can be listed. Dedup ids are remembered for ever: a
//! page that is fetched twice, because a crawler was killed before its ack, still has one record. Nobody here consumes
//! them; whoever wants the pages can, fairly among the sites, for a site is a tenant there.

use bytes::Bytes;
use millpond_client::{Client, Listing, LookWhich, Message, MessageView, NamespaceName, TopicName, TopicRef, block};
use tokio::task::JoinSet;

use crate::address::Address;
use crate::failure::Failure;
use crate::tasks::{DEPTH, address, number};

/// What the topics of seeds begin with. No page's topic does: the host in front has a colon behind it.
const SEEDS: &str = "seeds/";
/// Topics of one page of a listing.
const TOPICS_PAGE: u32 = 1_000;
/// Looks that are under way at a time: enough to hide the round trip.
const LOOKS: usize = 256;

/// How a page ended that was not given up on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The site answered with it.
    Page,
    /// The site answered with another address, which was followed like a link.
    Redirect,
    /// The site does not have it, or does not give it: asking again would change nothing.
    Missing,
    /// The site asks crawlers to leave it alone, so it was not asked for.
    Barred,
}

/// A finished page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub address: Address,
    pub kind: Kind,
    /// The status of the answer; 0 where nothing was asked.
    pub status: u16,
    pub depth: u32,
    /// Links on the page that were published, each once however often it stands there.
    pub links: u64,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Page => "page",
            Kind::Redirect => "redirect",
            Kind::Missing => "missing",
            Kind::Barred => "barred",
        }
    }

    fn from_name(name: &[u8]) -> Option<Kind> {
        [Kind::Page, Kind::Redirect, Kind::Missing, Kind::Barred]
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }
}

impl Record {
    pub fn message(&self) -> Message {
        Message::new(self.address.topic_after(""), self.address.to_string())
            .dedup_id(self.address.dedup_id())
            .header("kind", self.kind.name())
            .header("status", self.status.to_string())
            .header(DEPTH, self.depth.to_string())
            .header("links", self.links.to_string())
    }

    fn read(view: &MessageView) -> Result<Record, String> {
        let parts = block::first(&view.block).map_err(|bad| bad.to_string())?;
        let header = |name: &str| {
            let found = block::headers(parts.headers).flatten().find(|(key, _)| *key == name.as_bytes());
            found.map(|(_, value)| value).ok_or(format!("it has no header `{name}`"))
        };
        let bad = |name: &str| format!("its header `{name}` makes no sense");
        Ok(Record {
            address: address(parts.body)?,
            kind: Kind::from_name(header("kind")?).ok_or(bad("kind"))?,
            status: number(header("status")?).ok_or(bad("status"))?,
            depth: number(header(DEPTH)?).ok_or(bad(DEPTH))?,
            links: number(header("links")?).ok_or(bad("links"))?,
        })
    }
}

/// The namespace of the records of a crawl.
pub fn pages_of(crawl: &NamespaceName) -> Result<NamespaceName, Failure> {
    let name = format!("{crawl}.pages");
    NamespaceName::try_from(name.as_str()).map_err(|reason| Failure::PagesName { name, reason })
}

/// The message that records a seed.
pub fn seed_message(seed: &Address) -> Message {
    Message::new(seed.topic_after(SEEDS), seed.to_string()).dedup_id(seed.dedup_id())
}

/// All seeds so far.
pub async fn seeds(client: &Client, pages: &NamespaceName) -> Result<Vec<Address>, Failure> {
    let mut seeds = Vec::new();
    each(client, pages, SEEDS, |view| {
        let parts = block::first(&view.block).map_err(|bad| bad.to_string())?;
        seeds.push(address(parts.body)?);
        Ok(())
    })
    .await?;
    Ok(seeds)
}

/// Hands over all records, each with when it was published, in milliseconds since the epoch.
pub async fn records(client: &Client, pages: &NamespaceName, mut take: impl FnMut(Record, u64)) -> Result<(), Failure> {
    each(client, pages, "", |view| {
        take(Record::read(view)?, view.published.0);
        Ok(())
    })
    .await
}

/// Hands over the message of each topic whose name begins with the prefix; of all but the seeds if it is empty. They
/// come in no order.
async fn each(
    client: &Client,
    pages: &NamespaceName,
    prefix: &'static str,
    mut take: impl FnMut(&MessageView) -> Result<(), String>,
) -> Result<(), Failure> {
    let is_asked_for = |name: &TopicName| !prefix.is_empty() || !name.as_bytes().starts_with(SEEDS.as_bytes());
    let (namespace, limit) = (pages.clone(), TOPICS_PAGE);
    let mut listing = Listing { namespace, prefix: Bytes::from_static(prefix.as_bytes()), after: Bytes::new(), limit };
    loop {
        let page = client.topics(listing.clone(), Default::default()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        listing.after = Bytes::copy_from_slice(last.name.as_bytes());
        let mut names = page.into_iter().map(|topic| topic.name).filter(is_asked_for);
        let mut looks = JoinSet::new();
        loop {
            for name in names.by_ref().take(LOOKS - looks.len()) {
                let (client, topic) = (client.clone(), TopicRef { namespace: pages.clone(), name });
                looks.spawn(async move {
                    let views = client.look(topic.clone(), LookWhich::First(1), None).await;
                    (topic, views)
                });
            }
            let Some(joined) = looks.join_next().await else { break };
            let (topic, views) = joined.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
            for view in views? {
                take(&view).map_err(|what| foreign(&topic, what))?;
            }
        }
    }
}

fn foreign(topic: &TopicRef, what: String) -> Failure {
    Failure::Foreign { namespace: topic.namespace.to_string(), topic: topic.name.to_string(), what }
}
