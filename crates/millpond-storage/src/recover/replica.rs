//! What a journal's facts are applied to.

use millpond_core::fact::{Fact, FactLog};
use millpond_core::output::Holdings;
use millpond_core::page::{NumbersPage, Page};
use millpond_core::store::{Answer, Want};
use millpond_core::{Core, LevelBounds, Now};

use crate::store::LayeredStore;

/// A state that facts can be applied to: the core, or a test's stand-in for it.
pub trait Replica: Sized {
    /// The state of a fresh directory; what makes it is appended, [`Fact::Created`] first.
    fn create(hash_key: [u64; 2], store: LayeredStore, log: &mut dyn FactLog) -> Self;
    /// A state to which the facts of a journal are applied from [`Fact::Created`] on.
    fn empty(hash_key: [u64; 2], store: LayeredStore) -> Self;
    /// The state of a checkpoint, whose other topics are in the store; a sentence where its pages contradict one another.
    fn recover(store: LayeredStore, numbers: NumbersPage, pages: Vec<Page>) -> Result<Self, String>;
    /// What has to be handed in before a fact is applied. Asked for the facts of a batch in their order, until they need
    /// nothing more.
    fn needs(&mut self, fact: &Fact) -> Option<Want>;
    /// Hands in what a fact needs.
    fn recall(&mut self, answer: Answer);
    /// An epoch begins here, at this time: what comes from here on says anew where topics are, so a checkpoint may be made.
    fn pass_epoch(&mut self, now: Now);
    /// Applies a fact. `position` is what [`FactLog::append`] returned for it.
    fn apply(&mut self, fact: &Fact, position: u64);
    /// What the fact that was applied last has changed of what the groups hold.
    fn holdings(&mut self) -> &mut Holdings;
    /// Sets how much of each level stays in memory.
    fn set_bounds(&mut self, bounds: LevelBounds);
    /// Lets go of what need not be in memory, where it takes more than the room it has.
    fn make_room(&mut self, room: usize);
    /// Raises all numbers by so much over any that it knows of.
    fn raise(&mut self, by: u64, log: &mut dyn FactLog);
    /// Begins a checkpoint, and says what stands in it of numbers.
    fn freeze(&mut self) -> NumbersPage;
    /// Goes on with it by so many topics, and says whether it is complete; `None` if there is none.
    fn capture(&mut self, topics: usize) -> Option<bool>;
    /// How many topics have changed that are not in the store as they are.
    fn changed(&self) -> usize;
}

impl Replica for Core {
    fn create(hash_key: [u64; 2], store: LayeredStore, log: &mut dyn FactLog) -> Core {
        Core::create(hash_key, Box::new(store), log)
    }

    fn empty(hash_key: [u64; 2], store: LayeredStore) -> Core {
        Core::empty(hash_key, Box::new(store))
    }

    fn recover(store: LayeredStore, numbers: NumbersPage, pages: Vec<Page>) -> Result<Core, String> {
        Core::recover(Box::new(store), numbers, pages).map_err(|bad| bad.to_string())
    }

    fn needs(&mut self, fact: &Fact) -> Option<Want> {
        Core::needs(self, fact)
    }

    fn recall(&mut self, answer: Answer) {
        Core::recall(self, answer);
    }

    fn pass_epoch(&mut self, now: Now) {
        Core::pass_epoch(self, now);
    }

    fn apply(&mut self, fact: &Fact, position: u64) {
        Core::apply(self, fact, position);
    }

    fn holdings(&mut self) -> &mut Holdings {
        Core::holdings(self)
    }

    fn set_bounds(&mut self, bounds: LevelBounds) {
        Core::set_bounds(self, bounds);
    }

    fn make_room(&mut self, room: usize) {
        self.set_room(room);
        while Core::make_room(self) {}
    }

    fn raise(&mut self, by: u64, log: &mut dyn FactLog) {
        let NumbersPage { next_topic, high_water, raised, .. } = self.numbers();
        let raised = Fact::Raised { floor: next_topic.max(high_water).max(raised) + by };
        let position = log.append(&raised);
        Core::apply(self, &raised, position);
    }

    fn freeze(&mut self) -> NumbersPage {
        Core::freeze(self);
        self.numbers()
    }

    fn capture(&mut self, topics: usize) -> Option<bool> {
        self.is_capturing().then(|| Core::capture(self, topics))
    }

    fn changed(&self) -> usize {
        Core::changed(self)
    }
}
