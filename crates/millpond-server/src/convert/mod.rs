//! The room between frames and the core: requests become commands, replies become responses.
//!
//! Nothing is decided here. A frame was checked by the codec when it was read, and a command is checked by the core when
//! it is decided; what is refused here is what neither of them can see, and of commands that nobody waits for what no state
//! would allow (see [`request::Refusal`]).

pub(crate) mod request;
pub(crate) mod response;
