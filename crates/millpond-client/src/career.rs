//! The career of one who would lead an exclusive group: candidate, inaugurated, in office, deposed, and again.
//!
//! Invariant: no message is handed out between offices, and none of one epoch in another.

use millpond_types::{LeaderEpoch, Role, Standing};
use tokio::sync::watch;

use crate::client::Client;
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::session::office::epoch_held;
use crate::subscription::{SubscribeOptions, Subscription};

/// A candidate for the office of an exclusive group, who leads it now and then:
///
/// ```no_run
/// # use millpond_client::{Career, Client, SubscribeOptions};
/// # async fn f(client: Client, options: SubscribeOptions) -> Result<(), millpond_client::Error> {
/// let mut career = Career::begin(&client, options).await?;
/// loop {
///     let epoch = career.inaugurated().await?;
///     println!("fencing my store with {}", epoch.0); // Others may still be finishing: nothing comes before they are done.
///     while let Some(delivery) = career.next().await? {
///         println!("{:?}", delivery.body); // A message that is in work when the office is lost may be finished.
///         client.ack(&delivery).await?;
///     }
///     println!("tidying up, for somebody else leads by now");
/// }
/// # }
/// ```
///
/// The broker promises that deliveries of one epoch begin when all leases of those before are over. It cannot promise that a
/// leader which was stopped or cut off has noticed: what matters outside of the broker is fenced with the epoch.
pub struct Career {
    subscription: Subscription,
    standing: watch::Receiver<Option<Standing>>,
    /// Of the office that was entered last.
    epoch: Option<LeaderEpoch>,
}

impl Career {
    /// Subscribes to an exclusive group.
    ///
    /// # Errors
    /// As for [`Client::subscribe`].
    pub async fn begin(client: &Client, options: SubscribeOptions) -> Result<Career> {
        let subscription = client.subscribe(options).await?;
        let standing = subscription.standing();
        Ok(Career { subscription, standing, epoch: None })
    }

    /// Waits for an office that was not entered before, and enters it. Its messages come from [`Career::next`], so whatever
    /// has to be prepared for them is prepared in between.
    ///
    /// # Errors
    /// `Closed` if the client is closed.
    pub async fn inaugurated(&mut self) -> Result<LeaderEpoch> {
        let before = self.epoch;
        let is_new = |told: &Option<Standing>| told.as_ref().and_then(epoch_held).filter(|epoch| Some(*epoch) > before);
        let told = self.standing.wait_for(|told| is_new(told).is_some()).await.map_err(|_| ended())?;
        let epoch = is_new(&told).expect("this was waited for");
        drop(told);
        self.epoch = Some(epoch);
        Ok(epoch)
    }

    /// Waits for the next message of the office that was entered; `None` once it is lost. Loses nothing when it is cancelled.
    ///
    /// # Errors
    /// As for [`Subscription::next`].
    pub async fn next(&mut self) -> Result<Option<Delivery>> {
        let epoch = self.epoch;
        let is_over = |told: &Option<Standing>| told.as_ref().and_then(epoch_held) != epoch;
        tokio::select! {
            biased;
            told = self.standing.wait_for(is_over) => {
                drop(told.map_err(|_| ended())?);
                self.subscription.drop_unseen();
                Ok(None)
            }
            delivery = self.subscription.next() => delivery.map(Some),
        }
    }

    /// What it is now.
    pub fn role(&self) -> Option<Role> {
        self.standing.borrow().as_ref().map(|standing| standing.role)
    }

    /// Gives the office up, and waits for it again behind all others.
    ///
    /// # Errors
    /// As for [`Subscription::resign`].
    pub async fn resign(&self) -> Result<()> {
        self.subscription.resign().await
    }

    /// Ends the career: the office goes to the next one as soon as what was handed out is finished.
    ///
    /// # Errors
    /// As for [`Subscription::close`].
    pub async fn retire(self) -> Result<()> {
        self.subscription.close().await
    }
}

fn ended() -> Error {
    Error::Closed { reason: "the subscription has ended".to_owned() }
}
